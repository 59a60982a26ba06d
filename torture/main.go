// Command torture kills a Mailroom server repeatedly with SIGKILL, at random times and at named
// points, and checks that it keeps its promises.
//
// It starts the real server as a child process, works on it over HTTP as several concurrent users,
// keeps a journal of the answers, and follows threads over live streams. After each kill it starts
// the server on the same folder and compares the journal, the logs, the streams and the external
// effects of agents. It exits with code 0 if they agree, and otherwise with code 1 and a report of
// the first violations.
//
//	torture -plain bin/mailroom -tagged bin/mailroom-torture [-cycles 100] [-nodes N [-old PROGRAM]] [-seed N] [-data DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command. It returns 0 without violations, 1 with violations or after an error, 2 for
// a usage error.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(errs)
	plain := flags.String("plain", "bin/mailroom", "the server")
	tagged := flags.String("tagged", "bin/mailroom-torture", "server binary built with the tag torture")
	old := flags.String("old", "",
		"server binary of another version, also built with the tag torture: each start of one of several servers draws one of the two")
	cycles := flags.Int("cycles", 100, "number of kills")
	seed := flags.Uint64("seed", 0, "random seed; 0 picks one")
	servers := flags.Int("nodes", 1, "number of servers; several share a private PostgreSQL cluster")
	data := flags.String("data", "", "new folder to keep (default: a temporary one, kept after a violation)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 || *cycles < 1 || *servers < 1 || *servers > 10 {
		fmt.Fprintln(errs,
			"unexpected arguments, no cycles, or no servers: use flags only, -cycles 1 or more, and -nodes 1 to 10")
		return 2
	}
	if *old != "" && *servers < 2 {
		fmt.Fprintln(errs, "-old needs several servers: use -nodes 2 or more")
		return 2
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t, err := newTorture(*plain, *tagged, *data, *cycles, *seed)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	t.nodes, t.lease = *servers, 3*time.Second
	if *old != "" {
		if t.old, err = filepath.Abs(*old); err == nil {
			_, err = os.Stat(t.old)
		}
		if err != nil {
			fmt.Fprintln(errs, "missing server binary:", err)
			return 1
		}
	}
	t.progress = func(format string, args ...any) { fmt.Fprintf(out, format, args...) }
	return t.report(ctx, out, errs, *data != "")
}

func newTorture(plain, tagged, dir string, cycles int, seed uint64) (*torture, error) {
	for _, binary := range []*string{&plain, &tagged} {
		abs, err := filepath.Abs(*binary)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("missing server binary: %w", err)
		}
		*binary = abs
	}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "mailroom-torture-")
		if err != nil {
			return nil, err
		}
		dir = temporary
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		return nil, fmt.Errorf("%s was used before: use a new folder", dir)
	}
	j, err := newJournal(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		return nil, err
	}
	t := &torture{
		plain: plain, tagged: tagged, dir: dir, cycles: cycles, seed: seed, threads: newThreadNames(), journal: j,
		logs: map[string]*threadLog{}, steady: map[string]*reader{}, texts: map[string]int{}, collected: map[string]int64{},
		runs: map[string]*threadLog{}, keys: map[string]*operation{}, histories: map[string]*history{},
		stop: func(error) {}, progress: func(string, ...any) {},
	}
	for _, thread := range t.threads.all() {
		t.steady[thread] = t.reader(thread, "the reader", 0)
	}
	for i := range 8 {
		t.roving = append(t.roving, t.reader(t.threads.echo[i], fmt.Sprintf("roving reader %d", i+1), 0))
	}
	return t, nil
}

// report runs all cycles and reports the result.
func (t *torture) report(ctx context.Context, out, errs io.Writer, keep bool) int {
	begin := time.Now()
	ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	run := t.run
	if t.nodes > 1 {
		run = t.runNodes
	}
	err := run(ctx)
	if closing := t.journal.close(); err == nil {
		err = closing
	}
	t.summary(out)
	fmt.Fprintf(out, "took %s\n", time.Since(begin).Round(time.Second))
	if err == nil && len(t.violations()) == 0 {
		fmt.Fprintln(out, "no violations")
		if !keep {
			err = os.RemoveAll(t.dir)
		} else {
			fmt.Fprintln(out, "data and journal are in "+t.dir)
		}
		if err == nil {
			return 0
		}
	}
	if len(t.violations()) > 0 {
		t.printViolations(errs)
	} else {
		fmt.Fprintln(errs, err)
	}
	fmt.Fprintf(errs, "\nseed %d; data and journal are in %s\n", t.seed, t.dir)
	return 1
}
