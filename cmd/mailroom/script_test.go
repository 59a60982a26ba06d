package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom"
	"mailroom/app/datadir"
	"mailroom/client"
	"mailroom/internal/machinetest"
	"mailroom/issues/bd"
)

func TestMain(m *testing.M) {
	commands := machinetest.Main{M: m, Packages: []string{".", "../bd"}}
	testscript.Main(commands, map[string]func(){"mailroom": crashingChild, "budgetworker": budgetWorker, "bd": func() {
		os.Exit(bd.RunProcess(context.Background(), "bd", "", nil))
	}})
}

// TestSessions runs each file of testdata as a session of a user. In addition to the commands of
// testscript, the files can use
//
//	server [ARG…]       start a server on a free port, wait until it is ready: it listens, and its workers are registered
//	shutdown            end the server with SIGTERM, wait until it has exited with 0
//	crash               kill the server with SIGKILL
//	ended               wait until the server has exited with 0 by itself
//	gone                wait until the server was killed by another command
//	freeze, thaw        stop the server's process with SIGSTOP, and continue it
//	exits CODE CMD…     like exec, for a command that must exit with CODE
//	untouched CODE CMD… like exits, for a command that must not change the data folder
//	sql STATEMENT       change rows of a closed store
//	load FILE           create the store from SQL in a file of the source tree
//	damage FILE         overwrite the last page of a database
//	await THREAD KIND   until the thread's stream has an entry of KIND, or a "delta"
//	indexed             until every message can be found
//	becomes ID STATUS   until an issue of the tracker here has a status
//	open TEXT           write into the pipe named gate when it has a reader
//	field NAME PATH     set variable NAME to a field of the JSON in stdout's first line
//	watched             from here on, exec runs the test program, which the race detector watches, as server always does
func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", machinetest.Path())
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("MAILROOM_DATA", env.WorkDir+"/data")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each command takes a second to exit under -race
			s := &process{}
			env.Values[processKey{}] = s
			env.Defer(func() { s.kill() })
			return syscall.Mkfifo(env.WorkDir+"/gate", 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server":   scriptServer,
			"indexed":  scriptIndexed,
			"shutdown": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(current(ts).shutdown()) },
			"crash":    func(ts *testscript.TestScript, _ bool, _ []string) { current(ts).kill() },
			"ended":    func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(current(ts).wait()) },
			"gone":     scriptGone,
			"freeze": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(current(ts).cmd.Process.Signal(syscall.SIGSTOP))
			},
			"thaw": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(current(ts).cmd.Process.Signal(syscall.SIGCONT))
			},
			"exits":     scriptExits,
			"untouched": scriptUntouched,
			"sql":       scriptSQL,
			"load":      scriptLoad,
			"falsify":   scriptFalsify,
			"damage":    scriptDamage,
			"await":     scriptAwait,
			"becomes":   scriptBecomes,
			"field":     scriptField,
			"watched":   func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("PATH", os.Getenv("PATH")) },
			"open": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(openGate(ts.MkAbs("gate"), strings.Join(args, " ")))
			},
		},
	})
}

type processKey struct{}

func current(ts *testscript.TestScript) *process { return ts.Value(processKey{}).(*process) }

func scriptServer(ts *testscript.TestScript, _ bool, args []string) {
	env := append(os.Environ(), "HOME="+ts.Getenv("HOME"), "MAILROOM_DATA="+ts.Getenv("MAILROOM_DATA"),
		"PATH="+ts.Getenv("PATH"))
	port, err := machinetest.Hold() // until the end of the script: what talks to a killed server meets no other one
	ts.Check(err)
	ts.Defer(func() { ts.Check(port.Release()) })
	p := current(ts)
	ts.Check(p.start(ts.MkAbs("."), env, append([]string{"--listen", port.Addr}, args...)...))
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err = client.New(p.url, "").Ready(ctx); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return // the script says what it expects of it
		case <-ctx.Done():
			ts.Fatalf("the server is not ready: %v", err)
		}
	}
}

func scriptGone(ts *testscript.TestScript, _ bool, _ []string) {
	if err := current(ts).wait(); err == nil {
		ts.Fatalf("the server exited with 0, want it killed")
	}
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	got := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code is %d, want %s", got, args[0])
	}
}

func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await THREAD KIND")
	}
	ts.Check(awaitEntry(datadir.Dir(ts.Getenv("MAILROOM_DATA")), args[0], args[1]))
}

