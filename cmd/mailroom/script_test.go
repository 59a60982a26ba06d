package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/client"
	"mailroom/cmd/mailroom/internal/folder"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mailroom": main})
}

// Sessions of a user: each file of testdata is one. Beside the commands of
// testscript they have
//
//	server [ARG…]       start a server on a free port, wait until it listens
//	shutdown            end it with SIGTERM, wait until it has exited with 0
//	crash               end it with SIGKILL
//	exits CODE CMD…     as exec, for a command that must exit with CODE
//	await THREAD KIND   until the thread's stream has an entry of KIND, or a "delta"
//	field NAME PATH     set variable NAME to a field of the JSON in stdout's first line
func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("MAILROOM_DATA", env.WorkDir+"/data")
			s := &process{}
			env.Values[processKey{}] = s
			env.Defer(func() { s.kill() })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server":   scriptServer,
			"shutdown": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(current(ts).shutdown()) },
			"crash":    func(ts *testscript.TestScript, _ bool, _ []string) { current(ts).kill() },
			"exits":    scriptExits,
			"await":    scriptAwait,
			"field":    scriptField,
		},
	})
}

type processKey struct{}

func current(ts *testscript.TestScript) *process { return ts.Value(processKey{}).(*process) }

func scriptServer(ts *testscript.TestScript, _ bool, args []string) {
	env := append(os.Environ(), "HOME="+ts.Getenv("HOME"), "MAILROOM_DATA="+ts.Getenv("MAILROOM_DATA"))
	ts.Check(current(ts).start(ts.MkAbs("."), env, args...))
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
	ts.Check(await(folder.Folder(ts.Getenv("MAILROOM_DATA")), args[0], args[1]))
}

// await follows a thread until it has an entry of this kind, or a delta.
func await(dir folder.Folder, thread, kind string) error {
	at, err := dir.Address()
	if err != nil {
		return err
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := errors.New("seen")
	err = client.New(at.URL, token).Follow(ctx, client.FollowQuery{Thread: thread}, func(ev client.Event) error {
		if ev.Delta != nil && kind == "delta" || ev.Entry != nil && ev.Entry.Kind == kind {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		return fmt.Errorf("no %s in %s: %w", kind, thread, err)
	}
	return nil
}

// patience bounds waits of tests that hang only when they fail.
const patience = 30 * time.Second

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

// process is a server of its own process. It belongs to one test.
type process struct {
	cmd    *exec.Cmd
	url    string
	lines  *bufio.Reader // its standard error
	log    *os.File      // a copy of it
	drains chan error    // one: the end of copying it
}

// start runs mailroom serve until it listens. Its standard error goes to
// server.log in dir.
func (p *process) start(dir string, env []string, args ...string) error {
	if p.cmd != nil {
		return errors.New("the server is already there")
	}
	p.cmd = exec.Command("mailroom", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	p.cmd.Dir, p.cmd.Env = dir, env
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if p.log, err = os.Create(dir + "/server.log"); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.lines, p.drains = bufio.NewReader(io.TeeReader(stderr, p.log)), make(chan error, 1)
	line, err := p.until("listening on ")
	_, p.url, _ = strings.Cut(line, "listening on ")
	p.url, _, _ = strings.Cut(p.url, ",")
	if err != nil {
		p.kill()
		return fmt.Errorf("the server does not listen: %w", err)
	}
	return nil
}

// until reads the server's talk up to a line with these words.
func (p *process) until(words string) (string, error) {
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil || strings.Contains(line, words) {
			return line, err
		}
	}
}

// shutdown ends the server in order.
func (p *process) shutdown() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.wait()
}

func (p *process) wait() error {
	_, err := io.Copy(io.Discard, p.lines)
	err = errors.Join(err, p.cmd.Wait(), p.log.Close())
	p.cmd = nil
	return err
}

// kill ends the server at once, if it is there.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.wait()             // which says that it was killed
}
