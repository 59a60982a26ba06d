package alert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// deliver submits to a thread of an owner that delivers to the target phone since an earlier submit.
func (h *fixture) deliver(owner, text string) {
	h.t.Helper()
	_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
		Thread: "of-" + owner, Owner: owner, Agent: "worker", Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}},
		DeliverTo: h.place(owner, "phone"), DeliverAgent: alert.AgentName("phone"),
	})
	h.must(err)
	h.after(time.Minute)
}

// place returns where deliveries of an owner for a target are sent while its token is valid.
func (h *fixture) place(owner, target string) (id string) {
	h.t.Helper()
	if h.places == nil {
		h.places = map[string]string{}
	}
	if h.places[owner] == "" {
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			rights, err := alert.ReadRights(r, nil, time.Now(), owner)
			h.places[owner] = rights.Place(owner, "")
			return err
		}))
	}
	return alert.ThreadID(target) + strings.TrimPrefix(h.places[owner], alert.ThreadID(""))
}

// replies returns the replies or the errors of the runs in the thread that delivers for an owner, the newest first.
func (h *fixture) replies(owner string) (all []string) {
	h.t.Helper()
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{Thread: h.place(owner, "phone")})
		for _, run := range runs {
			switch {
			case run.Status == mailroom.StatusCompleted && run.Reply != nil:
				all = append(all, *run.Reply)
			case run.Error != nil:
				all = append(all, run.Error.Message)
			default:
				h.t.Errorf("a run of %s is %s", owner, run.Status)
			}
		}
		return err
	}))
	return all
}

// TestOnlyTokensThatATargetNamesDeliverToIt has a subscribed thread of ann, whom the target names, and one of bob, whom
// the target no longer names. The target gets nothing from bob, and nothing from ann after her token is revoked.
func TestOnlyTokensThatATargetNamesDeliverToIt(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		h.createToken("ann")
		h.createToken("bob")
		h.deliver("bob", "boom")
		wantAll(t, h.replies("bob"), "not sent: token bob may not deliver to target phone any more")
		if got := h.targets["phone"].messages(); len(got) != 0 {
			t.Errorf("sent: %+v", got)
		}
		h.deliver("ann", "boom")
		wantAll(t, h.replies("ann"), "Sent: worker ended without an answer (m1)")
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
		h.deliver("ann", "boom again")
		wantAll(t, h.replies("ann")[:1], "not sent: token ann may not deliver to target phone any more")
		if got := h.targets["phone"].messages(); len(got) != 1 {
			t.Errorf("sent: %+v", got)
		}
	})
}

func wantAll(t *testing.T, got []string, want string) {
	t.Helper()
	if len(got) == 0 {
		t.Errorf("no run: want %q", want)
	}
	for _, s := range got {
		if s != want {
			t.Errorf("the log says %q, want %q", s, want)
		}
	}
}

// browsers is a target with subscribers.
type browsers struct{ *place }

func (browsers) Subscribers() string { return "alert:browsers:push:" }

// subscribe subscribes a browser for a token; session is the row that did it, or "".
func (h *fixture) subscribe(browser, by, session string) {
	h.t.Helper()
	raw, err := json.Marshal(alert.Subscriber{By: by, Token: session, CreatedAt: time.Now()})
	h.must(err)
	group := browsers{}.Subscribers()
	_, err = ledger.GroupsOf(h.ledger).Open(h.t.Context(), ledger.Opening{
		Thread: group + browser, Agent: alert.AgentName("browsers"), Metadata: raw, Group: group,
		Admit: func([]*mailroom.Thread) error {
			return nil
		},
	})
	h.must(err)
}

// TestABrowserGetsNoAlertsAfterItsSession has browsers of the operator, of an admin, of a session that expires
// after an hour and of one that is revoked. One alert waits when the sessions end.
func TestABrowserGetsNoAlertsAfterItsSession(t *testing.T) {
	to := browsers{&place{}}
	failures := rule(alert.KindFailed)
	failures.To = []string{"browsers"}
	agents := func(l *ledger.Ledger) map[string]mailroom.Agent {
		return map[string]mailroom.Agent{alert.AgentName("browsers"): alert.New(alert.Options{Name: "browsers", Target: to,
			Ledger: seam{l}, Zone: time.UTC})}
	}
	inBubbleWith(t, []alert.Rule{failures}, nil, agents, func(h *fixture) {
		admin := []auth.Permission{auth.PermissionAdmin}
		ops, err := h.ledger.Accounts().CreateToken(h.t.Context(), auth.Token{Name: "ops", Sum: "x", Scopes: admin})
		h.must(err)
		session := func(sum string, life time.Duration) string {
			row, err := h.ledger.Accounts().DeriveToken(h.t.Context(),
				auth.Token{Sum: sum, Terms: auth.Terms{Kind: auth.KindSession, Scopes: admin, ExpiresAt: time.Now().Add(life)}},
				ops)
			h.must(err)
			return row.Name
		}
		revoked := session("b", 24*time.Hour)
		h.subscribe("desk", auth.Operator, "")
		h.subscribe("phone", "ops", "")
		h.subscribe("expires", "ops", session("a", time.Hour))
		h.subscribe("revoked", "ops", revoked)
		h.fail("alpha beta", 4, to)
		to.fail(func() error { return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")} })
		h.fail("gamma delta", 4, to)
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), revoked))
		h.after(2 * time.Hour)
		to.fail(nil)
		h.after(time.Hour)
		h.fail("epsilon zeta", 8, to) // the one that waited, and this one
		h.wantGone("expires", "revoked")
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ops"))
		h.fail("eta theta", 9, to)
		h.wantGone("expires", "phone", "revoked")
	})
}

