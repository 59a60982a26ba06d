package server_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

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

// withLinks adds the targets of withTargets, and a target for browsers with alerts that can decide a ticket.
func withLinks(o *server.Options) {
	withTargets(o)
	key := webpush.NewKey()
	to, err := target.OpenPush(target.PushOptions{Name: "browsers", Contact: "mailto:ops@example.org",
		Key: func() (string, error) {
			return key, nil
		}})
	if err != nil {
		panic(err)
	}
	o.Parts.Alerts.Push = to
	o.Parts.Alerts.Targets = append(o.Parts.Alerts.Targets,
		operate.Target{Name: "browsers", Kind: "push", Decide: true, Place: "my phone"})
}

// placeOf makes the thread whose runs send the alerts of a token to the target phone.
func (f *fixture) placeOf(owner string) (id string) {
	f.t.Helper()
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		rights, err := alert.ReadRights(r, alert.Allowed{"phone": {"ann"}}, time.Now(), owner)
		id = rights.Place(owner, "phone")
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.ledger.Submit(f.t.Context(), thread.Submit{Thread: id, Owner: owner, Agent: "alert:phone",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}}); err != nil {
		f.t.Fatal(err)
	}
	return id
}

// TestALinkEndsWithTheTokenSessionOrBrowserItWasSentTo has links that were sent for a token, and to browsers of a
// session, of a token and of the operator. Each is ended in its way, and the name is used again.
func TestALinkEndsWithTheTokenSessionOrBrowserItWasSentTo(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		f := startStore(t, open(t), func(ln net.Listener) net.Listener { return ln }, withLinks)
		_, tickets := f.waiting("t", approval())
		k := tickets["deploy"]
		from := func(id string) string { return linkTo(k, func(l *alert.Link) { l.Thread = id }) }
		browserOf := func(name string, call func(route, body string, headers ...string) response) string {
			return "alert:browsers:push:" + answered[api.PushSubscribed](t,
				call("POST /v1/push/subscriptions", mustBody(t, newBrowser(name)))).ID
		}
		f.createToken("ann", "", auth.PermissionSubmit)
		f.createToken("bob", "", auth.PermissionSubmit)
		session, ops := f.signIn(), f.withToken(f.createToken("ops", "", auth.PermissionAdmin))
		links := map[string]string{
			"ann": from(f.placeOf("ann")), "a session": from(browserOf("session", session.call)),
			"ops": from(browserOf("ops", ops.call)), "the operator": from(browserOf("own", f.call)),
		}
		for who, link := range links {
			if got := f.follow("/v1/question", link, ""); got.status != 200 {
				t.Errorf("%s: status %d: %s", who, got.status, got.body)
			}
		}
		f.wantCode("a token that the target does not name", f.follow("/v1/question", from(f.placeOf("bob")), ""), 401,
			mailroom.CodeUnauthenticated)
		f.wantCode("a browser that unsubscribed", f.follow("/v1/question", from("alert:browsers:push:gone"), ""), 401,
			mailroom.CodeUnauthenticated)

		session.call("DELETE /v1/session", "")
		for _, name := range []string{"ann", "ops"} {
			// by another server, which leaves its subscription
			if err := f.ledger.Accounts().RevokeToken(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			f.createToken(name, "", auth.PermissionAdmin)
		}
		for _, who := range []string{"ann", "a session", "ops"} {
			f.wantCode(who+", shown", f.follow("/v1/question", links[who], ""), 401, mailroom.CodeUnauthenticated)
			f.wantCode(who+", decided", f.follow("/v1/question/decision", links[who], `,"decision":"approve"`), 401,
				mailroom.CodeUnauthenticated)
		}
		if got := f.follow("/v1/question/decision", links["the operator"], `,"decision":"approve"`); got.status != 200 {
			t.Errorf("a link of the operator: status %d: %s", got.status, got.body)
		}
	})
}

// revoking ends a row between the check of a link and the commit of its decision.
type revoking struct {
	server.Tickets
	revoke func()
}

func (r revoking) Decide(ctx context.Context, d thread.Decision) (*mailroom.Ticket, error) {
	r.revoke()
	return r.Tickets.Decide(ctx, d)
}

// TestALinkDecidesNothingOnceItsTokenIsRevoked has the revocation overtake a decision, of the token for which the link
// was sent and of the session whose browser got it.
func TestALinkDecidesNothingOnceItsTokenIsRevoked(t *testing.T) {
	for _, who := range []string{"ann", "a session"} {
		revoke := func() {}
		f := start(t, withLinks, func(o *server.Options) {
			o.Ledger.Tickets = revoking{o.Ledger.Tickets, func() { revoke() }}
		})
		_, tickets := f.waiting("t", approval())
		from := ""
		if who == "ann" {
			f.createToken("ann", "", auth.PermissionSubmit)
			from = f.placeOf("ann")
			revoke = func() {
				if err := f.ledger.Accounts().RevokeToken(t.Context(), "ann"); err != nil {
					t.Error(err)
				}
			}
		} else {
			from = "alert:browsers:push:" + answered[api.PushSubscribed](t,
				f.signIn().call("POST /v1/push/subscriptions", mustBody(t, newBrowser("a")))).ID
			var s alert.Subscriber
			if err := json.Unmarshal(f.subscribers()[0].Metadata, &s); err != nil {
				t.Fatal(err)
			}
			revoke = func() {
				if err := f.ledger.Accounts().RevokeToken(t.Context(), s.Token); err != nil {
					t.Error(err)
				}
			}
		}
		link := linkTo(tickets["deploy"], func(l *alert.Link) { l.Thread = from })
		f.wantCode(who, f.follow("/v1/question/decision", link, `,"decision":"approve"`), 401, mailroom.CodeUnauthenticated)
		if k := mustCall[api.Ticket](f, "GET /v1/tickets/"+tickets["deploy"].ID, ""); k.State != mailroom.TicketOpen {
			t.Errorf("%s: the ticket is %s", who, k.State)
		}
	}
}
