package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// crashVariable makes the test program crash when the first run has ended: "run" in a goroutine started
// by a run's goroutine, "server" in a goroutine without a run.
const crashVariable = "MAILROOM_TEST_CRASH"

// crashingChild is the main function of the test program.
func crashingChild() {
	of := os.Getenv(crashVariable)
	if of == "" {
		main()
		return
	}
	stderr := &crashWriter{Writer: os.Stderr, ended: make(chan struct{})}
	if of == "run" {
		// The text imitates the report of a goroutine without a run.
		stderr.crash = func() { panic("broken\n\ngoroutine 1 [running]:\nmain.main()\n") }
	} else {
		go func() { // ends the process
			<-stderr.ended
			panic("broken\n\ngoroutine 1 [running, labels:{\"run\": \"r1\"}]:\nmain.main()\n")
		}()
	}
	m := Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: stderr, Env: os.Getenv, Unsetenv: os.Unsetenv, Name: "mailroom"}
	os.Exit(m.Run(context.Background(), os.Args[1:]))
}

// crashWriter crashes the process when the log says that an attempt has ended. The engine writes that
// line in the goroutine of the run.
type crashWriter struct {
	io.Writer
	ended chan struct{}
	crash func() // runs in a goroutine started by the logging one; nil: ended is closed
}

func (c *crashWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if strings.Contains(string(b), "attempt ended") {
		if c.crash != nil {
			go c.crash() // ends the process
		} else {
			close(c.ended)
		}
		select {}
	}
	return n, err
}

func TestACrashThatNoRunCausedIsChargedToNone(t *testing.T) {
	h := newFixture(t, "log_level = \"debug\"\n"+gatedConfig+"[agents.echo]\nkind = \"echo\"\n")
	t.Setenv("GODEBUG", "tracebacklabels=0") // the server must enable the labels itself
	var bystander string
	attempt := 0
	// running waits until the next process has claimed the other run.
	running := func() api.Run {
		t.Helper()
		attempt++
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		for ev, err := range h.client().Follow(ctx, client.FollowQuery{Thread: "held"}) {
			h.must(err)
			if ev.Entry != nil && ev.Entry.Kind == entry.KindStarted && ev.Entry.Attempt == attempt {
				break
			}
		}
		r, err := h.client().Run(t.Context(), bystander)
		h.must(err)
		if r.Status != mailroom.StatusRunning || r.Attempt != attempt {
			t.Fatalf("the other run is %s in attempt %d with %d crashes, want it to run in attempt %d", r.Status, r.Attempt,
				r.Crashes, attempt)
		}
		return r
	}
	crash := func(of string) {
		t.Helper()
		t.Setenv(crashVariable, of)
		p := &process{}
		h.process(p)
		if bystander == "" {
			bystander = h.startRunOf("gated", "held", "hello", entry.KindStarted)
		}
		running()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends with the server
			<-p.exited
			cancel()
		}()
		h.run(ctx, io.Discard, "send", "--agent", "echo", "--detach", "hello") // the server may crash before it responds
		<-ctx.Done()
		if p.exit == nil || !strings.Contains(p.output.all(), "panic: broken") {
			t.Fatalf("the server ended with %v, want a crash", p.exit)
		}
	}
	for range mailroom.MaxCrashes {
		crash("server")
	}
	crash("run")
	t.Setenv(crashVariable, "")
	p := &process{}
	h.process(p)
	if r := running(); r.Crashes != 1 {
		t.Errorf("the other run has %d crashes, want 1, for the crash in a run", r.Crashes)
	}
	h.wantReports(p)
	p.kill()
	h.process(&process{})
	if r := running(); r.Crashes != 2 {
		t.Errorf("after a kill, which leaves no report: %d crashes, want 2", r.Crashes)
	}
}

// wantReports checks the crash reports in the folder, and what the server p logged about the last one.
func (h *fixture) wantReports(p *process) {
	h.t.Helper()
	reports, err := filepath.Glob(filepath.Join(string(h.dir), "crash-*.txt"))
	h.must(err)
	if len(reports) != 3 {
		h.t.Fatalf("reports %q, want the last three", reports)
	}
	last := reports[2]
	line, err := p.until("previous server crashed")
	h.must(err)
	if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "report="+last) ||
		!strings.Contains(line, "charged_to_runs=true") {
		h.t.Errorf("log line %q, want WARN with the name of %s", line, last)
	}
	text, err := os.ReadFile(last)
	h.must(err)
	if !strings.HasPrefix(string(text), "panic: broken\n") {
		h.t.Errorf("report %q, want it to begin with the panic", text)
	}
	for _, name := range append(reports, filepath.Join(string(h.dir), "crash.txt")) {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			h.t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}
	}
}
