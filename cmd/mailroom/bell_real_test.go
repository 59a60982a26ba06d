//go:build realagents

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/internal/fakemodel"
)

// reader plays a model that reads its inbox when a bell says so: it peeks, removes what it has seen, and goes on until
// the inbox is empty.
type reader struct {
	name    string // of the program
	mu      sync.Mutex
	read    []string          // owned by mu; texts of the messages that were removed
	seen    map[string]string // owned by mu; texts by activity
	hold    chan struct{}     // owned by mu; if not nil, a turn of the user waits for its end
	turns   int               // owned by mu; turns that a bell began
	bell    string            // owned by mu; what the last one of them began with
	began   time.Time         // owned by mu; when a bell last began a turn
	rests   bool              // owned by mu; the last answer was that nothing more waits
	last    string            // owned by mu; activity that is being removed
	changed chan struct{}     // gets a value after each read
}

func (m *reader) call(tool string, in map[string]any) fakemodel.Answer {
	c := fakemodel.Call{Namespace: "mcp__mailroom", Name: tool, Input: in}
	switch m.name {
	case "gemini":
		c = fakemodel.Call{Name: "mcp_mailroom_" + tool, Input: in}
	case "opencode":
		c = fakemodel.Call{Name: "mailroom_" + tool, Input: in}
	case "claude":
		c = fakemodel.Call{Name: "mcp__mailroom__" + tool, Input: in}
	}
	return fakemodel.Answer{Calls: []fakemodel.Call{c}}
}

func (m *reader) play(r fakemodel.Request) fakemodel.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(r.Tools) == 0 { // a title for the session
		return fakemodel.Reply("Mail")
	}
	m.rests = false
	text, ok := r.Result()
	if from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); from >= 0 && to > from {
		text = text[from : to+1] // gemini says around it that it is not trusted
	}
	var got struct {
		Items   []struct{ Activity_id, Text string }
		Removed *bool
	}
	switch {
	case !ok:
		return m.begin(r)
	case json.Unmarshal([]byte(text), &got) != nil:
		return m.call("inbox_peek", map[string]any{"limit": 1}) // the tools were loaded
	case got.Removed != nil:
		if *got.Removed {
			m.read = append(m.read, m.seen[m.last])
			m.changed <- struct{}{}
		}
		return m.call("inbox_peek", map[string]any{"limit": 1})
	case len(got.Items) > 0:
		m.last = got.Items[0].Activity_id
		m.seen[m.last] = got.Items[0].Text
		return m.call("inbox_pop", map[string]any{"activity_id": m.last})
	}
	m.rests = true
	m.changed <- struct{}{}
	return fakemodel.Reply("Nothing more waits.")
}

// begin answers what a turn begins with: a bell, or a message of the user, during which the session is busy.
func (m *reader) begin(r fakemodel.Request) fakemodel.Answer {
	said := lastUser(r)
	if strings.Contains(said, "Tool loaded.") { // claude says so after a search for tools
		return m.call("inbox_peek", map[string]any{"limit": 1})
	}
	if strings.Contains(said, "ask me") {
		name := "bash"
		if m.name == "claude" {
			name = "Bash"
		}
		return fakemodel.Answer{Calls: []fakemodel.Call{{Name: name,
			Input: map[string]any{"command": "touch made", "description": "Make"}}}}
	}
	if !strings.Contains(said, "Mailroom notice") {
		return fakemodel.Answer{Text: []string{"I work."}, Hold: m.hold}
	}
	m.turns++
	m.bell = said
	m.began = time.Now()
	if m.name == "claude" {
		return fakemodel.Answer{Calls: []fakemodel.Call{{Name: "ToolSearch",
			Input: map[string]any{"query": "select:mcp__mailroom__inbox_peek,mcp__mailroom__inbox_pop"}}}}
	}
	return m.call("inbox_peek", map[string]any{"limit": 1})
}

func (m *reader) turnsBegun() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turns
}

