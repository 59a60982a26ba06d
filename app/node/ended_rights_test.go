package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// sentTo records whom the messages of a target were for.
type sentTo struct {
	mu   sync.Mutex
	down bool
	got  []string
}

func (s *sentTo) record(whom string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")}
	}
	s.got = append(s.got, whom)
	return nil
}

// take returns what was recorded since the last call, sorted.
func (s *sentTo) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := slices.Sorted(slices.Values(s.got))
	s.got = nil
	return got
}

func (s *sentTo) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// browserTarget records the names of subscribers.
type browserTarget struct{ sentTo }

// named is the metadata of a subscriber.
type named struct {
	alert.Subscriber
	Name string `json:"name"`
}

func (*browserTarget) Subscribers() string { return "alert:browsers:push:" }

func (b *browserTarget) Send(_ context.Context, m alert.Message) (string, error) {
	var to named
	if err := json.Unmarshal(m.To, &to); err != nil {
		return "", err
	}
	return "", b.record(to.Name)
}

// pagerTarget records the threads that messages are about.
type pagerTarget struct{ sentTo }

func (p *pagerTarget) Send(_ context.Context, m alert.Message) (string, error) {
	return "", p.record(aboutThread.FindString(m.Title + "\n" + m.Body))
}

var aboutThread = regexp.MustCompile(`\b(of|to)-[a-z]+`)

// rightsWorld has two servers on a store. Rights end at there, and here sends the alerts.
type rightsWorld struct {
	t           *testing.T
	here, there *ledger.Ledger
	operator    *auth.Token
	browsers    *browserTarget
	pager       *pagerTarget
}

// sender is the engine that sends alerts at here; the function stops it.
func (w *rightsWorld) sender() (stop func()) {
	w.t.Helper()
	targets := []string{"browsers", "pager"}
	agents := map[string]engine.Agent{}
	for name, to := range map[string]alert.Target{"browsers": w.browsers, "pager": w.pager} {
		agents[alert.AgentName(name)] = engine.Agent{Agent: alert.New(alert.Options{
			Name: name, Target: to, Ledger: alertLedger{w.here}, Zone: time.UTC, Operator: w.operator, Targets: targets,
			Tokens: []string{"kept", "revoked", "renewed"},
		})}
	}
	return w.serve(agents)
}

