package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

// unread returns the number of unread notifications that ann's token counts.
func (d *fixture) unread() int64 { d.t.Helper(); return d.used().Notifications }

func TestATokenCountsItsUnreadNotifications(t *testing.T) {
	d := limited(t, nil)
	for _, agent := range []string{"x", "y", "z"} {
		d.inbox(agent, true, 1)
	}
	d.notify("x", "to all", "k")
	d.notify("x", "to all", "k") // a repeat
	wantEqual(t, "to all but the sender", d.unread(), 2)
	d.notify("x", "to some", "", "y", "y", "x", "new")
	wantEqual(t, "to two others", d.unread(), 4)
	d.notify("w", "a sender without an inbox", "")
	wantEqual(t, "to all four", d.unread(), 8)
	d.inbox("y", false, 9)
	wantEqual(t, "after a read without Consume", d.unread(), 8)
	d.inbox("y", true, 1)
	wantEqual(t, "after one was consumed", d.unread(), 7)
	acknowledge := func(seqs ...int64) { t.Helper(); must(0, d.Projects().Acknowledge(d.ctx, "p", "y", ann(), seqs))(t) }
	acknowledge(3, 1, 3)
	wantEqual(t, "after one was acknowledged", d.unread(), 6)
	acknowledge(3)
	wantEqual(t, "after the same acknowledgement again", d.unread(), 6)
	d.inbox("y", true, 9)
	wantEqual(t, "after the rest was consumed", d.unread(), 5)
	must(0, d.Purge(d.ctx, "project:p", -time.Hour))(t)
	wantEqual(t, "after the log was purged", d.unread(), 0)
	d.notify("x", "to all", "")
	wantEqual(t, "to all again", d.unread(), 4)
	must(0, d.DeleteThread(d.ctx, "project:p", ann()))(t)
	wantEqual(t, "after the project was deleted", d.unread(), 0)
}

func TestAQuotaLimitsUnreadNotifications(t *testing.T) {
	d := limited(t, auth.Quotas{"notifications": 3})
	operator := &auth.Token{Name: auth.Operator, Scopes: auth.Permissions()}
	limitedToken := &auth.Token{Name: "ann", Namespace: "project:p", Scopes: []auth.Permission{auth.PermissionSubmit}}
	notify := func(by *auth.Token, key string, to ...string) error {
		_, err := d.Projects().Notify(d.ctx, project.Notify{Project: "p", Key: key, By: by,
			Notification: project.Notification{From: by.Name, To: to, Event: "e"}})
		return err
	}
	wantCode(t, notify(operator, "", "x", "y"), "") // creates the operator's project
	wantCode(t, notify(limitedToken, "k"), "")      // to x, y and admin
	wantEqual(t, "unread", d.unread(), 3)
	inboxes := len(d.cursors())
	err := notify(limitedToken, "", "other")
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	if !strings.Contains(err.Error(), "ann has 3 of 3 unread notifications") {
		t.Errorf("error %q, want one that names ann and 3 of 3", err)
	}
	wantEqual(t, "inboxes after the refused notification", len(d.cursors()), inboxes)
	wantCode(t, notify(limitedToken, "k"), "") // a repeat adds nothing
	wantCode(t, notify(limitedToken, "", "ann"), "")
	wantCode(t, notify(operator, ""), "") // the operator has no quota
	must(d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "x", By: operator, Limit: 9, Consume: true}))(t)
	wantEqual(t, "unread after one inbox was read", d.unread(), 2)
	wantCode(t, notify(limitedToken, "", "y", "x"), mailroom.CodeQuotaExceeded)
	wantCode(t, notify(limitedToken, "", "x"), "")
}

func TestAProjectHasABoundedNumberOfInboxes(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	for n := 0; n < project.MaxInboxes; n += project.MaxTo {
		var to []string
		for i := range project.MaxTo {
			if n+i < project.MaxInboxes-2 { // x has one as well
				to = append(to, fmt.Sprint("agent", n+i))
			}
		}
		d.notify("x", "e", "", to...)
	}
	wantEqual(t, "inboxes", len(d.cursors()), project.MaxInboxes-1)
	_, err := d.Projects().Notify(d.ctx, project.Notify{Project: "p", By: ann(),
		Notification: project.Notification{From: "x", To: []string{"one", "two"}, Event: "e"}})
	wantCode(t, err, mailroom.CodeTooLarge)
	d.notify("x", "e", "", "one", "agent1")
	_, err = d.Projects().Reserve(d.ctx, reserve("another", "a"))
	wantCode(t, err, mailroom.CodeTooLarge)
	must(d.Projects().Reserve(d.ctx, reserve("agent1", "a")))(t)
}

func TestNotificationsExpireInInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		d := limited(t, nil)
		for _, agent := range []string{"x", "gone"} {
			d.inbox(agent, true, 1)
		}
		expire := func() {
			t.Helper()
			must(0, d.Projects().ExpireNotifications(d.ctx, "project:p", project.LapseAfter))(t)
		}
		for i := range 3 {
			d.notify("y", fmt.Sprint("e", i), "")
			<-time.After(10 * day)
		}
		d.inbox("x", true, 1)
		expire()
		wantEqual(t, "unread when the first is 30 days old", d.unread(), 5)
		<-time.After(time.Second)
		expire()
		wantEqual(t, "unread a second later", d.unread(), 4)
		wantEqual(t, "inbox of gone", d.inbox("gone", false, 9), []string{"2 e1", "3 e2"})
		<-time.After(30 * day)
		expire()
		wantEqual(t, "unread when all are old", d.unread(), 0)
		wantEqual(t, "inbox of x", d.inbox("x", true, 9), nil)
		wantEqual(t, "entries", d.thread("project:p").FirstSeq, 1) // the log keeps them
		must(0, d.Projects().Acknowledge(d.ctx, "p", "x", ann(), []int64{2}))(t)
		d.notify("y", "new", "")
		wantEqual(t, "inbox of gone", d.inbox("gone", true, 9), []string{"4 new"})
		wantEqual(t, "unread", d.unread(), 1)
	})
}

// TestAnInboxIsReadInPartsPastNotificationsForOthers checks that no transaction reads the whole log.
func TestAnInboxIsReadInPartsPastNotificationsForOthers(t *testing.T) {
	s := &counting{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	for _, agent := range []string{"x", "y"} {
		d.inbox(agent, true, 1)
	}
	const many = 6_000
	for i := range many {
		d.notify("z", fmt.Sprint("e", i), "", "other")
	}
	d.notify("z", "for x and y", "", "x", "y")
	want := []string{fmt.Sprint(many+1, " for x and y")}
	s.reset()
	wantEqual(t, "read without Consume", d.inbox("x", false, 9), want)
	wantEqual(t, "consumed", d.inbox("x", true, 9), want)
	must(0, d.Projects().Acknowledge(d.ctx, "p", "y", ann(), []int64{many + 1}))(t)
	if most := s.reset().MostEntries; most > 5200 {
		t.Errorf("one transaction reads %d entries, want at most 5200", most)
	}
	wantEqual(t, "after the acknowledgement", d.inbox("y", true, 9), nil)
}

func TestOperationsOfOneBatchCountWhatIsUnreadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		must(d.Accounts().CreateToken(d.ctx, account("ann", "sum")))(t)
		d.inbox("x", true, 1)
		d.notify("y", "one", "")
		notify := func(to ...string) func() error {
			return func() error {
				_, err := d.Projects().Notify(d.ctx, project.Notify{Project: "p", By: ann(),
					Notification: project.Notification{From: "y", To: to, Event: "e"}})
				return err
			}
		}
		acknowledge := func(seqs ...int64) func() error {
			return func() error { return d.Projects().Acknowledge(d.ctx, "p", "x", ann(), seqs) }
		}
		consume := func() error {
			_, err := d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "p", Agent: "x", By: ann(), Limit: 9, Consume: true})
			return err
		}
		errs := gatherBatch(t, d, f, notify(), acknowledge(2), acknowledge(2, 1), consume, notify("x", "new"), notify(),
			acknowledge(3), consume)
		wantEqual(t, "errors", errs, make([]error, len(errs)))
		wantEqual(t, "unread", d.unread(), 3) // the notification to x and new, and the one to all in new
	})
}

// TestRandomHistoriesOfInboxes compares the counts of tokens with a model of all inboxes, and checks the
// invariants of the store at the end.
func TestRandomHistoriesOfInboxes(t *testing.T) {
	rounds(t, 60)
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbleTB{t}, func(rt *rapid.T) { newInboxes(t, rt).play(rt) })
	})
}

// inboxes is a ledger with one project, and a model of its unread notifications.
type inboxes struct {
	*fixture
	store  store.Store
	unread map[string]map[int64]string // by agent and seq: the sending token
	last   int64
}

func newInboxes(t *testing.T, rt *rapid.T) *inboxes {
	store := memory.New()
	b := &inboxes{fixture: start(t, store, ledger.Options{}), store: store, unread: map[string]map[int64]string{}}
	rt.Cleanup(func() {
		if err := b.close(); err != nil {
			rt.Errorf("run: %v", err)
		}
	})
	for _, name := range []string{"ann", "bob"} {
		must(b.Accounts().CreateToken(b.ctx, account(name, name)))(t)
	}
	b.open("a")
	must(b.Projects().Inbox(b.ctx, ledger.InboxQuery{Project: "p", Agent: "a", By: ann(), Limit: 1, Consume: true}))(t)
	return b
}

func (b *inboxes) open(agent string) {
	if b.unread[agent] == nil {
		b.unread[agent] = map[int64]string{}
	}
}

