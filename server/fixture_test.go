package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
	"mailroom/thread"
)

const token = "a-token-hard-to-guess"

// fixture is a server on a loopback port over a memory store. No engine runs agents: a test
// claims and settles runs itself.
type fixture struct {
	t       *testing.T
	url     string
	secret  string // token of the calls
	store   store.Store
	ledger  *ledger.Ledger
	bus     *bus.Bus
	metrics *operate.Metrics
	client  *client.Client
	http    http.RoundTripper
	log     *logBuffer
	stop    context.CancelFunc // begins the server's shutdown
	served  chan error         // what Serve returned
	round   int64
	page    int // bytes of a page
}

func start(t *testing.T, change ...func(*server.Options)) *fixture {
	t.Helper()
	return startOn(t, func(ln net.Listener) net.Listener { return smallBufferListener{ln} }, change...)
}

// startOn is start with a wrapped listener.
func startOn(t *testing.T, line func(net.Listener) net.Listener, change ...func(*server.Options)) *fixture {
	t.Helper()
	return startStore(t, memory.New(), line, change...)
}

// startStore is startOn with a store.
func startStore(
	t *testing.T, on store.Store, line func(net.Listener) net.Listener, change ...func(*server.Options),
) *fixture {
	t.Helper()
	wire := &http.Transport{}
	f := &fixture{t: t, secret: token, store: on, bus: bus.New(), metrics: operate.NewMetrics(), http: wire,
		log: &logBuffer{wrote: make(chan struct{})}, served: make(chan error, 1), page: mailroom.MaxPage}
	f.ledger = ledger.New(f.store, ledger.Options{
		Version: func(string) string { return "0123456789ab" },
		Publish: func(thread string, entries []mailroom.Entry) {
			f.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		CheckOptions: func(agent string, options json.RawMessage) error {
			if agent == "codex" && bytes.Contains(options, []byte("loud")) {
				return errors.New(`agent codex does not take the option "loud"; use model`)
			}
			return nil
		},
		Budgets: budgets(),
		Observe: ledger.Observe{Operation: f.metrics.Operation, Commit: f.metrics.Commit, RunFinished: f.metrics.Ended},
	})
	o := server.Options{
		Ledger: server.PartsOf(f.ledger), Streams: stream.New(f.ledger, f.bus), Bus: f.bus, Version: "1.2.3",
		Log:    slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Access: server.Access{Token: token}, Agents: server.Agents{Names: func() []string {
			return []string{"echo", "codex"}
		}},
		Parts:  server.Parts{Metrics: f.metrics},
		Limits: server.Limits{Commands: 10 * time.Millisecond}, // no engine carries out any
	}
	for _, c := range change {
		c(&o)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + ln.Addr().String()
	f.client = client.New(f.url, token, client.WithHTTPClient(&http.Client{Transport: f.http}))
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	committer, stopCommitter := context.WithCancel(context.Background())
	committed := make(chan error, 1)
	go func() { committed <- f.ledger.Run(committer) }()
	go func() { f.served <- server.New(o).Serve(ctx, line(ln)) }()
	t.Cleanup(func() {
		wire.CloseIdleConnections()
		stop()
		if err := <-f.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		stopCommitter()
		if err := <-committed; err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	return f
}

// smallBufferListener gives connections small write buffers, so that little is in flight to a
// client that does not read.
type smallBufferListener struct{ net.Listener }

func (n smallBufferListener) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		err = tcp.SetWriteBuffer(16 << 10)
	}
	return conn, err
}

// logBuffer collects the log.
type logBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer  // owned by mu
	wrote chan struct{} // owned by mu; closed by the next line
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.wrote)
	l.wrote = make(chan struct{})
	return l.buf.Write(p)
}