func (w *rightsWorld) serve(agents map[string]engine.Agent) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	e := engine.New(w.here.Workers(), bus.New(), engine.Options{Agents: agents})
	go func() { ended <- e.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *rightsWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// create makes a token at there.
func (w *rightsWorld) create(name string, scopes ...auth.Permission) *auth.Token {
	w.t.Helper()
	row, err := w.there.Accounts().CreateToken(w.t.Context(),
		auth.Token{Name: name, Sum: fmt.Sprint(name, time.Now().UnixNano()), Scopes: scopes})
	w.must(err)
	return row
}

// session makes a session of a token at there.
func (w *rightsWorld) session(of *auth.Token) string {
	w.t.Helper()
	terms := auth.Terms{Kind: auth.KindSession, Scopes: of.Scopes, ExpiresAt: time.Now().Add(24 * time.Hour)}
	row, err := w.there.Accounts().DeriveToken(w.t.Context(),
		auth.Token{Sum: fmt.Sprint("session", time.Now().UnixNano()), Terms: terms}, of)
	w.must(err)
	return row.Name
}

// subscribe subscribes a browser at there.
func (w *rightsWorld) subscribe(name, by, token string) {
	w.t.Helper()
	raw, err := json.Marshal(named{alert.Subscriber{By: by, Token: token, CreatedAt: time.Now()}, name})
	w.must(err)
	group := w.browsers.Subscribers()
	_, err = ledger.GroupsOf(w.there).Open(w.t.Context(), ledger.Opening{
		Thread: group + name, Agent: alert.AgentName("browsers"), Metadata: raw, Group: group,
		Admit: func([]*mailroom.Thread) error { return nil },
	})
	w.must(err)
}

// rule stores a rule of a token at there, with its row.
func (w *rightsWorld) rule(owner string) {
	w.t.Helper()
	rights := w.rights(owner)
	at := alert.RulesCursor(owner)
	rule := alert.StoredRule{Row: rights.Row(owner),
		AlertRule: api.AlertRule{Name: "mine", When: []string{"ticket"}, To: []string{"pager"}, Text: "full"}}
	w.must(w.there.ChangeCursor(w.t.Context(), at.Channel, at.Identity,
		func(json.RawMessage, time.Time) (json.RawMessage, error) {
			return json.Marshal([]alert.StoredRule{rule})
		}))
}

func (w *rightsWorld) rights(owner string) (rights alert.Rights) {
	w.t.Helper()
	w.must(w.there.View(w.t.Context(), func(r store.Reader) (err error) {
		rights, err = alert.ReadRights(r, nil, time.Now(), owner)
		return err
	}))
	return rights
}

func (w *rightsWorld) submit(in thread.Submit) {
	w.t.Helper()
	in.Messages = []thread.NewMessage{{Parts: mailroom.Text("x")}}
	_, err := w.there.Submit(w.t.Context(), in)
	w.must(err)
}

// question makes a run ask, and waits until n runs of its agent do.
func (w *rightsWorld) question(id, owner, agent string, n int) {
	w.t.Helper()
	w.submit(thread.Submit{Thread: id, Owner: owner, Agent: agent})
	awaitRuns(w.t, w.here, store.RunQuery{Agent: agent}, mailroom.StatusWaiting, n)
}

// TestWhatATokenMadeEndsWithItAtAnotherServer has browsers, rules and threads that deliver, of tokens, sessions and the
// operator. Alerts wait for them when the token is revoked, or revoked and made again, at another server, and further
// events come afterwards.
func TestWhatATokenMadeEndsWithItAtAnotherServer(t *testing.T) {
	twoOnOneStore(t, func(t *testing.T, here, there *ledger.Ledger) {
		w := &rightsWorld{t: t, here: here, there: there, operator: auth.NewOperator("now"), browsers: &browserTarget{},
			pager: &pagerTarget{}}
		owners := []string{"kept", "revoked", "renewed"}
		browsers, bySession := map[string]*auth.Token{}, map[string]string{}
		for _, name := range owners {
			admin := w.create("admin-"+name, auth.PermissionAdmin)
			browsers[name], bySession[name] = admin, w.session(admin)
			w.subscribe(name, admin.Name, "")
			w.subscribe("session-of-"+name, admin.Name, bySession[name])
			w.create(name, auth.PermissionSubmit)
			w.rule(name)
		}
		signedOut := w.session(browsers["kept"])
		w.subscribe("signed-out", "admin-kept", signedOut)
		w.subscribe("operator", auth.Operator, w.operator.ID())
		w.subscribe("former-operator", auth.Operator, auth.NewOperator("before").ID())

		follower := &alert.Follower{Ledger: alertLedger{here}, Log: slog.New(slog.DiscardHandler),
			Targets: alert.Allowed{"browsers": nil, "pager": owners},
			Rules: []alert.Rule{{Name: "all", When: []alert.Kind{alert.KindTicket}, To: []string{"browsers"},
				Agents: []string{"desk"}, Text: alert.TextFull, Zone: time.UTC}}}
		w.must(follower.Begin(t.Context(), alertLedger{here}))
		asking := engine.Agent{Agent: mailroom.AgentFunc(asksForAll)}
		stop := w.serve(map[string]engine.Agent{"desk": asking, "theirs": asking, "replying": {
			Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "done") })}})
		defer stop()
		runUntilEnd(t, func(ctx context.Context) error { follower.Follow(ctx); return nil })

		w.browsers.setDown(true)
		w.pager.setDown(true)
		sender := w.sender()
		places := map[string]string{}
		for i, name := range owners {
			places[name] = alert.ThreadID("pager") + strings.TrimPrefix(w.rights(name).Place(name, ""), alert.ThreadID(""))
			w.submit(thread.Submit{Thread: "to-" + name, Owner: name, Agent: "replying", DeliverTo: places[name],
				DeliverAgent: alert.AgentName("pager")})
			w.question("of-"+name, name, "theirs", i+1)
		}
		w.question("q1", auth.Operator, "desk", 1)
		subscribers := store.RunQuery{Agent: alert.AgentName("browsers")}
		pages := store.RunQuery{Agent: alert.AgentName("pager")}
		awaitRuns(t, here, subscribers, "", 1) // the one that is spread to the others
		const valid = 8                        // the former operator's browser gets nothing
		awaitRuns(t, here, subscribers, mailroom.StatusQueued, valid)
		awaitRuns(t, here, pages, mailroom.StatusQueued, 2*len(owners))
		sender() // so that no attempt is under way

		accounts := there.Accounts()
		for _, name := range []string{"admin-revoked", "admin-renewed", "revoked", "renewed", signedOut} {
			w.must(accounts.RevokeToken(t.Context(), name))
		}
		w.create("admin-renewed", auth.PermissionAdmin)
		w.create("renewed", auth.PermissionSubmit)
		w.browsers.setDown(false)
		w.pager.setDown(false)
		sender = w.sender()
		defer sender()

		stillBrowsers, stillPages := []string{"kept", "operator", "session-of-kept"}, []string{"of-kept", "to-kept"}
		awaitRuns(t, here, subscribers, "", valid+1)
		awaitRuns(t, here, pages, "", 2*len(owners))
		w.check("alerts that waited", stillBrowsers, stillPages)

		for i, name := range owners {
			w.submit(thread.Submit{Thread: "to-" + name, Owner: name, Agent: "replying"})
			w.question("of-"+name+"-again", name, "theirs", len(owners)+i+1)
		}
		w.question("q2", auth.Operator, "desk", 2)
		awaitRuns(t, here, subscribers, "", valid+1+1+len(stillBrowsers))
		awaitRuns(t, here, pages, "", 2*len(owners)+len(owners)+1)
		w.check("events afterwards", stillBrowsers, stillPages)
	})
}

// check compares what was sent since the last check.
func (w *rightsWorld) check(what string, browsers, pages []string) {
	w.t.Helper()
	got := map[string][]string{"browsers": w.browsers.take(), "pager": w.pager.take()}
	want := map[string][]string{"browsers": browsers, "pager": pages}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(want[name], got[name]); diff != "" {
			w.t.Errorf("%s: %s (-want +got):\n%s", what, name, diff)
		}
	}
}