// TestEachBrowserIsRemindedOnce has a browser that is not reachable during the first reminder.
func TestEachBrowserIsRemindedOnce(t *testing.T) {
	to := browsers{&place{}}
	asks := rule(alert.KindTicket)
	asks.To, asks.Remind = []string{"browsers"}, time.Minute
	agents := func(l *ledger.Ledger) map[string]mailroom.Agent {
		return map[string]mailroom.Agent{alert.AgentName("browsers"): alert.New(alert.Options{Name: "browsers", Target: to,
			Ledger: seam{l}, Zone: time.UTC})}
	}
	inBubbleWith(t, []alert.Rule{asks}, nil, agents, func(h *fixture) {
		h.subscribe("desk", auth.Operator, "")
		h.subscribe("phone", auth.Operator, "")
		h.submit("t", "ask x")
		h.after(30 * time.Second)
		to.fail(func() error { return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")} })
		h.after(time.Minute)
		to.fail(nil)
		h.after(40 * time.Minute)
		if got, want := len(to.messages()), 2*len(toldAt); got != want {
			t.Errorf("two browsers got %d messages, want %d", got, want)
		}
	})
}

// A session that may only read, a session of another token than its subscription says, and a former token of the
// name get nothing.
func TestASubscriptionIsOfTheAdminWhoMadeIt(t *testing.T) {
	inBubbleWith(t, nil, nil, func(*ledger.Ledger) map[string]mailroom.Agent { return nil }, func(h *fixture) {
		accounts, admin := h.ledger.Accounts(), []auth.Permission{auth.PermissionAdmin}
		ops, err := accounts.CreateToken(h.t.Context(), auth.Token{Name: "ops", Sum: "x", Scopes: admin})
		h.must(err)
		session := func(sum string, scopes ...auth.Permission) string {
			row, err := accounts.DeriveToken(h.t.Context(),
				auth.Token{Sum: sum, Terms: auth.Terms{Kind: auth.KindSession, Scopes: scopes,
					ExpiresAt: time.Now().Add(time.Hour)}}, ops)
			h.must(err)
			return row.Name
		}
		h.subscribe("admin", "ops", session("a", admin...))
		h.subscribe("reader", "ops", session("b", auth.PermissionRead))
		h.subscribe("other", "bob", session("c", admin...))
		h.wantGone("other", "reader")
		h.subscribe("former", "ops", "")
		h.after(time.Minute)
		h.must(accounts.RevokeToken(h.t.Context(), "ops"))
		_, err = accounts.CreateToken(h.t.Context(), auth.Token{Name: "ops", Sum: "y", Scopes: admin})
		h.must(err)
		h.subscribe("new", "ops", "")
		h.wantGone("admin", "former", "other", "reader")
	})
}

// TestASubscriptionOfTheOperatorEndsWithItsToken has browsers that the operator's present token subscribed, a former
// one, and one that an older version did not name. Their alerts go to the first and the last one.
func TestASubscriptionOfTheOperatorEndsWithItsToken(t *testing.T) {
	to, now := browsers{&place{}}, auth.NewOperator("now")
	failures := rule(alert.KindFailed)
	failures.To = []string{"browsers"}
	agents := func(l *ledger.Ledger) map[string]mailroom.Agent {
		return map[string]mailroom.Agent{alert.AgentName("browsers"): alert.New(alert.Options{Name: "browsers", Target: to,
			Ledger: seam{l}, Operator: now, Zone: time.UTC})}
	}
	inBubbleWith(t, []alert.Rule{failures}, nil, agents, func(h *fixture) {
		h.operator = now
		session := func(sum string, of *auth.Token) string {
			row, err := h.ledger.Accounts().DeriveToken(h.t.Context(),
				auth.Token{Sum: sum, Terms: auth.Terms{Kind: auth.KindSession, Scopes: of.Scopes,
					ExpiresAt: time.Now().Add(24 * time.Hour)}}, of)
			h.must(err)
			return row.Name
		}
		former := auth.NewOperator("before")
		h.subscribe("present", auth.Operator, now.ID())
		h.subscribe("former", auth.Operator, former.ID())
		h.subscribe("former-session", auth.Operator, session("a", former))
		h.subscribe("session", auth.Operator, session("b", now))
		h.subscribe("unnamed", auth.Operator, "")
		h.wantGone("former", "former-session")
		h.fail("alpha beta", 3, to)
	})
}

// fail makes a run fail and checks how many messages the target has got in all a minute later.
func (h *fixture) fail(words string, want int, to browsers) {
	h.t.Helper()
	h.submit(fmt.Sprint("t-", words[:3]), words)
	h.after(time.Minute)
	if got := len(to.messages()); got != want {
		h.t.Errorf("%d messages after %q, want %d", got, words, want)
	}
}

// wantGone checks which browsers get no further alerts.
func (h *fixture) wantGone(want ...string) {
	h.t.Helper()
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
		group := browsers{}.Subscribers()
		threads, err := r.Threads(store.ThreadQuery{Prefix: group})
		if err != nil {
			return err
		}
		gone, err := alert.GoneSubscribers(r, threads, h.operator, time.Now())
		var got []string
		for _, t := range threads {
			if gone[t.ID] != "" {
				got = append(got, t.ID[len(group):])
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			h.t.Errorf("gone: %v, want %v", gone, want)
		}
		return err
	}))
}