// lastBell returns what the user has said at the begin of the last turn that a bell began.
func (m *reader) lastBell() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bell
}

// lastUser returns what the user has said since the model's last turn.
func lastUser(r fakemodel.Request) (text string) {
	for _, t := range r.Turns {
		switch t.Role {
		case "user":
			text += t.Text + "\n"
		case "assistant", "tool-call":
			text = ""
		}
	}
	return text
}

// shown is a program in a terminal of its own.
type shown struct {
	t    *testing.T
	cmd  *exec.Cmd
	side *os.File // the other side of the terminal
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer // owned by mu
}

func show(t *testing.T, dir string, words ...string) *shown {
	t.Helper()
	x := &shown{t: t, cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	x.cmd.Dir, x.cmd.Env = dir, append(os.Environ(), "TERM=xterm-256color")
	x.side = terminal(t, x.cmd)
	if err := unix.IoctlSetWinsize(int(x.side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160}); err != nil {
		t.Fatal(err)
	}
	go x.read()
	t.Cleanup(x.kill)
	return x
}

// read answers what the program asks its terminal, and keeps what it shows.
func (x *shown) read() {
	defer close(x.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := x.side.Read(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.out.Write(buf[:n])
		x.mu.Unlock()
		if bytes.Contains(buf[:n], []byte("\x1b[6n")) {
			_, _ = x.side.WriteString("\x1b[1;1R")
		}
		if bytes.Contains(buf[:n], []byte("\x1b[c")) {
			_, _ = x.side.WriteString("\x1b[?1;2c")
		}
	}
}

// enter types a text and the key Enter.
func (x *shown) enter(text string) {
	_, _ = x.side.WriteString(text)
	<-time.After(time.Second) // a key that follows at once counts as a part of a paste
	_, _ = x.side.WriteString("\r")
}

// kill ends the program with SIGKILL.
func (x *shown) kill() {
	_ = x.cmd.Process.Kill() // it may have ended
	_ = x.cmd.Wait()
	_ = x.side.Close()
	<-x.done
	if x.t.Failed() {
		x.t.Logf("the terminal showed %d bytes", x.out.Len())
	}
}

// realSession is a real program in a terminal, connected with an inbox by `mailroom connect`.
type realSession struct {
	*shown
	h     *fixture
	model *reader
	name  string
	words []string
	dir   string
	// silent says that the MCP server rings nothing.
	silent bool
}

func newRealSession(t *testing.T, name string, connect func(s *realSession)) *realSession {
	t.Helper()
	m := &reader{name: name, seen: map[string]string{}, changed: make(chan struct{}, 10_000)}
	model := realPrograms(t, m.play)
	t.Setenv("XDG_STATE_HOME", "") // codex passes its MCP servers HOME and no more
	h := newFixture(t, "")
	h.serve()
	s := &realSession{h: h, model: m, name: name, dir: t.TempDir()}
	switch name {
	case "opencode":
		configureOpencode(t, model.URL)
		s.words = []string{"opencode", "--prompt", "hello"} // a session exists from its first message on
	case "claude":
		s.words = []string{"claude", "--allowedTools", "mcp__mailroom__inbox_peek,mcp__mailroom__inbox_pop"}
		config, err := json.Marshal(map[string]any{
			"hasCompletedOnboarding": true, "theme": "dark",
			"customApiKeyResponses": map[string]any{"approved": []string{os.Getenv("ANTHROPIC_API_KEY")}},
			"projects": map[string]any{s.dir: map[string]any{"hasTrustDialogAccepted": true,
				"hasCompletedProjectOnboarding": true}}})
		h.must(err)
		h.must(os.MkdirAll(os.Getenv("CLAUDE_CONFIG_DIR"), 0o700))
		h.must(os.WriteFile(filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), ".claude.json"), config, 0o600))
	default:
		s.words = []string{"codex", "--dangerously-bypass-approvals-and-sandbox"}
		path := filepath.Join(os.Getenv("CODEX_HOME"), "config.toml")
		old, err := os.ReadFile(path)
		h.must(err)
		h.must(os.WriteFile(path, fmt.Appendf(old, "\n[projects.%q]\ntrust_level = \"trusted\"\n", s.dir), 0o600))
	}
	if name == "codex" {
		endDaemonOfCodex(t)
	}
	connect(s)
	s.open()
	return s
}

