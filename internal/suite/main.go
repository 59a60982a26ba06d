// Command suite runs the steps of make test. It says from the start what it does, prints whole lines of the steps that
// run in parallel and a line of progress every few seconds, and ends with a summary: the time of each step, the slowest
// packages, and the output of everything that failed.
//
// Make alone cannot do this: its output of parallel targets is either mixed or held back to their end, and go test
// holds back the results of quick packages until a slow one before them has ended. The command uses the standard
// library only, so that it is built in a second where nothing is compiled yet but that library.
//
// For make module, its argument is the path that the module of the working directory gets. For make
// test-real-agents, its arguments are agents and a command that prints the output of go test -json: the end is a table.
// For make vet, its arguments are types, a system, a processor and the folders of programs: see checkTypes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// progressEvery is the time between two lines of progress.
const progressEvery = 15 * time.Second

func main() {
	// A shell that starts make in the background makes it ignore interrupts, and the programs that tests start would
	// inherit that. This process catches interrupts, so those programs start with the default action.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 2 && os.Args[1] == "agents" {
		if !testAgents(ctx, newScreen(os.Stdout), os.Args[2:]) {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 4 && os.Args[1] == "types" {
		if err := checkTypes(ctx, os.Args[2], os.Args[3], os.Args[4:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 {
		if err := moveModule(os.Stdout, ".", os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "module:", err)
			os.Exit(2)
		}
		return
	}
	moved, err := moveTemporary(volumeInMemory(), os.Getenv, os.Setenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	s, err := newSuite(steps(), newScreen(os.Stdout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	s.screen.say("make test runs %s. Without caches it takes up to half an hour on two processors; this machine has %d.",
		s.names(), runtime.NumCPU())
	if moved {
		s.screen.say("Temporary files of tests are in memory, in %s; with TMPDIR=folder they are there.", inMemory)
	}
	ok := s.run(ctx, progressEvery)
	s.summarize()
	switch {
	case ctx.Err() != nil:
		os.Exit(130)
	case !ok:
		os.Exit(1)
	}
}
