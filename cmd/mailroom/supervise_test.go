package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom/entry"
	"mailroom/internal/machinetest"
)

// notified starts a server that notifies a service manager, and returns the manager's end.
func (h *fixture) notified(p *process, socket string, env ...string) *net.UnixConn {
	h.t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	h.must(err)
	h.t.Cleanup(func() { conn.Close() })
	env = slices.Concat(os.Environ(), env, []string{"MAILROOM_DATA=" + string(h.dir), "NOTIFY_SOCKET=" + socket,
		"WATCHDOG_USEC=400000"})
	h.must(p.start(string(h.dir), env, "--listen", machinetest.Reserve(h.t)))
	h.t.Cleanup(p.kill)
	return conn
}

// notifiedUntil reads notifications until one has a line with the prefix.
func (h *fixture) notifiedUntil(conn *net.UnixConn, prefix string) (all string) {
	h.t.Helper()
	h.must(conn.SetReadDeadline(time.Now().Add(waitTimeout)))
	for b := make([]byte, 4096); !strings.Contains("\n"+all, "\n"+prefix); {
		n, err := conn.Read(b)
		if err != nil {
			h.t.Fatalf("no notification %q after %q: %v", prefix, all, err)
		}
		all += string(b[:n]) + "\n"
	}
	return all
}

// The server notifies its service manager when it is ready, that it works and that it stops, by a socket in the file
// system or in the abstract namespace; its programs cannot.
func TestAServiceManagerFollowsAServerFromStartToStop(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, socket := range []string{filepath.Join(dir, "s"), "@" + filepath.Base(dir)} {
		h := newFixture(t, gatedConfig+`[agents.shows]
kind = "exec"
command = ["env"]
env_allow = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "SHOWN"]
`)
		p := &process{}
		conn := h.notified(p, socket, "SHOWN=yes")
		first := h.notifiedUntil(conn, "READY=1")
		if !strings.HasPrefix(first, "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=opening the store\n") ||
			!strings.Contains(first, "STATUS=ready at "+p.url) {
			t.Errorf("until it is ready it said %q", first)
		}
		answer, err := http.Get(p.url + "/readyz")
		h.must(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("after READY=1, /readyz answers %s", answer.Status)
		}
		h.notifiedUntil(conn, "WATCHDOG=1")
		var shown strings.Builder
		if code, stderr := h.run(t.Context(), &shown, "send", "--agent", "shows", "hello"); code != exitDone {
			t.Fatalf("send: exit code %d: %s", code, stderr)
		}
		if text := shown.String(); !strings.Contains(text, "SHOWN=yes") || strings.Contains(text, "NOTIFY_SOCKET") ||
			strings.Contains(text, "WATCHDOG") {
			t.Errorf("the environment of a program is %s", text)
		}

		run := h.startRunOf("gated", "t", "hello", entry.KindStarted)
		h.must(p.cmd.Process.Signal(syscall.SIGTERM))
		h.notifiedUntil(conn, "STOPPING=1\nEXTEND_TIMEOUT_USEC=")
		h.notifiedUntil(conn, "WATCHDOG=1") // while the run ends
		h.openGate("done\n")
		if code := p.waitExit(t); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		again := &process{}
		h.process(again)
		if r := h.waitRun(run); r.Attempt != 1 {
			t.Errorf("the run that was running at the stop has %d attempts, want that the stop let it end", r.Attempt)
		}
		again.kill()
		p.cmd = nil
	}
}
