package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	dir, err := os.MkdirTemp("", "bell") // a path that is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	s := &claudeSocket{t, make(chan string, 100)}
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
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("CLAUDE_CODE_MESSAGING_SOCKET", path)
	t.Setenv("CLAUDE_CODE_MESSAGING_TOKEN", "secret")
	t.Setenv("CLAUDE_CODE_SESSION_ID", "the-session")
	return s
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
func (h *fixture) sendTo(thread, text string) {
	h.t.Helper()
	if code, stderr := h.run(h.t.Context(), io.Discard, "send", "--thread", thread, "--detach", text); code != exitDone {
		h.t.Fatalf("send: exit code %d: %s", code, stderr)
	}
}

// mailbox is an MCP server that can be killed.
type mailbox struct {
	*mcpClient
	cmd *exec.Cmd
}

func (h *fixture) startMailbox(thread string) *mailbox {
	h.t.Helper()
	cmd := exec.Command("mailroom", "mcp", "--thread", thread)
	cmd.Env, cmd.Stderr = append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), h.t.Output()
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
