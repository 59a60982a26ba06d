package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/thread"
)

// withTargets gives the server two targets; the second one decides nothing.
func withTargets(o *server.Options) {
	o.Parts.Alerts = &operate.Alerts{
		Targets: []operate.Target{{Name: "phone", Kind: "ntfy", Decide: true, Tokens: []string{"ann"}, Place: "my phone"},
			{Name: "wall", Kind: "webhook", Place: "the wall"}},
		Links: alert.NewLinks("the secret of the test"),
	}
}

// linkTo returns a link to a ticket, after a change of its content.
func linkTo(k api.Ticket, change func(*alert.Link)) string {
	link := alert.Link{Ticket: k.ID, Digest: k.Digest, Thread: "alert:phone", Place: "my phone",
		Expires: time.Now().Add(time.Hour)}
	if change != nil {
		change(&link)
	}
	return alert.NewLinks("the secret of the test").Sign(link)
}

// follow posts a link without a token; more are further fields.
func (f *fixture) follow(path, link, more string) response {
	f.t.Helper()
	raw, err := json.Marshal(link)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.withToken("").call("POST "+path, `{"link":`+string(raw)+more+`}`)
}

func TestALinkShowsAndDecidesOneTicket(t *testing.T) {
	f := start(t, withTargets)
	run, tickets := f.waiting("t", approval())
	_, others := f.waiting("u", approval())
	link := linkTo(tickets["deploy"], nil)
	for range 5 { // whatever opens links in messages
		var shown api.Question
		if got := f.follow("/v1/question", link, ""); got.status != http.StatusOK ||
			json.Unmarshal([]byte(got.body), &shown) != nil || shown.Ticket.State != mailroom.TicketOpen ||
			*shown.Ticket.Prompt != "Deploy?" {
			t.Fatalf("question: %d %s", got.status, got.body)
		}
	}
	if got := f.withToken("").call("GET /v1/question", ""); got.status < 400 {
		t.Errorf("GET: %d %s", got.status, got.body)
	}
	got := f.follow("/v1/question/decision", link, `,"decision":"approve","reason":"looks fine"`)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"decided_by":"alert:phone"`) {
		t.Fatalf("approve: %d %s", got.status, got.body)
	}
	f.wantCode("spent", f.follow("/v1/question/decision", link, `,"decision":"deny"`), 409, mailroom.CodeConflict)
	if got := f.follow("/v1/question", link, ""); got.status != http.StatusOK ||
		!strings.Contains(got.body, `"decision":"approve"`) {
		t.Errorf("who decided: %d %s", got.status, got.body)
	}
	if k := mustCall[api.Ticket](f, "GET /v1/tickets/"+others["deploy"].ID, ""); k.State != mailroom.TicketOpen {
		t.Errorf("the other ticket is %s", k.State)
	}
	if w := f.claim(); w.Claim.Run != run {
		t.Errorf("the run that was approved goes on, not %s", w.Claim.Run)
	}
}

func TestAForgedLinkDecidesNothing(t *testing.T) {
	f := start(t, withTargets)
	_, tickets := f.waiting("t", approval())
	_, others := f.waiting("u", mailroom.Ask{Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "Delete everything?"})
	k, other := tickets["deploy"], others["deploy"]
	good := linkTo(k, nil)
	parts := strings.Split(good, "~")
	altered := func(i int, to string) string {
		changed := append([]string{}, parts...)
		changed[i] = to
		return strings.Join(changed, "~")
	}
	for name, test := range map[string]struct {
		link   string
		status int
		code   mailroom.Code
	}{
		"empty":               {"~", 401, mailroom.CodeUnauthenticated},
		"cut":                 {good[:len(good)-1], 401, mailroom.CodeUnauthenticated},
		"with more":           {good + "A", 401, mailroom.CodeUnauthenticated},
		"of another ticket":   {altered(0, other.ID), 401, mailroom.CodeUnauthenticated},
		"with another digest": {altered(1, other.Digest), 401, mailroom.CodeUnauthenticated},
		"of another target":   {altered(2, "YWxlcnQ6d2FsbA"), 401, mailroom.CodeUnauthenticated},
		"valid for longer":    {altered(4, "zzzzzzz"), 401, mailroom.CodeUnauthenticated},
		"of another server": {alert.NewLinks("another").Sign(alert.Link{Ticket: k.ID, Digest: k.Digest,
			Thread: "alert:phone", Place: "my phone", Expires: time.Now().Add(time.Hour)}), 401, mailroom.CodeUnauthenticated},
		"expired": {linkTo(k, func(l *alert.Link) {
			l.Expires = time.Now().Add(-time.Second)
		}), 401, mailroom.CodeUnauthenticated},
		"of another place of its target": {linkTo(k, func(l *alert.Link) {
			l.Place = "her phone"
		}), 401, mailroom.CodeUnauthenticated},
		"of an older version": {linkTo(k, func(l *alert.Link) { l.Place = "" }), 401, mailroom.CodeUnauthenticated},
		"of a removed target": {linkTo(k, func(l *alert.Link) {
			l.Thread = "alert:gone"
		}), 401, mailroom.CodeUnauthenticated},
		"of a target without links": {linkTo(k, func(l *alert.Link) {
			l.Thread, l.Place = "alert:wall", "the wall"
		}), 401, mailroom.CodeUnauthenticated},
		"of a ticket that is another": {linkTo(k, func(l *alert.Link) {
			l.Digest = other.Digest
		}), 409, mailroom.CodeConflict},
		"of no ticket": {linkTo(k, func(l *alert.Link) {
			l.Ticket = thread.TicketID("none", "none")
		}), 404, mailroom.CodeNotFound},
	} {
		f.wantCode(name+", shown", f.follow("/v1/question", test.link, ""), test.status, test.code)
		f.wantCode(name+", decided", f.follow("/v1/question/decision", test.link, `,"decision":"approve"`),
			test.status, test.code)
	}
	f.wantCode("a long link", f.follow("/v1/question", strings.Repeat("a", 401), ""), 422, mailroom.CodeInvalid)
	for _, id := range []string{k.ID, other.ID} {
		if k := mustCall[api.Ticket](f, "GET /v1/tickets/"+id, ""); k.State != mailroom.TicketOpen {
			t.Errorf("ticket is %s", k.State)
		}
	}
	if got := f.withToken(good).call("GET /v1/tickets/"+k.ID, ""); got.status != http.StatusUnauthorized {
		t.Errorf("a link as a token: %d %s", got.status, got.body)
	}
}

func TestALinkAnswersAQuestion(t *testing.T) {
	f := start(t, withTargets)
	_, tickets := f.waiting("t", mailroom.Ask{Name: "when", Kind: mailroom.TicketInput, Prompt: "When?"})
	link := linkTo(tickets["when"], nil)
	f.wantCode("approve a question", f.follow("/v1/question/decision", link, `,"decision":"approve"`), 422,
		mailroom.CodeInvalid)
	got := f.follow("/v1/question/decision", link, fmt.Sprintf(`,"decision":"answer","answer":%q`, "on Friday"))
	if got.status != http.StatusOK || !strings.Contains(got.body, `"answer":"on Friday"`) {
		t.Errorf("answer: %d %s", got.status, got.body)
	}
}