// awaitEntry follows a thread until it has an entry of the kind, or a delta if the kind is "delta".
func awaitEntry(dir datadir.Dir, thread, kind string) error {
	at, err := dir.Address()
	if err != nil {
		return err
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := followTo(ctx, client.New(at.URL, token), thread, kind)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound { // else the server makes the thread after its start
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// followTo follows a thread that exists until it has an entry of the kind.
func followTo(ctx context.Context, c *client.Client, thread, kind string) error {
	for ev, err := range c.Follow(ctx, client.FollowQuery{Thread: thread}) {
		switch {
		case err != nil:
			return fmt.Errorf("no %s in %s: %w", kind, thread, err)
		case ev.Delta != nil && kind == "delta", ev.Entry != nil && ev.Entry.Kind == kind:
			return nil
		}
	}
	return fmt.Errorf("no %s in %s, whose stream ended", kind, thread)
}

func scriptIndexed(ts *testscript.TestScript, _ bool, _ []string) {
	dir := datadir.Dir(ts.Getenv("MAILROOM_DATA"))
	at, err := dir.Address()
	ts.Check(err)
	token, err := dir.Token()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for {
		found, err := client.New(at.URL, token).Search(ctx, client.SearchQuery{Q: "any"})
		if ts.Check(err); found.Complete {
			return
		}
	}
}

// openGate writes text into the pipe at path when it has a reader.
func openGate(gate, text string) error {
	f, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// waitTimeout bounds waits; only a failing test reaches it.
const waitTimeout = 5 * time.Minute

func scriptField(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: field NAME PATH")
	}
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	var v any
	ts.Check(json.Unmarshal([]byte(line), &v))
	for key := range strings.SplitSeq(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(x) {
				ts.Fatalf("no %s in %s", args[1], line)
			}
			v = x[i]
		}
	}
	if v == nil {
		ts.Fatalf("no %s in %s", args[1], line)
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// process is a server in a child process. It belongs to one test.
type process struct {
	program string               // path; "" means mailroom on the PATH
	attr    *syscall.SysProcAttr // attributes of the process; may be nil
	extra   []*os.File           // that the process inherits, from descriptor 3 on

	cmd    *exec.Cmd // nil while no process runs
	url    string
	output *transcript
	exited chan struct{} // closed when the process has ended and exit is set
	exit   error
}

// start starts mailroom serve and waits until it listens. Its standard error goes to server.log in dir.
func (p *process) start(dir string, env []string, args ...string) error {
	if p.cmd != nil {
		return errors.New("the server is already there")
	}
	log, err := os.Create(dir + "/server.log")
	if err != nil {
		return err
	}
	cmd := exec.Command(cmp.Or(p.program, "mailroom"), append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.SysProcAttr, cmd.ExtraFiles = p.attr, p.extra
	p.output, p.exited = &transcript{log: log, grown: make(chan struct{}, 1)}, make(chan struct{})
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, p.output
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	p.cmd = cmd
	go func() { // ends with the process; wait waits for it
		p.exit = errors.Join(cmd.Wait(), log.Close())
		close(p.exited)
	}()
	line, err := p.until("listening on ")
	if err != nil {
		p.kill()
		return err
	}
	_, p.url, _ = strings.Cut(line, "listening on ")
	p.url, _, _ = strings.Cut(p.url, ",")
	return nil
}

// until waits for a line of the server's output that contains words.
func (p *process) until(words string) (string, error) {
	late := time.After(waitTimeout)
	for {
		if line := p.output.line(words); line != "" {
			return line, nil
		}
		select {
		case <-p.output.grown:
		case <-p.exited:
			return "", fmt.Errorf("the server has ended: %w", p.exit)
		case <-late:
			return "", fmt.Errorf("timeout waiting for the output %q", words)
		}
	}
}

// shutdown stops the server with SIGTERM.
func (p *process) shutdown() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.wait()
}

// wait waits until the server has exited.
func (p *process) wait() error {
	select {
	case <-p.exited:
	case <-time.After(waitTimeout):
		return errors.New("the server does not end")
	}
	p.cmd = nil
	return p.exit
}

// kill kills the server, if it runs.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
	p.cmd = nil
}

// transcript records the output of a server.
type transcript struct {
	log   io.Writer
	grown chan struct{} // one slot; receives after each write

	mu   sync.Mutex
	text strings.Builder // owned by mu
}

func (t *transcript) Write(b []byte) (int, error) {
	n, err := t.log.Write(b) // first, so that a line that was seen is in the log
	t.mu.Lock()
	t.text.Write(b)
	t.mu.Unlock()
	select {
	case t.grown <- struct{}{}:
	default:
	}
	return n, err
}

func (t *transcript) line(words string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.Lines(t.text.String()) {
		if strings.Contains(line, words) && strings.HasSuffix(line, "\n") {
			return line
		}
	}
	return ""
}

func (t *transcript) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
