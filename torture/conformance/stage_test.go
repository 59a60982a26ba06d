package conformance

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mailroom/client"
	"mailroom/internal/machinetest"
)

// patience bounds waits for states that take milliseconds, on a machine that may be busy. It measures nothing.
var patience = flag.Duration("patience", 3*time.Minute, "a bound for machines that hang")

// column is one of the workers that the suite drives.
type column struct {
	name    string
	command []string // the program and its arguments before the name of the agent; empty: the agent inside the server
	env     []string
	after   []string // arguments after the name
}

const inside = "inside"

// process is a server or a worker.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended

	mu    sync.Mutex
	lines []string // last lines of the process's output; guarded by mu
	ready chan string
}

// start starts a program. ready gets the first line of its stderr that contains the text.
func start(command []string, env []string, text string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{}), ready: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process, which its owner kills
		defer close(p.exited)
		p.read(out, text)
		_ = p.cmd.Wait() // p.cmd.ProcessState says how the process ended
	}()
	return p, nil
}

func (p *process) read(out io.Reader, text string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.lines = p.lines[max(0, len(p.lines)-20):]
		p.mu.Unlock()
		if text != "" && strings.Contains(lines.Text(), text) {
			p.ready <- lines.Text()
			text = ""
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.exited
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// server is a server process and its folders, which outlive it.
type server struct {
	binary, data string
	dir          string // of the agent inside
	process      *process
	url, token   string
	env          []string
}

// newServer starts a server with the settings of a scenario.
func newServer(t testing.TB, binary string, of *scenario) *server {
	t.Helper()
	s := &server{binary: binary, data: t.TempDir(), dir: newNotes(t)}
	if err := s.begin(t, of); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin configures a server, starts it, and ends it with the test.
func (s *server) begin(t testing.TB, of *scenario) error {
	config := "log_level = \"warn\"\nshutdown_grace = \"2s\"\nstop_grace = \"3s\"\n" +
		"[retry]\nfirst = \"10ms\"\nmost = \"50ms\"\n"
	if of.Lease != "" {
		config = fmt.Sprintf("lease = %q\nrenew = \"400ms\"\nsweep = \"100ms\"\n", of.Lease) + config
	}
	if of.Deadline != "" {
		config = fmt.Sprintf("run_deadline = %q\n", of.Deadline) + config
	}
	file := filepath.Join(s.data, "mailroom.toml")
	err := errors.Join(os.Chmod(s.data, 0o700), os.WriteFile(file, []byte(config), 0o600))
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		s.process.kill()
		s.diagnose(t)
		if t.Failed() && s.process != nil {
			t.Logf("output of the server:\n%s", s.process.output())
		}
	})
	return s.start()
}

// newNotes makes the folder of an agent.
func newNotes(t testing.TB) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts the process, on a port of its own each time.
func (s *server) start() (err error) {
	s.process, err = start([]string{s.binary, "serve", "--listen", "127.0.0.1:0", "--data", s.data},
		append(s.env, "CONFORMANCE_DIR="+s.dir), "listening on ")
	if err != nil {
		return err
	}
	late := time.NewTimer(*patience)
	defer late.Stop()
	select {
	case line := <-s.process.ready:
		_, url, _ := strings.Cut(line, "listening on ")
		s.url, _, _ = strings.Cut(url, ",")
	case <-s.process.exited:
		return fmt.Errorf("the server has ended: %s", s.process.output())
	case <-late.C:
		s.process.kill()
		return fmt.Errorf("the server does not listen: %s", s.process.output())
	}
	token, err := os.ReadFile(filepath.Join(s.data, "token"))
	s.token = strings.TrimSpace(string(token))
	return err
}

// diagnose runs the doctor on the store.
func (s *server) diagnose(t testing.TB) {
	t.Helper()
	out, err := exec.Command(s.binary, "doctor", "--data", s.data).CombinedOutput()
	if err != nil {
		t.Errorf("mailroom doctor: %v\n%s", err, out)
	}
}

func (s *server) client() *client.Client {
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.New(s.url, s.token, client.WithHTTPClient(once))
}

// stage is where scenarios are played: workers of one agent, and the network between them and a server.
type stage struct {
	t       testing.TB
	column  column
	server  *server
	proxy   *proxy
	agent   string
	dir     string // has the notes of the agent, and the files that open gates
	workers []*process
}

// newStage starts a worker of an agent, or none inside the server.
func newStage(t testing.TB, c column, s *server, agent string, faults []fault) *stage {
	t.Helper()
	g := &stage{t: t, column: c, server: s, agent: agent, dir: s.dir}
	if c.name == inside {
		g.agent = inside
		return g
	}
	g.dir = newNotes(t)
	var err error
	if g.proxy, err = newProxy(s.url); err != nil {
		t.Fatal(err)
	}
	g.proxy.arm(faults...)
	g.proxy.onKill = func() { g.kill() }
	if err := g.startWorker(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

func (g *stage) close() {
	for _, w := range g.workers {
		_ = w.signal(syscall.SIGCONT) // it is killed all the same
		w.kill()
		if g.t.Failed() {
			g.t.Logf("output of a worker:\n%s", w.output())
		}
	}
	if err := g.proxy.close(); err != nil {
		g.t.Error(err)
	}
}

// startWorker starts another worker and waits until the server knows it.
func (g *stage) startWorker() error {
	if g.column.name == inside {
		return g.server.start()
	}
	before, err := g.registered()
	if err != nil {
		return err
	}
	w, err := g.launch(g.server.token)
	if err != nil {
		return err
	}
	return g.until("the worker has registered", func() (bool, error) {
		if w.hasExited() {
			return false, fmt.Errorf("the worker has ended: %s", w.output())
		}
		now, err := g.registered()
		return slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(before, id) }), err
	})
}

// launch starts a worker with a token.
func (g *stage) launch(token string) (*process, error) {
	command := append(append(slices.Clone(g.column.command), g.agent), g.column.after...)
	env := append(slices.Clone(g.column.env), "MAILROOM_URL="+g.proxy.url(), "MAILROOM_TOKEN="+token,
		"CONFORMANCE_DIR="+g.dir)
	w, err := start(command, env, "")
	if err == nil {
		g.workers = append(g.workers, w)
	}
	return w, err
}

// registered returns the ids of the workers that serve the agent.
func (g *stage) registered() (ids []string, err error) {
	all, err := g.server.client().Workers(g.t.Context())
	for _, w := range all {
		if slices.Contains(w.Agents, g.agent) {
			ids = append(ids, w.ID)
		}
	}
	return ids, err
}

// worker returns the process that serves the agent: the newest worker, or the server.
func (g *stage) worker() *process {
	if g.column.name == inside {
		return g.server.process
	}
	return g.workers[len(g.workers)-1]
}

func (g *stage) kill() { g.worker().kill() }

// until waits for a state. It looks less often the longer it waits, because each look is a request of its own: a state
// is seen an eighth later than it is there.
func (g *stage) until(what string, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), *patience)
	defer cancel()
	for begin := time.Now(); ; {
		ok, err := check()
		if ok || err != nil {
			return err
		}
		waitFor(ctx, min(max(20*time.Millisecond, time.Since(begin)/8), 250*time.Millisecond))
		if ctx.Err() != nil {
			return fmt.Errorf("after %s this is still not so: %s", patience, what)
		}
	}
}

// notes returns the lines that attempts of a run have noted, without the run and the attempt in front of them.
func (g *stage) notes(run string) (lines []string, err error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "notes"))
	for line := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) == 3 && words[0] == run {
			lines = append(lines, words[2])
		}
	}
	return lines, err
}

// open opens a gate of a run.
func (g *stage) open(run, gate string) error {
	return os.WriteFile(filepath.Join(g.dir, "gate."+run+"."+gate), nil, 0o600)
}

// programs has the server with the agent inside, which is built once.
var programs struct {
	once   sync.Once
	dir    string
	failed error
}

// binary returns the server.
func binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(programs.dir, "mailroom")
	programs.once.Do(func() { programs.failed = machinetest.Build(path, "torture", "../../cmd/mailroom") })
	if programs.failed != nil {
		t.Fatal(programs.failed)
	}
	return path
}