func (b *inboxes) play(rt *rapid.T) {
	agent := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	by := func() *auth.Token {
		return &auth.Token{Name: rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "by"), Scopes: auth.Permissions()}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"notify": func(rt *rapid.T) {
			from, to := agent.Draw(rt, "from"), rapid.SliceOfN(agent, 0, 3).Draw(rt, "to")
			b.notify(rt, by(), from, to)
		},
		"consume": func(rt *rapid.T) {
			in := ledger.InboxQuery{Project: "p", Agent: agent.Draw(rt, "agent"), By: by(),
				Limit: rapid.IntRange(1, 4).Draw(rt, "limit"), Consume: true}
			b.open(in.Agent)
			found, err := b.Projects().Inbox(b.ctx, in)
			want := slices.Sorted(maps.Keys(b.unread[in.Agent]))
			want = want[:min(len(want), in.Limit)]
			for i, n := range found.Found {
				delete(b.unread[in.Agent], n.Seq)
				if i >= len(want) || n.Seq != want[i] {
					rt.Errorf("notification %d of %s, want %v", n.Seq, in.Agent, want)
				}
			}
			if err != nil || len(found.Found) != len(want) {
				rt.Errorf("Inbox(%s) = %d notifications, %v; want %d", in.Agent, len(found.Found), err, len(want))
			}
		},
		"acknowledge": func(rt *rapid.T) {
			if b.last == 0 {
				return
			}
			name, seqs := agent.Draw(rt, "agent"), rapid.SliceOfN(rapid.Int64Range(max(1, b.last-8), b.last), 1,
				4).Draw(rt, "seqs")
			if err := b.Projects().Acknowledge(b.ctx, "p", name, by(), seqs); err != nil {
				rt.Error(err)
			}
			b.open(name)
			for _, seq := range seqs {
				delete(b.unread[name], seq)
			}
		},
		"purge": func(rt *rapid.T) {
			<-time.After(time.Minute)
			if err := b.Purge(b.ctx, "project:p", rapid.SampledFrom([]time.Duration{0, 10 * time.Minute}).Draw(rt,
				"keep")); err != nil {
				rt.Error(err)
			}
			first := b.thread("project:p").FirstSeq
			for _, box := range b.unread {
				maps.DeleteFunc(box, func(seq int64, _ string) bool { return seq < first })
			}
		},
		"expire": func(rt *rapid.T) {
			<-time.After(time.Minute)
			if err := b.Projects().ExpireNotifications(b.ctx, "project:p",
				rapid.SampledFrom([]time.Duration{0, 10 * time.Minute}).Draw(rt, "age")); err != nil {
				rt.Error(err)
			}
			upto := b.thread("project:p").Lapsed
			for _, box := range b.unread {
				maps.DeleteFunc(box, func(seq int64, _ string) bool { return seq <= upto })
			}
		},
		"delete": func(rt *rapid.T) {
			if rapid.IntRange(0, 9).Draw(rt, "really") > 0 {
				return
			}
			if err := b.DeleteThread(b.ctx, "project:p", ann()); err != nil {
				rt.Error(err)
			}
			b.unread, b.last = map[string]map[int64]string{}, 0
			b.notify(rt, by(), "a", nil)
		},
		"": func(rt *rapid.T) { b.compare(rt) },
	})
	if found := must(storetest.Check(b.ctx, b.store))(b.t); len(found) > 0 {
		rt.Errorf("broken invariants: %v", found)
	}
}

func (b *inboxes) notify(rt *rapid.T, by *auth.Token, from string, to []string) {
	out, err := b.Projects().Notify(b.ctx, project.Notify{Project: "p", By: by,
		Notification: project.Notification{From: from, To: to, Event: "e", Data: json.RawMessage("1")}})
	if err != nil {
		rt.Fatal(err)
	}
	b.last = out.Seq
	for _, name := range to {
		b.open(name)
	}
	for name, box := range b.unread {
		if name != from && (len(to) == 0 || slices.Contains(to, name)) {
			box[out.Seq] = by.Name
		}
	}
	b.open(from)
}

func (b *inboxes) compare(rt *rapid.T) {
	want := map[string]int64{"ann": 0, "bob": 0}
	for _, box := range b.unread {
		for _, by := range box {
			want[by]++
		}
	}
	for _, row := range b.tokens() {
		if row.Used.Notifications != want[row.Name] {
			rt.Fatalf("token %s counts %d unread notifications, want %d", row.Name, row.Used.Notifications, want[row.Name])
		}
	}
}

// inboxOperations returns operations on the project of [fillDay], in which a has notified x and y.
func inboxOperations() []operation {
	return []operation{
		{name: "notify", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Projects().Notify(ctx, project.Notify{Project: "p", Key: "key", By: ann(),
				Notification: project.Notification{From: "a", To: []string{"x", "new"}, Event: "e"}})
		}},
		{name: "consume", doubles: true, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			_, err := l.Projects().Inbox(ctx, ledger.InboxQuery{Project: "p", Agent: "x", By: ann(), Limit: 9, Consume: true})
			return nil, err
		}},
		{name: "acknowledge", doubles: true, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.Projects().Acknowledge(ctx, "p", "x", ann(), []int64{1})
		}},
		{name: "expire", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.Projects().ExpireNotifications(ctx, "project:p", -time.Hour)
		}},
	}
}
