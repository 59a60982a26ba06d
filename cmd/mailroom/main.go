// Command mailroom is a durable mailbox for agents: the server, and the commands
// that talk to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run ends the context of the command at the first signal and restores the
// default, by which the second one ends the process at once.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	m := Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv}
	return m.Run(ctx, os.Args[1:])
}
