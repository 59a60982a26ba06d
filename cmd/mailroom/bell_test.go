package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/api"
	"mailroom/protocol/mcp"
)

// claudeSocket is the socket of a session that does not exist, and what was written to it.
type claudeSocket struct {
	t       *testing.T
	notices chan string
}

// newClaudeSocket serves a socket and sets the variables that a session gives its MCP servers.
func newClaudeSocket(t *testing.T) *claudeSocket {
	t.Helper()
	s, path := serveClaudeSocket(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("CLAUDE_CODE_MESSAGING_SOCKET", path)
	t.Setenv("CLAUDE_CODE_MESSAGING_TOKEN", "secret")
	t.Setenv("CLAUDE_CODE_SESSION_ID", "the-session")
	return s
}

// serveClaudeSocket serves a socket and returns its path.
func serveClaudeSocket(t *testing.T) (s *claudeSocket, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bell") // a path that is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	s = &claudeSocket{t, make(chan string, 1000)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewScanner(conn); in.Scan(); {
				var line struct{ Message struct{ Content string } }
				if err := json.Unmarshal(in.Bytes(), &line); err != nil {
					t.Errorf("the socket got %q", in.Text())
				}
				if line.Message.Content != "" {
					s.notices <- line.Message.Content
				}
			}
			_ = conn.Close() // the client has gone
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s, path
}

// rung waits for the next notice.
func (s *claudeSocket) rung() string {
	s.t.Helper()
	select {
	case text := <-s.notices:
		return text
	case <-time.After(waitTimeout):
		s.t.Fatal("the session was not rung")
		return ""
	}
}

// TestABellRingsOverKills kills the server and the MCP server between each two steps of a message, and looks that the
// session is rung and the message read once.
func TestABellRingsOverKills(t *testing.T) {
	for _, killed := range []string{"nothing", "the server", "the MCP server"} {
		for _, moment := range []string{"before the message", "after the message", "after the ring", "after the pop"} {
			if killed == "nothing" && moment != "after the ring" {
				continue
			}
			t.Run(killed+" "+moment, func(t *testing.T) {
				socket := newClaudeSocket(t)
				h := newFixture(t, "")
				p := &process{}
				h.process(p)
				me := h.startMailbox("mine")
				at := func(now string) {
					if now != moment {
						return
					}
					switch killed {
					case "the server":
						p.kill()
						h.process(p, "--listen", strings.TrimPrefix(p.url, "http://"))
					case "the MCP server":
						me.kill()
						me = h.startMailbox("mine")
					}
				}
				var row mcp.Row
				var timeout struct{ Timeout bool }
				me.must("wait_for_message", map[string]any{"timeout_secs": 0.1}, &timeout) // creates the inbox
				at("before the message")
				h.sendTo("mine", "one")
				at("after the message")
				if text := socket.rung(); !strings.Contains(text, `1 message waits in your inbox "mine"`) ||
					strings.Contains(text, "one") {
					t.Errorf("the session was told %q", text)
				}
				at("after the ring")
				me.must("wait_for_message", nil, &row)
				var popped mcp.Popped
				me.must("inbox_pop", map[string]any{"activity_id": row.Activity}, &popped)
				if row.Text != "one" || !popped.Removed {
					t.Errorf("read %+v, %+v", row, popped)
				}
				at("after the pop")
				me.must("wait_for_message", map[string]any{"timeout_secs": 0.1}, &timeout)
				if !timeout.Timeout {
					t.Error("the message is there after its pop")
				}
				// The next message is rung, as the first was; until then a restarted MCP server may have rung once more.
				h.sendTo("mine", "two")
				socket.rung()
				var out bytes.Buffer
				if code, stderr := h.runWithListeners(&out, "inbox", "list"); code != exitDone ||
					!strings.Contains(out.String(), "claude the-session") {
					t.Errorf("list: exit code %d: %s%s", code, stderr, out.String())
				}
			})
		}
	}
}

// sendTo sends a message without waiting for its answer.
func (h *fixture) sendTo(thread, text string, more ...string) {
	h.t.Helper()
	args := append([]string{"send", "--thread", thread, "--detach", text}, more...)
	if code, stderr := h.run(h.t.Context(), io.Discard, args...); code != exitDone {
		h.t.Fatalf("send: exit code %d: %s", code, stderr)
	}
}

// A hook that outlived its session would keep the place of the next hook when the session is opened again.
func TestAHookEndsWithItsSession(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("CLAUDE_CODE_SESSION_ID", "the-session")
	h := newFixture(t, "")
	h.serve()
	session := exec.Command("sh", "-c", "mailroom inbox wait mine --rewake & read -r line")
	session.Env = append(os.Environ(), "MAILROOM_DATA="+string(h.dir))
	_, err := session.StdinPipe() // read waits for its end
	h.must(err)
	h.must(session.Start())
	h.awaitListener(true)
	h.must(session.Process.Kill())
	_ = session.Wait() // its error is the kill
	h.awaitListener(false)
}

