package bell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"mailroom/protocol/bell"
)

// socketFolder returns a folder whose path is short enough for a socket.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bell") // mode 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// listen serves a socket and returns what each connection wrote.
func listen(t *testing.T, path string) <-chan []string {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var lines []string
			for in := bufio.NewScanner(conn); in.Scan(); {
				lines = append(lines, in.Text())
			}
			_ = conn.Close() // the client has gone
			got <- lines
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return got
}

func TestClaudeGetsTheNoticeOverItsSocket(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	got := listen(t, path)
	c, ok := bell.ClaudeFrom(func(name string) string {
		return map[string]string{"CLAUDE_CODE_MESSAGING_SOCKET": path, "CLAUDE_CODE_MESSAGING_TOKEN": "secret",
			"CLAUDE_CODE_SESSION_ID": "the-session"}[name]
	})
	if !ok {
		t.Fatal("the session was not found")
	}
	const said = "2 messages wait"
	if err := c.Ring(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	lines := <-got
	if len(lines) != 2 || lines[0] != `{"type":"auth","token":"secret"}` {
		t.Fatalf("lines %q, want the token and a message", lines)
	}
	var m struct {
		Type, Priority string
		Version        int     `json:"msgV"`
		ID             string  `json:"msg_id"`
		Session        *string `json:"session_id"`
		Message        struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(lines[1]), &m); err != nil {
		t.Fatal(err)
	}
	if m.Type != "user" || m.Version != 1 || m.Session != nil || m.ID == "" || m.Priority != "next" ||
		m.Message.Role != "user" || m.Message.Content != said {
		t.Errorf("message %s", lines[1])
	}
	if _, ok := bell.ClaudeFrom(func(string) string { return "" }); ok {
		t.Error("a process without a session has one")
	}
}

func TestASocketThatIsNotTheSessionsIsNotRung(t *testing.T) {
	for name, place := range map[string]func(t *testing.T, dir, path string){
		"none":         func(*testing.T, string, string) {},
		"a plain file": func(t *testing.T, _, path string) { must(t, os.WriteFile(path, nil, 0o600)) },
		"an open folder": func(t *testing.T, dir, path string) {
			listen(t, path)
			must(t, os.Chmod(dir, 0o777))
		},
		"a link to a socket": func(t *testing.T, dir, path string) {
			listen(t, filepath.Join(dir, "other"))
			must(t, os.Symlink(filepath.Join(dir, "other"), path))
		},
		"a dead session": func(t *testing.T, _, path string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			must(t, err)
			l.SetUnlinkOnClose(false) // as after a kill
			must(t, l.Close())
		},
		"another user's": func(t *testing.T, _, path string) {
			listen(t, path)
			if os.Geteuid() != 0 {
				must(t, os.Chmod(filepath.Dir(path), 0o777)) // only root can give a file away
				return
			}
			must(t, os.Chown(path, 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := socketFolder(t)
			path := filepath.Join(dir, "s")
			place(t, dir, path)
			err := (&bell.Claude{Socket: path, Session: "s"}).Ring(t.Context(), "1 message waits")
			if !errors.Is(err, bell.ErrGone) {
				t.Errorf("got %v, want that the session is gone", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