// wait returns once the log holds text.
func (l *logBuffer) wait(t *testing.T, text string) {
	t.Helper()
	late := time.After(5 * time.Minute)
	for {
		l.mu.Lock()
		found, wrote := bytes.Contains(l.buf.Bytes(), []byte(text)), l.wrote
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-wrote:
		case <-late:
			t.Fatalf("timeout waiting for %q in the log:\n%s", text, l)
		}
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// response is a response that was read.
type response struct {
	status int
	header http.Header
	body   string
}

func (a response) problem(t *testing.T) api.Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != api.ProblemType {
		t.Errorf("content type %q, want %q (status %d, body %.200s)", got, api.ProblemType, a.status, a.body)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v in %.200s", err, a.body)
	}
	if p.Status != a.status {
		t.Errorf("the problem has status %d, the response %d", p.Status, a.status)
	}
	if p.Errors == nil || p.Title == "" || p.Detail == "" || p.Type == "" {
		t.Errorf("a problem lacks a member: %s", a.body)
	}
	return p
}

// call sends "METHOD path" with the token and headers ("Name: value").
func (f *fixture) call(route, body string, headers ...string) response {
	f.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.secret)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		f.t.Fatalf("%s: %v", route, err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // which has no end
		return response{resp.StatusCode, resp.Header, ""}
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatalf("%s: %v", route, err)
	}
	a := response{resp.StatusCode, resp.Header, string(raw)}
	f.checkDescribed(req, a)
	return a
}

// mustCall is a call that must succeed, decoded into T.
func mustCall[T any](f *fixture, route, body string) T {
	f.t.Helper()
	a := f.call(route, body)
	if a.status > 299 {
		f.t.Fatalf("%s: status %d: %s", route, a.status, a.body)
	}
	var out T
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		f.t.Fatalf("%s: %v in %.200s", route, err, a.body)
	}
	return out
}

func (f *fixture) submit(thread, text string) store.Submitted {
	f.t.Helper()
	body, err := json.Marshal(api.Submit{Text: text})
	if err != nil {
		f.t.Fatal(err)
	}
	return mustCall[store.Submitted](f, "POST /v1/threads/"+thread+"/messages", string(body))
}

// claim starts the run that is due next, as worker "w".
func (f *fixture) claim() thread.ClaimedRun {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	defer cancel()
	if f.round == 0 {
		if _, err := f.ledger.Workers().Register(ctx, store.Worker{ID: "w", Agents: []string{"echo", "codex"}}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.round++
	work, err := f.ledger.Workers().Claim(ctx, thread.ClaimRequest{
		Worker: "w", Round: f.round, Slots: 1, Agents: map[string]int{"echo": 1, "codex": 1}, Wait: true,
	})
	if err != nil || len(work) != 1 {
		f.t.Fatalf("claim: %d runs, %v", len(work), err)
	}
	return work[0]
}

// settleRun settles a claimed run, with a reply unless it is "".
func (f *fixture) settleRun(w thread.ClaimedRun, outcome thread.Outcome, reply string) {
	f.t.Helper()
	s := thread.Settle{Claim: w.Claim, Number: w.Run.Step + 1, Outcome: outcome}
	if reply != "" {
		s.Message = &thread.PartialText{ID: fmt.Sprintf("%s.%d-1", w.Claim.Run, w.Claim.Attempt), Text: reply}
	}
	if outcome == thread.OutcomeFail {
		s.Failure = &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("the model refused")}
	}
	if _, err := f.ledger.Workers().Settle(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
}

// snapshot formats all rows of the store but those of the audit log, for comparison.
func (f *fixture) snapshot() string {
	f.t.Helper()
	var out strings.Builder
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		threads, err := r.Threads(store.ThreadQuery{})
		if err != nil {
			return err
		}
		runs, err := r.Runs(store.RunQuery{})
		if err != nil {
			return err
		}
		for _, t := range threads {
			if t.ID == reserved.AuditLog { // refused secrets are recorded some time after the requests
				continue
			}
			fmt.Fprintln(&out, t.ID, t.Agent, string(t.Metadata), t.LastSeq)
		}
		for _, run := range runs {
			fmt.Fprintln(&out, run.ID, run.Status, run.Stop)
		}
		tickets, err := r.Tickets(store.TicketQuery{})
		for _, k := range tickets {
			fmt.Fprintln(&out, k.ID, k.State, k.Decision, k.Reason)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.String()
}