// awaitListener waits until the list of inboxes has the session, or has it no more.
func (h *fixture) awaitListener(listed bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), waitTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var out bytes.Buffer
		code, stderr := h.runWithListeners(&out, "inbox", "list")
		if code == exitDone && strings.Contains(out.String(), "the-session") == listed {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("listed: %t, exit code %d: %s%s", !listed, code, stderr, out.String())
		}
	}
}

func TestASocketThatOthersCouldReplaceIsShownAndNotRung(t *testing.T) {
	socket := newClaudeSocket(t)
	h := newFixture(t, "")
	h.serve()
	h.must(os.Chmod(filepath.Dir(os.Getenv("CLAUDE_CODE_MESSAGING_SOCKET")), 0o777))
	h.startMailbox("mine")
	h.sendTo("mine", "one", "--agent", "inbox")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var out bytes.Buffer
		h.runWithListeners(&out, "inbox", "list")
		if strings.Contains(out.String(), "other users can change the folder of its socket") {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the list does not show it:\n%s", out.String())
		}
	}
	if len(socket.notices) > 0 {
		t.Errorf("the socket got %q", <-socket.notices)
	}
}

// mailbox is an MCP server that can be killed.
type mailbox struct {
	*mcpClient
	cmd *exec.Cmd
}

func (h *fixture) startMailbox(thread string, env ...string) *mailbox {
	h.t.Helper()
	cmd := exec.Command("mailroom", "mcp", "--thread", thread)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), env...), h.t.Output()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(h.t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	h.must(err)
	h.t.Cleanup(func() { _ = s.Close() }) // it may have been killed
	return &mailbox{&mcpClient{h.t, s}, cmd}
}

// kill ends the server with SIGKILL and waits until it has ended.
func (m *mailbox) kill() {
	m.t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		m.t.Fatal(err)
	}
	_ = m.session.Close() // waits; its error is the kill
}

// runWithListeners is run with the folder of listeners of this test.
func (h *fixture) runWithListeners(stdout io.Writer, args ...string) (code int, stderr string) {
	var output bytes.Buffer
	m := Main{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &output, Env: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return os.Getenv(name)
		}
		return h.env(name)
	}}
	code = m.Run(h.t.Context(), args)
	return code, output.String()
}

// TestMailToManySessionsIsReadOnce sends messages to five sessions that read only when they are rung, and looks that
// each is read once. BELL_MESSAGES is their number; the log says how long each waited for its session.
func TestMailToManySessionsIsReadOnce(t *testing.T) {
	n := 50
	if given, err := strconv.Atoi(os.Getenv("BELL_MESSAGES")); err == nil {
		n = given
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h := newFixture(t, "")
	h.serve()
	type reading struct {
		text   string
		waited time.Duration
	}
	read := make(chan reading, 2*n)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	const sessions = 5
	for i := range sessions {
		socket, path := serveClaudeSocket(t)
		me := h.startMailbox(fmt.Sprint("box-", i), "CLAUDE_CODE_MESSAGING_SOCKET="+path,
			fmt.Sprint("CLAUDE_CODE_SESSION_ID=session-", i))
		var timeout struct{ Timeout bool }
		me.must("wait_for_message", map[string]any{"timeout_secs": 0.1}, &timeout) // creates the inbox
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-socket.notices:
				}
				for {
					var rows mcp.Rows
					if me.call("inbox_peek", map[string]any{"limit": 1}, &rows) != "" || len(rows.Items) == 0 {
						break
					}
					row := rows.Items[0]
					waited := time.Since(row.CreatedAt)
					var popped mcp.Popped
					refused := me.call("inbox_pop", map[string]any{"activity_id": row.Activity}, &popped)
					if refused == "" && popped.Removed {
						read <- reading{row.Text, waited}
					}
				}
			}
		})
	}
	token, err := h.dir.Token()
	h.must(err)
	c := h.as(token)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		_, err := c.Submit(t.Context(), api.Submit{Thread: fmt.Sprint("box-", i%sessions), Text: fmt.Sprint(i)})
		h.must(err)
	}
	counts, waits := map[string]int{}, make([]time.Duration, 0, n)
	for len(counts) < n {
		select {
		case r := <-read:
			counts[r.text]++
			waits = append(waits, r.waited)
		case <-time.After(waitTimeout):
			t.Fatalf("%d of %d messages were read", len(counts), n)
		}
	}
	close(stop)
	readers.Wait()
	close(read)
	for r := range read { // what was read twice
		counts[r.text]++
	}
	for text, times := range counts {
		if times != 1 {
			t.Errorf("message %s was read %d times", text, times)
		}
	}
	slices.Sort(waits)
	t.Logf("%d messages to %d sessions: half waited up to %s, 99 of 100 up to %s, the longest %s", n, sessions,
		waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
}