// connect connects the program by `mailroom connect`.
func (s *realSession) connect() {
	for range 2 { // the second time changes nothing
		cmd := exec.Command("mailroom", "connect", s.name, "--inbox", "mine", "--yes")
		cmd.Env = append(os.Environ(), "MAILROOM_DATA="+string(s.h.dir))
		out, err := cmd.CombinedOutput()
		if s.h.t.Logf("$ mailroom connect %s --inbox mine --yes\n%s", s.name, out); err != nil {
			s.h.t.Fatal(err)
		}
	}
}

// disconnect looks that `mailroom disconnect` takes the entry back.
func (s *realSession) disconnect() {
	s.h.t.Helper()
	cmd := exec.Command("mailroom", "disconnect", s.name, "--yes")
	cmd.Env = append(os.Environ(), "MAILROOM_DATA="+string(s.h.dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.h.t.Errorf("disconnect: %v: %s", err, out)
	}
	if s.name == "opencode" || s.name == "gemini" {
		return
	}
	if out, err := exec.Command(s.name, "mcp", "get", "mailroom").CombinedOutput(); err == nil {
		s.h.t.Errorf("%s still has the MCP server: %s", s.name, out)
	}
}

// open starts the program and waits until its MCP server listens.
func (s *realSession) open() {
	s.shown = show(s.h.t, s.dir, s.words...)
	if !s.silent {
		s.listens(s.name + " ")
	}
}

// listens waits until the list of inboxes shows a living listener with this text.
func (s *realSession) listens(text string) {
	s.h.t.Helper()
	s.listensTimes(1, text)
}

// listensTimes waits until the list of inboxes shows n living listeners with this text.
func (s *realSession) listensTimes(n int, text string) {
	s.h.t.Helper()
	for end := time.Now().Add(waitTimeout); ; {
		var out bytes.Buffer
		s.h.runAtHome(&out, "inbox", "list")
		found := 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, text) && !strings.Contains(line, "killed") {
				found++
			}
		}
		if found == n {
			return
		}
		if time.Now().After(end) {
			s.h.t.Fatalf("not %d listeners %q: %s\n%s", n, text, out.String(), s.shown.out.String())
		}
		<-time.After(200 * time.Millisecond)
	}
}

// awaitWaiting waits until n messages wait in an inbox.
func (h *fixture) awaitWaiting(inbox string, n int) {
	h.t.Helper()
	for end := time.Now().Add(waitTimeout); ; <-time.After(50 * time.Millisecond) {
		var out bytes.Buffer
		h.runAtHome(&out, "inbox", "list", "-o", "json")
		if strings.Contains(out.String(), fmt.Sprintf(`"inbox":%q`, inbox)) &&
			strings.Contains(out.String(), fmt.Sprintf(`"waiting":%d`, n)) {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("not %d messages wait in %s: %s", n, inbox, out.String())
		}
	}
}

// runAtHome is run with the home of the programs.
func (h *fixture) runAtHome(stdout *bytes.Buffer, args ...string) {
	h.t.Helper()
	m := Main{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stdout, Env: func(name string) string {
		if name == "HOME" {
			return os.Getenv(name)
		}
		return h.env(name)
	}}
	m.Run(h.t.Context(), args)
}

