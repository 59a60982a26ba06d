// Command mailroom is a durable mailbox for agents: the server, and the commands
// that talk to it.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"mailroom/internal/recovery"
)

func main() { os.Exit(run()) }

// run cancels the command's context at the first SIGINT or SIGTERM. It restores the
// default handling first, so that a second signal ends the process at once.
func run() int {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if os.Getenv("GOGC") == "" {
		tuneGC()
	}
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(signalled, func() {
		defer recovery.Log(nil, "signal handler")
		stop()
		cancel()
	})()
	m := Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Unsetenv: os.Unsetenv, Name: os.Args[0]}
	return m.Run(ctx, os.Args[1:])
}
