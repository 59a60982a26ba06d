package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/alert/webpush"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/channel/webhook"
	"mailroom/engine"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
	"mailroom/thread"
)

const token = "a-token-hard-to-guess"

// fixture is a server on a loopback port over a memory store. No engine runs agents: a test claims
// and settles runs itself.
type fixture struct {
	t      *testing.T
	url    string
	ledger *ledger.Ledger
	bus    *bus.Bus
	http   *http.Transport
	round  int64
}

func start(t *testing.T, change ...func(*server.Options)) *fixture {
	t.Helper()
	notices := bus.New()
	f := &fixture{t: t, bus: notices, http: &http.Transport{}}
	f.ledger = ledger.New(memory.New(), ledger.Options{
		Version: func(string) string { return "0123456789ab" },
		Lease:   time.Hour, // no worker of these tests renews its lease
		Publish: func(thread string, entries []mailroom.Entry) {
			notices.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Budgets: ledger.Budgets{Agent: map[string]budget.Limits{
			"coder": {Day: mailroom.Budget{Amounts: mailroom.Dollars(5)}}}},
	})
	hook := webhook.NewHooks().Protocol()
	hook.Admit = nil
	hook.Answer = func(*http.Request) (any, error) { return webhook.Accepted{Message: "m"}, nil } // accepts every request
	o := server.Options{
		Ledger: server.PartsOf(f.ledger), Streams: stream.New(f.ledger, notices), Bus: notices, Version: "1.2.3",
		Log:    slog.New(slog.DiscardHandler),
		Access: server.Access{Token: token}, Agents: server.Agents{Names: func() []string {
			return []string{"echo", "spare"}
		}},
		Parts: server.Parts{
			Channels: channels{}, Pairings: pairings{}, Issues: issues, Alerts: alerts(t, f.ledger),
			Protocols: map[string]server.Protocol{webhook.Route: hook},
		},
		Limits: server.Limits{Commands: 10 * time.Millisecond}, // no engine carries out any
	}
	for _, c := range change {
		c(&o)
	}
	served := server.New(o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	committer, stopCommitter := context.WithCancel(context.Background())
	ended, committed := make(chan error, 1), make(chan error, 1)
	go func() { committed <- f.ledger.Run(committer) }()
	go func() { ended <- served.Serve(ctx, ln) }()
	t.Cleanup(func() {
		f.http.CloseIdleConnections()
		stop()
		serving := <-ended
		stopCommitter()
		if err := errors.Join(serving, <-committed); err != nil {
			t.Error(err)
		}
	})
	return f
}

// scheduling lets a server wait for the engine that [fixture.runSchedules] starts.
func scheduling(o *server.Options) { o.Limits.Commands = patience }

// runSchedules runs the agent of schedules.
func (f *fixture) runSchedules() {
	f.t.Helper()
	e := engine.New(f.ledger.Workers(), f.bus, engine.Options{Agents: map[string]engine.Agent{
		reserved.Scheduler: {Agent: schedule.New(f.ledger, auth.NewOperator(token)), Version: "0123456789ab"},
	}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
}

// alerts has one target, whose messages no engine sends.
func alerts(t *testing.T, l *ledger.Ledger) *operate.Alerts {
	t.Helper()
	key := webpush.NewKey()
	browsers, err := target.OpenPush(target.PushOptions{Name: "browsers", Contact: "mailto:ops@example.org",
		Key: func() (string, error) {
			return key, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return &operate.Alerts{
		Push:    browsers,
		Targets: []operate.Target{{Name: "phone", Kind: "ntfy", Decide: true}}, Links: alert.NewLinks(token),
		Rules: []alert.Rule{{Name: "all", When: alert.Kinds(), To: []string{"phone"}, Text: alert.TextTitle, Digest: 480,
			Zone: time.UTC}},
		Test: func(ctx context.Context, target string) (string, error) {
			return alert.Test(ctx, l, target, time.Now())
		},
	}
}

// describe reads the server's description.
func (f *fixture) describe() *description {
	f.t.Helper()
	d, err := describe(f.call("GET /openapi.json", ""))
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// exchange sends a request and reads the response, or only the header of a stream, which does not
// end.
func (f *fixture) exchange(req *http.Request) (*http.Response, []byte) {
	f.t.Helper()
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, nil
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp, raw
}

// call sends "METHOD path" with the token, which must succeed.
func (f *fixture) call(route, body string) []byte {
	f.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, raw := f.exchange(req)
	if resp.StatusCode > 299 {
		f.t.Fatalf("%s: status %d: %s", route, resp.StatusCode, raw)
	}
	return raw
}

// ask is a call whose response is decoded into T.
func ask[T any](f *fixture, route, body string) (out T) {
	f.t.Helper()
	if err := json.Unmarshal(f.call(route, body), &out); err != nil {
		f.t.Fatalf("%s: %v", route, err)
	}
	return out
}

func (f *fixture) submit(thread, body string) store.Submitted {
	f.t.Helper()
	return ask[store.Submitted](f, "POST /v1/threads/"+thread+"/messages", body)
}

// patience ends a request that hangs, also on a machine that does much else.
const patience = 5 * time.Minute

// claim starts the next due run, as worker "w".
func (f *fixture) claim() thread.ClaimedRun {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if f.round == 0 {
		if _, err := f.ledger.Workers().Register(ctx, store.Worker{ID: "w", Agents: []string{"echo"}}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.round++
	work, err := f.ledger.Workers().Claim(ctx, thread.ClaimRequest{
		Worker: "w", Round: f.round, Slots: 1, Agents: map[string]int{"echo": 1}, Wait: true,
	})
	if err != nil || len(work) != 1 {
		f.t.Fatalf("claim: %d runs, %v", len(work), err)
	}
	return work[0]
}

// settle ends the attempt of a claimed run.
func (f *fixture) settle(w thread.ClaimedRun, s thread.Settle) {
	f.t.Helper()
	s.Claim, s.Number = w.Claim, w.Run.Step+1
	if _, err := f.ledger.Workers().Settle(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
}

// elsewhere registers a remote worker of agent and returns its claim of a run on thread.
func (f *fixture) elsewhere(agent, thread string) (worker, claim string) {
	f.t.Helper()
	worker = ask[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"agents":[%q],"max":1,"round":1}`, agent)).Worker
	f.submit(thread, fmt.Sprintf(`{"text":"two","agent":%q,"mode":"interrupt"}`, agent))
	claimed := ask[api.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":2,"wait":"10s"}`, worker)).Claims
	if len(claimed) != 1 {
		f.t.Fatalf("claimed %d runs elsewhere", len(claimed))
	}
	return worker, claimed[0].Claim
}

// channels has one channel, which is reconnecting.
type channels struct{}

func (channels) All() []api.Channel {
	return []api.Channel{{Name: "mol", Kind: "poll", State: api.ChannelQueued}}
}

func (channels) Resume(string) bool { return true }

// issues returns a board with one ready issue.
func issues(context.Context) (api.IssueBoard, error) {
	return api.IssueBoard{Columns: []api.IssueColumn{{Name: "ready", Count: 1,
		Items: []api.Issue{{ID: "x-1", Labels: []string{}, BlockedBy: []string{}}}}}}, nil
}

// pairings accepts every code.
type pairings struct{}

func (pairings) All(context.Context) ([]api.Pairing, error) {
	return []api.Pairing{paired()}, nil
}

func (pairings) Approve(context.Context, api.ApprovePairing, string) (api.Pairing, error) {
	return paired(), nil
}

func (pairings) Revoke(context.Context, string, string) error { return nil }

func paired() api.Pairing {
	return api.Pairing{Channel: "mol", User: "ann", Name: "Ann", State: api.Paired, Tier: api.TierUser,
		Since: time.Now().UTC()}
}