// wantRead waits until n messages were read and the session is idle, and returns how long the reading took.
func (s *realSession) wantRead(n int) time.Duration {
	s.h.t.Helper()
	begin := time.Now()
	took := time.Duration(0)
	for {
		s.model.mu.Lock()
		got, rests := len(s.model.read), s.model.rests
		s.model.mu.Unlock()
		if took == 0 && got >= n {
			took = time.Since(begin)
		}
		if took > 0 && rests {
			return took
		}
		select {
		case <-s.model.changed:
		case <-time.After(2 * time.Minute):
			s.h.t.Fatalf("%d messages were read, want %d: %s", got, n, s.shown.out.String())
		}
	}
}

// killServer ends the MCP server of the session with SIGKILL.
func (s *realSession) killServer() {
	s.h.t.Helper()
	var out bytes.Buffer
	s.h.runAtHome(&out, "inbox", "list", "-o", "json")
	var page struct {
		Items []struct {
			Listeners []struct {
				PID   int
				Ended bool
			}
		}
	}
	s.h.must(json.Unmarshal(out.Bytes(), &page))
	for _, l := range slices.Backward(page.Items[0].Listeners) { // the daemon of codex keeps older ones
		if !l.Ended {
			s.h.must(syscall.Kill(l.PID, syscall.SIGKILL))
			return
		}
	}
	s.h.t.Fatalf("nothing listens: %s", out.String())
}

// readWithin reports whether n messages are read within a time.
func (s *realSession) readWithin(n int, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		s.model.mu.Lock()
		got := len(s.model.read)
		s.model.mu.Unlock()
		if got >= n {
			return true
		}
	}
	return false
}

// TestRealSessionsReadMailWhenTheyAreRung lets real sessions read while they are idle and busy, and over kills of the
// server, of the session and of its MCP server.
func TestRealSessionsReadMailWhenTheyAreRung(t *testing.T) {
	for _, name := range []string{"claude", "codex"} {
		t.Run(name, func(t *testing.T) {
			s := newRealSession(t, name, (*realSession).connect)
			n := 0
			var sent time.Time
			send := func(what string) {
				n++
				sent = time.Now()
				s.h.sendTo("mine", fmt.Sprintf("%d: %s", n, what))
			}
			read := func(what string) { t.Logf("%-40s read after %s", what, s.wantRead(n).Round(time.Millisecond)) }

			var waits []time.Duration
			for range 10 {
				send("to an idle session")
				read("an idle session")
				s.model.mu.Lock()
				waits = append(waits, s.model.began.Sub(sent))
				s.model.mu.Unlock()
				<-time.After(time.Second) // until the program shows that it is idle
			}
			slices.Sort(waits)
			t.Logf("from the submit to the turn of an idle session: half up to %s, the longest %s",
				waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))

			hold := make(chan struct{})
			s.model.mu.Lock()
			s.model.hold = hold
			s.model.mu.Unlock()
			s.enter("work for a while")
			s.h.sendTo("mine", "to a busy session")
			n++
			<-time.After(2 * time.Second)
			close(hold)
			read("a busy session")

			address := strings.TrimPrefix(s.h.server.url, "http://")
			s.h.server.kill()
			s.h.process(s.h.server, "--listen", address)
			send("after a kill of the server")
			read("the server was killed before the message")

			send("before a kill of the server")
			s.h.server.kill()
			s.h.process(s.h.server, "--listen", address)
			read("the server was killed after the message")

			s.shown.kill()
			send("without a session")
			s.open()
			read("the session was killed before the message")

			send("before a kill of the session")
			s.shown.kill()
			s.open()
			read("the session was killed after the message")

			s.killServer()
			send("after a kill of the MCP server")
			t.Logf("the MCP server was killed: read without a new session: %v", s.readWithin(n, 20*time.Second))
			s.shown.kill()
			s.open()
			read("the MCP server was killed, and the session opened again")

			s.disconnect()
			for text, count := range countTexts(s.model.read) {
				if count != 1 {
					t.Errorf("%q was read %d times", text, count)
				}
			}
			if len(s.model.read) != n {
				t.Errorf("read %q, want %d messages", s.model.read, n)
			}
			t.Logf("%d turns began with a bell", s.model.turns)
		})
	}
}

