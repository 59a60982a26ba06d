package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/alert/webpush"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// The keys of the example of RFC 8291.
func browserKeys() api.PushKeys {
	return api.PushKeys{P256DH: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		Auth: "BTBZMqHH6r4Tts7J_aSIgg"}
}

func newBrowser(name string) api.NewPushSubscription {
	return api.NewPushSubscription{Endpoint: "https://push.example.net/" + name, Keys: browserKeys()}
}

// startPush starts a server with a target for browsers.
func startPush(t *testing.T, change ...func(*server.Options)) *fixture {
	t.Helper()
	key := webpush.NewKey()
	to, err := target.OpenPush(target.PushOptions{Name: "browsers", Contact: "mailto:ops@example.org",
		Key: func() (string, error) {
			return key, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, append(change, func(o *server.Options) { o.Parts.Alerts = &operate.Alerts{Push: to} })...)
}

// subscribers returns the threads of the subscribers.
func (f *fixture) subscribers() (rows []*mailroom.Thread) {
	f.t.Helper()
	err := f.ledger.View(f.t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Threads(store.ThreadQuery{Prefix: "alert:browsers:push:"})
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return rows
}

func (f *fixture) subscribe(name string) string {
	f.t.Helper()
	out, err := f.client.Accounts().SubscribePush(f.t.Context(), newBrowser(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return out.ID
}

// markGone makes a subscriber one that its agent found gone.
func (f *fixture) markGone(id string) {
	f.t.Helper()
	threadID, agent := "alert:browsers:push:"+id, alert.AgentName("browsers")
	if _, err := f.ledger.Submit(f.t.Context(), thread.Submit{Thread: threadID, Agent: agent,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}}); err != nil {
		f.t.Fatal(err)
	}
	w := f.claimOf(agent)
	if _, err := f.ledger.Workers().Append(f.t.Context(), thread.StepCommit{Claim: w.Claim, Number: 1,
		Step: mailroom.Step{State: json.RawMessage(`{"gone":true}`)}}); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.ledger.Workers().Settle(f.t.Context(),
		thread.Settle{Claim: w.Claim, Number: 2, Outcome: thread.OutcomeComplete}); err != nil {
		f.t.Fatal(err)
	}
}

// claimOf starts the run of an agent that is due next.
func (f *fixture) claimOf(agent string) thread.ClaimedRun {
	f.t.Helper()
	if f.round == 0 {
		if _, err := f.ledger.Workers().Register(f.t.Context(), store.Worker{ID: "w", Agents: []string{agent}}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.round++
	work, err := f.ledger.Workers().Claim(f.t.Context(),
		thread.ClaimRequest{Worker: "w", Round: f.round, Slots: 1, Agents: map[string]int{agent: 1}, Wait: true})
	if err != nil || len(work) != 1 {
		f.t.Fatalf("claim: %d runs, %v", len(work), err)
	}
	return work[0]
}

func TestABrowserSubscribesToAlerts(t *testing.T) {
	f := startPush(t)
	body, err := json.Marshal(newBrowser("secret-path"))
	if err != nil {
		t.Fatal(err)
	}
	const firefox = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	var ids []string
	for range 2 {
		a := f.call("POST /v1/push/subscriptions", string(body), firefox)
		var out api.PushSubscribed
		if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != http.StatusCreated {
			t.Fatalf("%v: %d %s", err, a.status, a.body)
		}
		ids = append(ids, out.ID)
	}
	shown, err := f.client.Accounts().Push(t.Context())
	if err != nil || len(shown.Subscriptions) != 1 || ids[0] != ids[1] || shown.Target != "browsers" ||
		len(shown.PublicKey) != webpush.KeyChars {
		t.Fatalf("%v, ids %v: %+v", err, ids, shown)
	}
	s := shown.Subscriptions[0]
	if s.ID != "7ba6fbcb3d6e4c5cc6d6469e4e8552b1" || s.ID != ids[0] || s.By != auth.Operator || s.Client == nil ||
		*s.Client != "Firefox on Linux" || s.Gone || s.CreatedAt.IsZero() {
		t.Errorf("got %+v", s)
	}
	if all := f.call("GET /v1/push", "").body; strings.Contains(all, "secret-path") ||
		strings.Contains(all, browserKeys().Auth) {
		t.Errorf("a secret is shown: %s", all)
	}
	rows := f.subscribers()
	if len(rows) != 1 || rows[0].Owner != auth.Operator || rows[0].Agent != "alert:browsers" {
		t.Fatalf("the threads are %+v", rows)
	}
	stored, err := webpush.Parse(rows[0].Metadata, false)
	if err != nil || stored.Endpoint != newBrowser("secret-path").Endpoint || stored.By != auth.Operator {
		t.Errorf("stored %+v, %v", stored, err)
	}
	if err := f.client.Accounts().UnsubscribePush(t.Context(), s.ID); err != nil || len(f.subscribers()) != 0 {
		t.Errorf("%v: %d threads are left", err, len(f.subscribers()))
	}
	if err := f.client.Accounts().UnsubscribePush(t.Context(), s.ID); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("again: %v", err)
	}
	for _, id := range []string{"..", "%2e%2e", "alert:browsers", strings.Repeat("x", 300)} {
		if a := f.call("DELETE /v1/push/subscriptions/"+id, ""); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", id, a.status, a.body)
		}
	}
}

func TestWithoutATargetBrowsersCannotSubscribe(t *testing.T) {
	f := start(t)
	_, err := f.client.Accounts().Push(t.Context())
	_, subscribed := f.client.Accounts().SubscribePush(t.Context(), newBrowser("a"))
	for _, err := range []error{err, subscribed, f.client.Accounts().UnsubscribePush(t.Context(), "a")} {
		if mailroom.CodeOf(err) != mailroom.CodeNotFound || !strings.Contains(err.Error(), "no target of kind push") {
			t.Errorf("got %v", err)
		}
	}
}

func TestInvalidSubscriptionsAreRefused(t *testing.T) {
	f := startPush(t)
	for name, e := range map[string]struct {
		change func(*api.NewPushSubscription)
		at     string
	}{
		"http":         {func(s *api.NewPushSubscription) { s.Endpoint = "http://push.example.net/" }, "body.endpoint"},
		"this machine": {func(s *api.NewPushSubscription) { s.Endpoint = "https://127.0.0.1/" }, "body.endpoint"},
		"metadata":     {func(s *api.NewPushSubscription) { s.Endpoint = "https://169.254.169.254/" }, "body.endpoint"},
		"a user": {func(s *api.NewPushSubscription) {
			s.Endpoint = "https://me:hush@push.example.net/"
		}, "body.endpoint"},
		"a script":        {func(s *api.NewPushSubscription) { s.Endpoint = "javascript:alert(1)" }, "body.endpoint"},
		"a long endpoint": {func(s *api.NewPushSubscription) { s.Endpoint += strings.Repeat("x", 1024) }, "body.endpoint"},
		"a wrong key":     {func(s *api.NewPushSubscription) { s.Keys.P256DH = strings.Repeat("A", 87) }, "body.keys.p256dh"},
		"a wrong secret":  {func(s *api.NewPushSubscription) { s.Keys.Auth = strings.Repeat("+", 22) }, "body.keys.auth"},
		"no secret":       {func(s *api.NewPushSubscription) { s.Keys.Auth = "" }, "body.keys.auth"},
	} {
		in := newBrowser("a")
		e.change(&in)
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		a := f.call("POST /v1/push/subscriptions", string(body))
		p := a.problem(t)
		if a.status != http.StatusUnprocessableEntity && a.status != http.StatusRequestEntityTooLarge || len(p.Errors) == 0 ||
			p.Errors[0].Location != e.at || strings.Contains(a.body, "hush") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if n := len(f.subscribers()); n != 0 {
		t.Errorf("%d threads", n)
	}
}

// One token cannot fill the store, however often and however concurrently it subscribes.
func TestSubscriptionsAreBounded(t *testing.T) {
	f := startPush(t, func(o *server.Options) { o.Limits.Submits = -1 })
	const posts = 500 // each one after the twentieth meets the same rows
	ann := f.withToken(f.createToken("ann", "", auth.PermissionAdmin))
	var group sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	const workers = 8
	for w := range workers {
		group.Go(func() {
			for i := w; i < posts; i += workers {
				body, err := json.Marshal(newBrowser(fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
					return
				}
				a := ann.call("POST /v1/push/subscriptions", string(body))
				mu.Lock()
				statuses[a.status]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if diff := gocmp.Diff(map[int]int{http.StatusCreated: 20, http.StatusForbidden: posts - 20}, statuses); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := len(f.subscribers()); n != 20 {
		t.Errorf("%d threads", n)
	}
	for n := range 4 {
		other := f.withToken(f.createToken(fmt.Sprint("other", n), "", auth.PermissionAdmin))
		for i := range 20 {
			if a := other.call("POST /v1/push/subscriptions",
				mustBody(t, newBrowser(fmt.Sprint("other", n, "-", i)))); a.status != http.StatusCreated {
				t.Fatalf("%d: %d %s", n, a.status, a.body)
			}
		}
	}
	if a := f.call("POST /v1/push/subscriptions", mustBody(t, newBrowser("one-more"))); a.status != http.StatusForbidden ||
		!strings.Contains(a.body, "100 subscribed browsers") {
		t.Errorf("the 101st: %d %s", a.status, a.body)
	}
	if n := len(f.subscribers()); n != 100 {
		t.Errorf("%d threads", n)
	}
}

func mustBody(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestSubscriptionsOfGoneBrowsersMakeRoomForNewOnes(t *testing.T) {
	f := startPush(t)
	var ids []string
	for i := range 20 {
		ids = append(ids, f.subscribe(fmt.Sprint(i)))
	}
	if _, err := f.client.Accounts().SubscribePush(t.Context(),
		newBrowser("more")); mailroom.CodeOf(err) != mailroom.CodeQuotaExceeded {
		t.Fatalf("got %v", err)
	}
	f.markGone(ids[3])
	f.markGone(ids[4])
	gone := func() (all []string) {
		shown, err := f.client.Accounts().Push(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range shown.Subscriptions {
			if s.Gone {
				all = append(all, s.ID)
			}
		}
		return all
	}
	if got := gone(); len(got) != 2 {
		t.Errorf("gone: %v", got)
	}
	// A browser that subscribes again is not gone any more.
	if id := f.subscribe("3"); id != ids[3] || len(gone()) != 1 {
		t.Errorf("gone after the repeat: %v", gone())
	}
	f.subscribe("more")
	if got := gone(); len(got) != 0 || len(f.subscribers()) != 20 {
		t.Errorf("gone: %v, %d threads", got, len(f.subscribers()))
	}
}

func TestARemovedBrowserGetsNoWaitingAlerts(t *testing.T) {
	f := startPush(t)
	id := f.subscribe("a")
	threadID := "alert:browsers:push:" + id
	for range 2 {
		if _, err := f.ledger.Submit(t.Context(), thread.Submit{Thread: threadID,
			Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}}); err != nil {
			t.Fatal(err)
		}
	}
	w := f.claimOf("alert:browsers")
	if err := f.client.Accounts().UnsubscribePush(t.Context(), id); mailroom.CodeOf(err) != mailroom.CodeConflict ||
		!strings.Contains(err.Error(), "try again") {
		t.Errorf("while an alert is sent: %v", err)
	}
	if _, err := f.ledger.Workers().Settle(t.Context(),
		thread.Settle{Claim: w.Claim, Number: 1, Outcome: thread.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Accounts().UnsubscribePush(t.Context(), id); err != nil || len(f.subscribers()) != 0 {
		t.Errorf("%v: %d threads are left", err, len(f.subscribers()))
	}
}

func TestThePushSubscriptionsOfARevokedTokenAreRemoved(t *testing.T) {
	f := startPush(t)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionAdmin))
	ann.call("POST /v1/push/subscriptions", mustBody(t, newBrowser("ann's")))
	f.subscribe("mine")
	if err := f.client.Accounts().RevokeToken(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	shown, err := f.client.Accounts().Push(t.Context())
	if err != nil || len(shown.Subscriptions) != 1 || shown.Subscriptions[0].By != auth.Operator {
		t.Errorf("%v: %+v", err, shown.Subscriptions)
	}
}

// TestTheEndOfASessionEndsItsSubscriptions has browsers that subscribed to push messages with sessions of the operator.
func TestTheEndOfASessionEndsItsSubscriptions(t *testing.T) {
	f := startPush(t)
	f.subscribe("mine")
	kept := f.signIn()
	for name, end := range map[string]func(b browser, row string){
		"signed out": func(b browser, _ string) { b.call("DELETE /v1/session", "") },
		"revoked": func(_ browser, row string) {
			if err := f.client.Accounts().RevokeToken(t.Context(), row); err != nil {
				t.Error(err)
			}
		},
	} {
		before := f.sessions()
		b := f.signIn()
		row := slices.DeleteFunc(f.sessions(), func(name string) bool { return slices.Contains(before, name) })[0]
		if got := b.call("POST /v1/push/subscriptions",
			mustBody(t, newBrowser("session"))); got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, got.status, got.body)
		}
		if n := len(f.subscribers()); n != 2 {
			t.Errorf("%s: %d subscriptions before", name, n)
		}
		end(b, row)
		if n := len(f.subscribers()); n != 1 {
			t.Errorf("%s: %d subscriptions are left", name, n)
		}
	}
	if got := kept.call("GET /v1/push", ""); got.status != http.StatusOK {
		t.Errorf("another session: %d %s", got.status, got.body)
	}
}

// sessions returns the names of the rows of sessions.
func (f *fixture) sessions() (names []string) {
	f.t.Helper()
	for _, row := range mustCall[api.Page[api.Token]](f, "GET /v1/tokens", "").Items {
		if row.Kind == "session" {
			names = append(names, row.Name)
		}
	}
	return names
}
