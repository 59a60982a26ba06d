package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/app/config"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/internal/pgtest"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/stream"
	"mailroom/thread"
)

// twoOnOneStore calls f with the ledgers of two servers on one store, of each kind.
func twoOnOneStore(t *testing.T, f func(t *testing.T, here, there *ledger.Ledger)) {
	rows := memory.New()
	file := filepath.Join(t.TempDir(), "mail.db")
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	for name, open := range map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return rows, nil },
		"sqlite": func() (store.Store, error) { return sqlite.Open(t.Context(), file, sqlite.Options{}) },
		"postgres": func() (store.Store, error) {
			return postgres.Open(t.Context(), postgres.Options{
				URL: cluster.URL(), Schema: schema, AllowUnsafe: true,
				// On a busy machine a transaction is silent for seconds.
				IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var both [2]*ledger.Ledger
			for i := range both {
				s, err := open()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() }) // the memory is closed twice
				soon := retry.Policy{First: 50 * time.Millisecond, Most: 50 * time.Millisecond}
				both[i] = ledger.New(s, ledger.Options{Retry: func(string) retry.Policy { return soon }})
				runUntilEnd(t, both[i].Run)
			}
			f(t, both[0], both[1])
		})
	}
}

// runUntilEnd runs a part of a server until the end of the test.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// posts is a program that records what is posted to it.
type posts struct {
	mu  sync.Mutex
	all []string
}

func (p *posts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // of the test
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, string(body))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"1"}`)
}

// mention returns how many posts have a text.
func (p *posts) mention(text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, body := range p.all {
		if strings.Contains(body, text) {
			n++
		}
	}
	return n
}

// alerting is a server with a chat, and a program, to which the alerts of tokens go. What ends the alerts is done at
// there.
type alerting struct {
	t           *testing.T
	here, there *ledger.Ledger
	chat        *posts
	program     *posts
	config      *config.Config
	bus         *bus.Bus
	links       *alert.Links
	channels    channelSet
	log         *slog.Logger
}

// newAlerting connects the channel of the chat.
func newAlerting(t *testing.T, here, there *ledger.Ledger) *alerting {
	a := &alerting{
		t: t, here: here, there: there, chat: &posts{}, program: &posts{}, bus: bus.New(), links: alert.NewLinks("secret"),
		log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	a.config = endedConfig(t, a.chat, a.program)
	newHooks(a.config)
	a.channels = a.assembly(here).newChannels()
	for _, one := range a.channels {
		runUntilEnd(t, func(ctx context.Context) error { one.Run(ctx); return nil })
	}
	return a
}

// assembly is that of a server on a ledger, which needs no duties.
func (a *alerting) assembly(l *ledger.Ledger) *assembly {
	return &assembly{
		options: Options{Token: "secret"}, config: a.config, agents: &agentSet{}, log: a.log,
		node: &Node{ledger: l, channels: a.channels, shared: true},
		bus:  a.bus, numbers: operate.NewMetrics(), links: a.links, streams: stream.New(l, a.bus),
		ledgerOf: func(string) *ledger.Ledger { return l },
	}
}

func (a *alerting) serve(agents map[string]engine.Agent) {
	runUntilEnd(a.t, engine.New(a.here.Workers(), a.bus, engine.Options{Agents: agents, Log: a.log}).Run)
}

// rules stores the rules of a token: by name, the target of its questions.
func (a *alerting) rules(owner string, to map[string]string) {
	a.t.Helper()
	at := alert.RulesCursor(owner)
	err := a.there.ChangeCursor(a.t.Context(), at.Channel, at.Identity,
		func(json.RawMessage, time.Time) (json.RawMessage, error) {
			all := []api.AlertRule{}
			for name, target := range to {
				all = append(all, api.AlertRule{Name: name, When: []string{"ticket"}, To: []string{target}, Text: "full"})
			}
			return json.Marshal(all)
		})
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *alerting) revoke(owner string) {
	a.t.Helper()
	if err := a.there.Accounts().RevokeToken(a.t.Context(), owner); err != nil {
		a.t.Error(err)
	}
}

// ask makes a token with rules, and a run in its thread that asks.
func (a *alerting) ask(owner string, to map[string]string) {
	a.t.Helper()
	createTestToken(a.t, a.there, owner)
	a.rules(owner, to)
	_, err := a.there.Submit(a.t.Context(), thread.Submit{Thread: "of-" + owner, Owner: owner, Sender: owner,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}})
	if err != nil {
		a.t.Fatal(err)
	}
}

func asksForAll(ctx context.Context, s mailroom.Session) error {
	_, err := s.Wait(ctx, false, mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval,
		Prompt: "may " + s.Run().Thread + " go?"})
	return err
}

// TestAnAlertThatEndsAtAnotherServerIsSentByNoServer has questions of tokens that wait for a chat, whose channel has
// them in its own queue, and for a program. Then another server ends what they were told for. All parts are those of
// a real server.
func TestAnAlertThatEndsAtAnotherServerIsSentByNoServer(t *testing.T) {
	twoOnOneStore(t, func(t *testing.T, here, there *ledger.Ledger) {
		a := newAlerting(t, here, there)
		follower := newFollower(a.config, here, &operate.Alerts{Targets: describeTargets(a.config)}, a.log)
		if err := follower.Begin(t.Context(), alertLedger{here}); err != nil {
			t.Fatal(err)
		}
		both := map[string]string{"team": "team", "pager": "pager"} // a rule has the name of its target
		cases := map[string]struct {
			end func(owner string)
			why string
		}{
			"kept":     {func(string) {}, ""},
			"ruleless": {func(owner string) { a.rules(owner, nil) }, "rule TARGET was removed"},
			"moved": {func(owner string) {
				a.rules(owner, map[string]string{"team": "spare", "pager": "spare"})
			}, "rule TARGET does not name target TARGET any more"},
			"revoked": {a.revoke, "token revoked may not deliver to target TARGET any more"},
			"renewed": {func(owner string) {
				a.revoke(owner)
				createTestToken(t, there, owner)
				a.rules(owner, both)
			}, "token renewed may not deliver to target TARGET any more"},
			"stopped": {func(owner string) {
				if _, err := there.Interrupt(t.Context(), "of-"+owner, auth.RunToken(auth.Operator)); err != nil {
					t.Error(err)
				}
			}, "the question is void"},
		}
		a.serve(map[string]engine.Agent{"echo": {Agent: mailroom.AgentFunc(asksForAll)}})
		for owner := range cases {
			a.ask(owner, both)
		}
		runUntilEnd(t, func(ctx context.Context) error { follower.Follow(ctx); return nil })
		pager, crm := alert.AgentName("pager"), channel.AgentName("crm")
		senders, last := a.assembly(here).alertAgents(), deliveryAgents(a.channels)
		last[pager] = senders[pager]
		delete(senders, pager)
		a.serve(senders)
		for _, agent := range []string{crm, pager} {
			awaitRuns(t, here, store.RunQuery{Agent: agent}, mailroom.StatusQueued, len(cases))
		}
		for owner, one := range cases {
			one.end(owner)
		}
		a.serve(last)
		for agent, target := range map[string]string{crm: "team", pager: "pager"} {
			got, want := map[string]int{}, map[string]int{}
			for _, run := range awaitRuns(t, here, store.RunQuery{Agent: agent}, "", len(cases)) {
				got[endOf(run)]++
			}
			for owner, one := range cases {
				want[strings.ReplaceAll(one.why, "TARGET", target)]++
				n := map[string]*posts{"team": a.chat, "pager": a.program}[target].mention("may of-" + owner + " go?")
				if sent := n == 1; sent != (one.why == "") || n > 1 {
					t.Errorf("%s: %s: %d messages", target, owner, n)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", target, diff)
			}
		}
	})
}

// endedConfig returns the settings of a chat, of its target, and of a target that is a program.
func endedConfig(t *testing.T, chat, program http.Handler) *config.Config {
	t.Helper()
	var urls [2]string
	for i, h := range []http.Handler{chat, program} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		urls[i] = s.URL
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := `tokens = ["kept", "ruleless", "moved", "revoked", "renewed", "stopped"]`
	c, err := config.Parse("mailroom.toml", fmt.Appendf(nil, `