// TestRealClaudeIsRungByItsHook lets a session of claude, whose MCP server rings nothing, be rung by the hook that
// connect has made. A session without a terminal does not wait for the hook.
func TestRealClaudeIsRungByItsHook(t *testing.T) {
	var settings string
	own := []byte("{\n  \"hooks\": {\n    \"Stop\": [\n      " +
		`{"hooks": [{"type": "command", "command": "true"}]}` + "\n    ]\n  }\n}\n")
	s := newRealSession(t, "claude", func(s *realSession) {
		settings = filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "settings.json")
		s.h.must(os.WriteFile(settings, own, 0o600))
		s.connect()
		s.silence(true)
	})
	if out, err := exec.CommandContext(t.Context(), "claude", "-p", "hello").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	<-time.After(5 * time.Second)
	s.enter("hello") // the hook begins with the end of the first turn
	s.listens("hook ")
	for n := range 3 {
		s.h.sendTo("mine", fmt.Sprint("message ", n))
		t.Logf("message %d was read after %s", n, s.wantRead(n+1).Round(time.Millisecond))
		s.listens("hook ")
	}
	if want := []string{"message 0", "message 1", "message 2"}; !slices.Equal(s.model.read, want) {
		t.Errorf("read %q, want %q", s.model.read, want)
	}
	s.silence(false)
	s.disconnect()
	if left, err := os.ReadFile(settings); err != nil || !bytes.Equal(left, own) {
		t.Errorf("after the disconnect the settings are %s (%v), want %s", left, err, own)
	}
}

// TestRealClaudeThatIsHeldIsShown lets a session of claude ask its user, and another one bypass permissions. The first
// reads when it has its answer; the second keeps what a program says.
func TestRealClaudeThatIsHeldIsShown(t *testing.T) {
	t.Run("asks its user", func(t *testing.T) {
		s := newRealSession(t, "claude", func(s *realSession) {
			s.connect()
			s.words = append(s.words, "--permission-mode", "default")
		})
		<-time.After(3 * time.Second)
		s.enter("ask me")
		s.listens("held: it waits for its user: permission prompt")
		s.h.sendTo("mine", "one")
		s.enter("")
		t.Logf("%-40s read after %s", "a session that waited for its user", s.wantRead(1).Round(time.Millisecond))
	})
	t.Run("bypasses permissions", func(t *testing.T) {
		s := newRealSession(t, "claude", func(s *realSession) {
			s.connect()
			t.Setenv("IS_SANDBOX", "1") // otherwise claude refuses the mode as root
			s.words = append(s.words, "--dangerously-skip-permissions")
			s.silent = true // it asks first
		})
		<-time.After(4 * time.Second)
		s.enter("\x1b[B") // the second choice accepts the mode
		s.listens("claude ")
		<-time.After(2 * time.Second)
		s.enter("hello") // the hook knows the mode from the end of the first turn on
		s.listens("hook ")
		s.h.sendTo("mine", "one")
		s.listens("held: a session that bypasses permissions keeps messages")
	})
}

// silence keeps the MCP server of claude from ringing, as one does that claude reaches over HTTP, or undoes that.
func (s *realSession) silence(silent bool) {
	path := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), ".claude.json")
	text, err := os.ReadFile(path)
	s.h.must(err)
	var config map[string]any
	s.h.must(json.Unmarshal(text, &config))
	server := config["mcpServers"].(map[string]any)["mailroom"].(map[string]any)
	args := server["args"].([]any)
	if server["args"] = append(args, "--silent"); !silent {
		server["args"] = args[:len(args)-1]
	}
	text, err = json.Marshal(config)
	s.h.must(err)
	s.h.must(os.WriteFile(path, text, 0o600))
	s.silent = silent
}

func countTexts(all []string) map[string]int {
	counts := map[string]int{}
	for _, text := range all {
		counts[text]++
	}
	return counts
}
