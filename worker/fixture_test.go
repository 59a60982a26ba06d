package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/store/memory"
	"mailroom/stream"
	"mailroom/worker"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"MAILROOM_URL", "MAILROOM_TOKEN"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// operatorToken is the secret of a server's operator.
const operatorToken = "a-token-hard-to-guess"

// host is a server on a free port of the machine, with its rows in memory. It runs the agent "own" itself.
type host struct {
	url   string
	admin *client.Client
	close func()
}

func startHost() *host {
	quiet := slog.New(slog.DiscardHandler)
	b := bus.New()
	rows := ledger.New(memory.New(), ledger.Options{Log: quiet, Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	own := mailroom.AgentFunc(func(context.Context, mailroom.Session) error { return nil })
	inside := engine.New(rows.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{"own": {Agent: own}}, Log: quiet, Sweep: 50 * time.Millisecond,
	})
	web := server.New(server.Options{
		Ledger: server.PartsOf(rows), Streams: stream.New(rows, b), Bus: b, Log: quiet,
		Access: server.Access{Token: operatorToken},
		Agents: server.Agents{Names: func() []string { return []string{"own"} }},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	endRows, endInside := begin(rows.Run), begin(inside.Run)
	endWeb := begin(func(ctx context.Context) error { return web.Serve(ctx, listener) })
	h := &host{url: "http://" + listener.Addr().String()}
	h.admin = client.New(h.url, operatorToken)
	h.close = func() { // the engine and the server write with the ledger, so it ends last
		h.admin.CloseIdle()
		check(endWeb())
		check(endInside())
		check(endRows())
	}
	return h
}

func newHost(t *testing.T) *host {
	h := startHost()
	t.Cleanup(h.close)
	return h
}

// token makes a token and returns its secret.
func (h *host) token(t *testing.T, in api.NewToken) string {
	t.Helper()
	made, err := h.admin.Accounts().CreateToken(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

// workToken makes a token for a worker and returns its secret.
func (h *host) workToken(t *testing.T, name string) string {
	t.Helper()
	return h.token(t, api.NewToken{Name: name, Scopes: []auth.Permission{auth.PermissionWork}})
}

// send submits a message to an agent and returns its run.
func (h *host) send(t *testing.T, agent, text string) string {
	t.Helper()
	sent, err := h.admin.Submit(t.Context(), api.Submit{Agent: agent, Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return sent.Run
}

func (h *host) waitRun(t *testing.T, run string) api.Run {
	t.Helper()
	r, err := h.admin.WaitRun(t.Context(), run, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serve serves agents until the end of the test, or until end is called, which returns the error of Serve.
func (h *host) serve(t *testing.T, o worker.Options, agents map[string]mailroom.Agent) (end func() error,
	log *transcript) {
	t.Helper()
	log = &transcript{}
	ready := make(chan struct{})
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.URL, o.OnReady = h.url, func() { close(ready) }
	if o.Token == "" {
		o.Token = operatorToken
	}
	failed := make(chan error, 1)
	stop := begin(func(ctx context.Context) error {
		err := worker.Serve(ctx, o, agents)
		failed <- err
		return err
	})
	end = sync.OnceValue(stop)
	t.Cleanup(func() { _ = end() }) // a test that expects an error looks at it
	select {
	case <-ready:
	case err := <-failed:
		t.Fatalf("the worker ended before it served: %v", err)
	}
	return end, log
}

// begin starts a part of a program and returns the function that ends it and returns its error.
func begin(part func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// transcript is the log of a worker.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the lines with a text.
func (l *transcript) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		panic(err)
	}
}