[channels.crm]
kind = "webhook"
agent = "echo"
token_file = %[4]q
url = %[1]q
allow = ["127.0.0.1"]
[targets.team]
kind = "chat"
thread = "crm:webhook:room"
%[3]s
[targets.pager]
kind = "webhook"
token_file = %[4]q
url = %[2]q
allow = ["127.0.0.1"]
%[3]s
[targets.spare]
kind = "webhook"
token_file = %[4]q
url = %[2]q
allow = ["127.0.0.1"]
%[3]s
`, urls[0], urls[1], names, secret), config.Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func createTestToken(t *testing.T, l *ledger.Ledger, name string) {
	t.Helper()
	_, err := l.Accounts().CreateToken(t.Context(), auth.Token{Name: name, Sum: fmt.Sprint(name, time.Now().UnixNano()),
		Scopes: []auth.Permission{auth.PermissionSubmit}})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRuns waits until n runs have a status, or have ended if status is "", and returns them.
func awaitRuns(
	t *testing.T, l *ledger.Ledger, q store.RunQuery, status mailroom.Status, n int,
) (found []*mailroom.Run) {
	t.Helper()
	turn := time.NewTicker(5 * time.Millisecond)
	defer turn.Stop()
	deadline := time.After(5 * time.Minute)
	for {
		found = nil
		var all []*mailroom.Run
		err := l.View(t.Context(), func(r store.Reader) (err error) {
			all, err = r.Runs(q)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range all {
			if run.Status == status || status == "" && run.Status.Finished() {
				found = append(found, run)
			}
		}
		if len(found) == n {
			return found
		}
		select {
		case <-turn.C:
		case <-deadline:
			t.Fatalf("%d of %d runs of %s are %q: %+v", len(found), n, q.Agent, status, all)
		}
	}
}

// endOf returns why a run sent nothing, "" if it sent.
func endOf(run *mailroom.Run) string {
	why := ""
	switch {
	case run.Error != nil:
		why = run.Error.Message
	case run.Reply != nil && strings.HasPrefix(*run.Reply, "Not sent: "):
		why = *run.Reply
	}
	return strings.TrimPrefix(strings.TrimPrefix(why, "not sent: "), "Not sent: ")
}
