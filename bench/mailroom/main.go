package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"mailroom/app/command"
	"mailroom/app/node"
)

func main() { os.Exit(run()) }

// run cancels the measurement at the first SIGINT or SIGTERM, so that it removes its files. A second signal ends the
// process.
func run() int {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if os.Getenv("GOGC") == "" {
		node.TuneGC() // tunes the garbage collector as the server does
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	con := &command.Console{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Environ: os.Environ,
		Unsetenv: os.Unsetenv, Name: os.Args[0]}
	if err := rootCommand(con).ExecuteContext(ctx); err != nil {
		return con.ReportError(ctx, err)
	}
	return command.ExitDone
}
