package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/store"
	"mailroom/store/memory"
)

// manager is a service manager's end of the notifications.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	env  map[string]string
}

func newManager(t *testing.T, watchdog time.Duration) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m := &manager{t: t, conn: conn, env: map[string]string{"NOTIFY_SOCKET": path}}
	if watchdog > 0 {
		m.env["WATCHDOG_USEC"] = strconv.FormatInt(watchdog.Microseconds(), 10)
	}
	return m
}

func (m *manager) console() *command.Console {
	return &command.Console{
		Env:      func(name string) string { return m.env[name] },
		Unsetenv: func(name string) error { delete(m.env, name); return nil },
	}
}

// next returns the next notification, or "" if there is none within a time.
func (m *manager) next(within time.Duration) string {
	m.t.Helper()
	b := make([]byte, 4096)
	if err := m.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		m.t.Fatal(err)
	}
	n, err := m.conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		m.t.Fatal(err)
	}
	return string(b[:n])
}

// until reads until a notification has a line with the prefix, and returns all of them.
func (m *manager) until(prefix string) (all []string) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got := m.next(time.Until(end))
		if got == "" {
			m.t.Fatalf("no notification %q: got %q", prefix, all)
		}
		all = append(all, got)
		for line := range strings.SplitSeq(got, "\n") {
			if strings.HasPrefix(line, prefix) {
				return all
			}
		}
	}
}

// hangingStore is a store whose writes do not return while it hangs.
type hangingStore struct {
	store.Store
	mu   sync.Mutex
	hang chan struct{} // nil: writes go on
}

func (h *hangingStore) set(hang chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hang = hang
}

func (h *hangingStore) Update(ctx context.Context, f func(store.Tx) error) error {
	h.mu.Lock()
	hang := h.hang
	h.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return h.Store.Update(ctx, f)
}

// A server whose store hangs must be ended by the watchdog, though its process and its pages work.
func TestAStoreThatHangsEndsTheWatchdogsNotifications(t *testing.T) {
	settings, err := config.Parse("test.toml", []byte("renew = \"100ms\"\nlease = \"1s\"\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := &hangingStore{Store: memory.New()}
	n, err := New(t.Context(), Options{
		Store: st, Config: settings, Token: "token", Files: datadir.Dir(t.TempDir()).Files(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := newManager(t, 400*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	s := supervise(ctx, m.console(), settings, slog.New(slog.DiscardHandler))
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx, ln, nil) }()
	s.serves("http://"+ln.Addr().String(), n)

	m.until("READY=1")
	m.until("WATCHDOG=1")
	hang := make(chan struct{})
	st.set(hang)
	m.until("STATUS=the store has not answered for more than 1.1s")
	if got := m.next(time.Second); got != "" { // ten reports
		t.Errorf("the store hangs, and the server notifies %q, want nothing", got)
	}
	st.set(nil)
	close(hang)
	m.until("WATCHDOG=1")

	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	s.end(nil)
	m.until("STOPPING=1")
}

// A store that answers with an error is no reason to end the process: the next one would fare no better.
func TestAnAnswerOfTheStoreIsAnyThatCameInTime(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{mailroom.Errorf(mailroom.CodeUnavailable, "the disk is full"), true},
		{mailroom.Errorf(mailroom.CodeUnavailable, "no route: %w", context.DeadlineExceeded), true},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
	} {
		if got := answered(c.err); got != c.want {
			t.Errorf("%v: got %t, want %t", c.err, got, c.want)
		}
	}
}

func TestAStartAsksForMoreTimeAndIsReadyWhenItsAddressAnswersSo(t *testing.T) {
	m := newManager(t, 0)
	ctx, stop := context.WithCancel(t.Context())
	s := supervise(ctx, m.console(), &config.Config{ShutdownGrace: time.Minute}, slog.New(slog.DiscardHandler))
	if len(m.env) > 0 {
		t.Errorf("the environment still has %v", m.env)
	}
	if got := m.next(time.Minute); got != "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=opening the store" {
		t.Errorf("at the start got %q", got)
	}
	s.say("waiting for the database")
	if got := m.next(time.Minute); got != "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=waiting for the database" {
		t.Errorf("while it waits got %q", got)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s.server.Store(&supervised{url: "http://" + ln.Addr().String(), ready: func() error { return nil },
		working: func(time.Time) error { return nil }})
	s.wake()
	const head, tail = "HTTP/1.1 ", "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	for _, answer := range []string{"503 Service Unavailable", "200 OK"} {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(head + answer + tail)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		got := m.next(time.Minute)
		if ready := strings.Contains(got, "READY=1"); ready != strings.HasPrefix(answer, "200") {
			t.Errorf("after the answer %s: %q", answer, got)
		}
		if strings.Contains(got, "WATCHDOG") {
			t.Errorf("there is no watchdog: %q", got)
		}
	}
	stop()
	want := "STOPPING=1\nEXTEND_TIMEOUT_USEC=120000000\nSTATUS=stopping: runs have 1m0s to end"
	if got := m.next(time.Minute); got != want {
		t.Errorf("at the stop got %q", got)
	}
	s.end(errors.New("a line\nand another"))
	if got := m.next(time.Minute); got != "STATUS=failed: a line and another" {
		t.Errorf("at the end got %q", got)
	}
}

func TestTheEnvironmentSaysWhereAndHowOftenToNotify(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		socket, usec, pid string
		want              *notifier
		fails             bool
	}{
		{"", "", "", nil, false},
		{"", "3000000", own, nil, false},
		{"/run/s", "", "", &notifier{"/run/s", 0}, false},
		{"@s", "3000000", own, &notifier{"@s", 3 * time.Second}, false},
		{"@s", "3000000", "", &notifier{"@s", 3 * time.Second}, false},
		{"@s", "3000000", "1", &notifier{"@s", 0}, false},
		{"@s", "-3", "", &notifier{"@s", 0}, true},
		{"@s", "9223372036854775807", "", &notifier{"@s", 0}, true},
		{"vsock:2:1", "", "", nil, true},
	} {
		m := &manager{env: map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}}
		got, err := newNotifier(m.console())
		if (err != nil) != c.fails || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
		if len(m.env) > 0 {
			t.Errorf("%+v: the environment still has %v", c, m.env)
		}
	}
}
