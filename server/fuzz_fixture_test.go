package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/internal/check"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
	"mailroom/thread"
)

// swappableLedger delegates to the ledger of the current fuzz input.
type swappableLedger struct {
	*ledger.Ledger
	accounts ledger.Accounts // of Ledger
	projects ledger.Projects // of Ledger
	workers  ledger.Workers  // of Ledger
}

func (l *swappableLedger) swap(to *ledger.Ledger) {
	l.Ledger, l.accounts, l.projects, l.workers = to, to.Accounts(), to.Projects(), to.Workers()
}

// inProcess makes fixtures without sockets and with one server: fuzzing makes thousands of them,
// and New, which describes the API, takes longer than a request.
type inProcess struct {
	ledger  *swappableLedger
	handler http.Handler
}

func newInProcess() inProcess {
	l := &swappableLedger{}
	return inProcess{ledger: l, handler: server.New(server.Options{
		Ledger: server.Ledger{
			Viewer: l, Threads: l, Messages: l, Search: l, Runs: l, Tickets: l, Accounts: &l.accounts, Projects: &l.projects,
			Leases: &l.workers, Attempts: &l.workers,
		},
		Streams: stream.New(l, bus.New()),
		Access:  server.Access{Token: token, Hosts: []string{"mail.example"}}, Limits: server.Limits{Submits: -1},
		Agents: server.Agents{Names: func() []string { return []string{"echo", "codex"} }},
	})}
}

// RoundTrip serves a request as parsed from its wire format.
func (in inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	var wire bytes.Buffer
	if err := r.Write(&wire); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	out := httptest.NewRecorder()
	in.handler.ServeHTTP(out, got.WithContext(r.Context()))
	return out.Result(), nil
}

// fuzzFixture is a store with threads in every state: "idle" with a failed run, "queued" with a
// queue, "running" and "waiting" with a current run.
type fuzzFixture struct {
	*fixture
	failed, running, waiting string // runs
	message                  string // unread, in thread "queued"
	ticket                   api.Ticket
}

func (in inProcess) newFixture(t *testing.T) *fuzzFixture { return in.newFixtureOn(t, memory.New()) }

func (in inProcess) newFixtureOn(t *testing.T, on store.Store) *fuzzFixture {
	f := &fixture{t: t, url: "http://localhost", secret: token, http: in}
	f.ledger = ledger.New(on, ledger.Options{Version: func(string) string { return "0123456789ab" }})
	in.ledger.swap(f.ledger)
	f.client = client.New(f.url, token, client.WithHTTPClient(&http.Client{Transport: in}), client.WithMaxAttempts(1))
	ctx, stop := context.WithCancel(context.Background())
	committed := make(chan error, 1)
	go func() { committed <- f.ledger.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-committed; err != nil {
			t.Errorf("ledger: %v", err)
		}
	})
	s := &fuzzFixture{fixture: f}
	s.failed = f.submit("idle", "one").Run
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	var asked map[string]api.Ticket
	s.waiting, asked = f.waiting("waiting", approval(),
		mailroom.Ask{Name: "colour", Kind: mailroom.TicketInput, After: time.Hour})
	s.ticket = asked["deploy"]
	s.running = f.submit("running", "one").Run
	f.claim()
	s.message = f.submit("queued", "one").Message
	f.submit("queued", "two")
	return s
}

// checkRefused checks that a refusal is a problem with one of the codes, that an invalid one has a
// location, and that nothing was written.
func (s *fuzzFixture) checkRefused(a response, before string, codes ...mailroom.Code) {
	s.t.Helper()
	p := a.problem(s.t)
	if !slices.Contains(codes, p.Code) {
		s.t.Errorf("refused with %d %s, want one of %v", a.status, a.body, codes)
	}
	if p.Code == mailroom.CodeInvalid && a.status != http.StatusMethodNotAllowed && (len(p.Errors) == 0 ||
		!strings.ContainsAny(p.Errors[0].Location[:1], "bqph")) {
		s.t.Errorf("%s has no location", a.body)
	}
	if strings.Contains(a.body, token) || len(a.body) > 4<<10 {
		s.t.Errorf("the problem has a secret or is too long: %s", a.body)
	}
	if after := s.snapshot(); after != before {
		s.t.Errorf("refused with %s, but it wrote:\n%s\nbefore:\n%s", a.body, after, before)
	}
}

// checkStored checks that all stored objects can be read and are within their limits.
func (s *fuzzFixture) checkStored() {
	s.t.Helper()
	for _, th := range mustCall[api.Page[api.Thread]](s.fixture, "GET /v1/threads", "").Items {
		if id, err := check.ThreadID(th.ID); err != nil || id != th.ID {
			s.t.Errorf("invalid thread %q: %v", th.ID, err)
		}
		log, err := s.client.Entries(s.t.Context(), th.ID, client.EntriesQuery{})
		if err != nil {
			s.t.Fatal(err)
		}
		for i, e := range log.Items {
			if raw := e.Raw; e.Seq != int64(i+1) || bytes.ContainsAny(raw, "\x00\n") || !json.Valid(raw) {
				s.t.Errorf("entry %d of %q is %q", i+1, th.ID, raw)
			}
		}
	}
	for _, r := range mustCall[api.Page[api.Run]](s.fixture, "GET /v1/runs", "").Items {
		key := ""
		if r.Key != nil {
			key = *r.Key
		}
		if r.Priority < 0 || r.Priority > 255 || r.MaxAttempts < 1 || r.MaxAttempts > 100 ||
			!slices.Contains(modes(), r.Mode) ||
			len([]rune(key)) > mailroom.MaxSubmitKey || len(r.Options) > mailroom.MaxOptions ||
			len(r.Metadata) > mailroom.MaxMetadata {
			s.t.Errorf("run exceeds its limits: %+v", r)
		}
	}
}

func modes() []mailroom.Mode {
	return []mailroom.Mode{
		mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect,
		mailroom.ModeReject,
	}
}
