package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/store"
	"mailroom/thread"
)

// waiting parks a run of thread with tickets, and returns the run and the tickets by name.
func (f *fixture) waiting(thread string, asks ...mailroom.Ask) (run string, tickets map[string]api.Ticket) {
	f.t.Helper()
	run = f.submit(thread, "one").Run
	f.park(f.claim(), asks...)
	page := mustCall[api.Page[api.Ticket]](f, "GET /v1/tickets?q=run:"+run, "")
	tickets = map[string]api.Ticket{}
	for _, k := range page.Items {
		tickets[k.Name] = k
	}
	return run, tickets
}

func (f *fixture) decide(ticket, body string) response {
	f.t.Helper()
	return f.call("POST /v1/tickets/"+ticket, body)
}

func (f *fixture) wantCode(what string, a response, status int, code mailroom.Code) {
	f.t.Helper()
	if p := a.problem(f.t); a.status != status || p.Code != code {
		f.t.Errorf("%s: %d %s, want %d %s", what, a.status, a.body, status, code)
	}
}

func approval() mailroom.Ask {
	return mailroom.Ask{
		Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "Deploy?", Action: "deploy",
		Arguments: []byte(`{"to":"production"}`),
	}
}

func TestATicketFromQuestionToAnswer(t *testing.T) {
	f := start(t)
	run, tickets := f.waiting("t", approval(), mailroom.Ask{Name: "colour", Kind: mailroom.TicketInput, After: time.Hour})
	k := tickets["deploy"]
	prompt, action := "Deploy?", "deploy"
	want := api.Ticket{
		ID: thread.TicketID(run, "deploy"), Thread: "t", Run: run, Agent: "echo", Name: "deploy",
		Kind:   mailroom.TicketApproval,
		Prompt: &prompt, Action: &action, Arguments: []byte(`{"to":"production"}`), Digest: k.Digest,
		State:  mailroom.TicketOpen,
		Answer: []byte("null"), OpenedAt: k.OpenedAt,
	}
	opened := mustCall[api.Page[struct{ At time.Time }]](f, "GET /v1/threads/t/entries?kind=ticket.opened", "").Items
	if k.OpenedAt == nil || len(opened) != 2 || !k.OpenedAt.Equal(opened[0].At) {
		t.Errorf("opened at %v, want the time of the first of the entries %v", k.OpenedAt, opened)
	}
	if diff := cmp.Diff(want, k); diff != "" || len(k.Digest) != 64 {
		t.Errorf("open: %s", diff)
	}
	raw := f.call("GET /v1/tickets/"+k.ID, "").body
	for _, absent := range []string{"expires_at", "decision", "answer", "reason", "decided_by", "decided_at"} {
		if !strings.Contains(raw, `"`+absent+`":null`) {
			t.Errorf("%s is not null in %s", absent, raw)
		}
	}
	for q, n := range map[string]int{"agent:echo kind:approval": 1, "agent:e*": 2, "-agent:echo": 0} {
		if got := mustCall[api.Page[api.Ticket]](f, "GET /v1/tickets?q="+url.QueryEscape(q), "").Items; len(got) != n {
			t.Errorf("tickets that match %q: got %d, want %d", q, len(got), n)
		}
	}
	shown := mustCall[api.Run](f, "GET /v1/runs/"+run, "")
	wait := &api.Wait{Tickets: []string{k.ID, tickets["colour"].ID}, Until: "all"}
	if diff := cmp.Diff(wait, shown.Wait); diff != "" || shown.Status != mailroom.StatusWaiting {
		t.Errorf("run is %s, waits for: %s", shown.Status, diff)
	}
	if at := tickets["colour"].ExpiresAt; at == nil || !at.After(time.Now()) {
		t.Errorf("expires at %v, want a future time", at)
	}

	k = mustCall[api.Ticket](f, "POST /v1/tickets/"+k.ID, `{"decision":"approve","digest":"`+k.Digest[:16]+
		`","reason":"looks fine"}`)
	if k.Agent != "echo" || k.State != mailroom.TicketDecided || k.Decision == nil ||
		*k.Decision != mailroom.VerdictApprove || *k.DecidedBy != "admin" || *k.Reason != "looks fine" || k.DecidedAt == nil {
		t.Errorf("approved: %+v", k)
	}
	if got := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); got.Status != mailroom.StatusWaiting {
		t.Errorf("with one of two decided the run is %s, want waiting", got.Status)
	}
	k = mustCall[api.Ticket](f, "POST /v1/tickets/"+tickets["colour"].ID,
		`{"decision":"answer","answer":{"Colour": [1.50]},"decided_by":"ada"}`)
	if string(k.Answer) != `{"Colour":[1.50]}` || *k.DecidedBy != "ada" {
		t.Errorf("answered: %+v", k)
	}
	w := f.claim()
	shown = mustCall[api.Run](f, "GET /v1/runs/"+run, "")
	if w.Claim.Run != run || w.Claim.Attempt != 2 || shown.Wait != nil {
		t.Errorf("resumed %+v, waiting for %+v", w.Claim, shown.Wait)
	}
}

func TestADecisionIsMadeOnce(t *testing.T) {
	f := start(t)
	run, tickets := f.waiting("t", approval())
	k := tickets["deploy"]
	yes := `{"decision":"approve","digest":"` + k.Digest + `"}`
	f.wantCode("a digest of something else", f.decide(k.ID, `{"decision":"approve","digest":"0123456789abcdef"}`), 409,
		mailroom.CodeConflict)
	f.wantCode("half a digest", f.decide(k.ID, `{"decision":"approve","digest":"`+k.Digest[:15]+`"}`), 409,
		mailroom.CodeConflict)
	for range 2 {
		if got := mustCall[api.Ticket](f, "POST /v1/tickets/"+k.ID, yes); got.State != mailroom.TicketDecided {
			t.Errorf("ticket is %s after the approval", got.State)
		}
	}
	f.wantCode("another decision", f.decide(k.ID, `{"decision":"deny"}`), 409, mailroom.CodeConflict)
	var decided int
	for _, e := range mustCall[api.Page[mailroom.Entry]](f, "GET /v1/threads/t/entries?kind=ticket.decided", "").Items {
		if e.Run == run {
			decided++
		}
	}
	if decided != 1 {
		t.Errorf("%d entries for one decision", decided)
	}
	f.claim()
	_, tickets = f.waiting("void", approval())
	f.call("POST /v1/threads/void/interrupt", "")
	f.wantCode("of a run that has ended", f.decide(tickets["deploy"].ID, `{"decision":"deny"}`), 409,
		mailroom.CodeConflict)
	f.wantCode("of no ticket", f.decide("none", `{"decision":"deny"}`), 404, mailroom.CodeNotFound)
}

func TestAnExpiredTicketIsGone(t *testing.T) {
	f := start(t)
	late := approval()
	late.After = time.Microsecond
	run, tickets := f.waiting("t", late)
	w := f.claim() // the expiry makes the thread due
	if w.Claim.Run != run {
		t.Fatalf("claimed %s, want %s", w.Claim.Run, run)
	}
	k := tickets["deploy"]
	f.wantCode("after its expiry", f.decide(k.ID, `{"decision":"approve","digest":"`+k.Digest+`"}`), 410,
		mailroom.CodeGone)
	if got := mustCall[api.Ticket](f, "GET /v1/tickets/"+k.ID, ""); got.State != mailroom.TicketExpired ||
		got.Decision != nil {
		t.Errorf("expired: %+v", got)
	}
}

func TestADecisionFitsItsTicket(t *testing.T) {
	f := start(t)
	asks := []mailroom.Ask{approval()}
	for _, kind := range []mailroom.TicketKind{mailroom.TicketInput, mailroom.TicketEvent, mailroom.TicketChildren,
		mailroom.TicketTimer} {
		a := newAsk(kind)
		a.Name = string(kind)
		asks = append(asks, a)
	}
	_, tickets := f.waiting("t", asks...)
	for _, tc := range []struct{ ticket, body, location string }{
		{"deploy", `{"decision":"approve"}`, "body.digest"},
		{"deploy", `{"decision":"answer","answer":1}`, "body.decision"},
		{"deploy", `{"decision":"maybe"}`, "body.decision"},
		{"deploy", `{"decision":""}`, "body.decision"},
		{"deploy", `{}`, "body"},
		{"deploy", `{"decision":"deny","by":"me"}`, "body.by"},
		{"deploy", `{"decision":"deny","reason":"a\u0000b"}`, "body.reason"},
		{"deploy", `{"decision":"deny","reason":7}`, "body.reason"},
		{"input", `{"decision":"approve","digest":"0123456789abcdef"}`, "body.decision"},
		{"input", `{"decision":"deny"}`, "body.decision"},
		{"input", `{"decision":"answer"}`, "body.answer"},
		{"input", `{"decision":"answer","answer":null}`, "body.answer"},
		{"input", `{"decision":"answer","answer":"` + strings.Repeat("x", 65<<10) + `"}`, "body.answer"},
		{"event", `{"decision":"deny"}`, "body.decision"},
		{"children", `{"decision":"answer","answer":1}`, "body.decision"},
		{"timer", `{"decision":"answer","answer":1}`, "body.decision"},
		{"timer", `{"decision":"approve"}`, "body.decision"},
	} {
		name := fmt.Sprintf("%s %.60s", tc.ticket, tc.body)
		a := f.decide(tickets[tc.ticket].ID, tc.body)
		status := 422
		if len(tc.body) > mailroom.MaxAnswer {
			status = 413
		}
		f.wantCode(name, a, status, api.CodeOf(status))
		if got := a.problem(t).Errors; len(got) == 0 || got[0].Location != tc.location {
			t.Errorf("%s: %s, want the location %s", name, a.body, tc.location)
		}
	}
	for name, k := range tickets {
		if got := mustCall[api.Ticket](f, "GET /v1/tickets/"+k.ID, ""); got.State != mailroom.TicketOpen {
			t.Errorf("ticket %s is %s after a refused decision", name, got.State)
		}
	}
}

func TestDecisionsComeWithASubmit(t *testing.T) {
	f := start(t)
	run, tickets := f.waiting("t", approval(), newAsk(mailroom.TicketInput))
	k := tickets["deploy"]
	body := func(digest, more string) string {
		return `{"decisions":[{"ticket":"` + k.ID + `","decision":"approve","digest":"` + digest + `"}]` + more + `}`
	}
	const to = "POST /v1/threads/t/messages"
	before := f.snapshot()
	f.wantCode("one that does not fit", f.call(to, body("0123456789abcdef", `,"text":"go"`)), 409, mailroom.CodeConflict)
	f.wantCode("of no ticket", f.call(to, `{"text":"go","decisions":[{"ticket":"none","decision":"deny"}]}`), 404,
		mailroom.CodeNotFound)
	f.wantCode("of another thread", f.call("POST /v1/threads/u/messages", body(k.Digest, "")), 404, mailroom.CodeNotFound)
	f.wantCode("without a decision", f.call(to, `{"decisions":[{"ticket":"`+k.ID+`"}]}`), 422, mailroom.CodeInvalid)
	f.wantCode("none", f.call(to, `{"decisions":[]}`), 422, mailroom.CodeInvalid)
	if after := f.snapshot(); after != before {
		t.Errorf("refused, but it wrote:\n%s\nbefore:\n%s", after, before)
	}
	for i := range 2 {
		got := mustCall[store.Submitted](f, to, body(k.Digest, `,"key":"k","text":" "`))
		want := store.DispositionResumed
		if i > 0 {
			want = store.DispositionDuplicate
		}
		if got.Run != run || got.Disposition != want || got.Message != "" {
			t.Errorf("a decision without text: %+v, want %s of run %s", got, want, run)
		}
	}
	f.wantCode("the key with another decision", f.call(to,
		`{"key":"k","decisions":[{"ticket":"`+k.ID+`","decision":"deny"}]}`), 409, mailroom.CodeConflict)
	if got := mustCall[api.Ticket](f, "GET /v1/tickets/"+k.ID, ""); *got.Decision != mailroom.VerdictApprove ||
		*got.DecidedBy != "admin" {
		t.Errorf("decided: %+v", got)
	}
	got := mustCall[store.Submitted](f, to, `{"text":"blue, and hurry"}`)
	if got.Run != run || got.Disposition != store.DispositionResumed || got.Status != mailroom.StatusQueued {
		t.Errorf("a message to a run that waits for input: %+v", got)
	}
	k = mustCall[api.Ticket](f, "GET /v1/tickets/"+tickets["q"].ID, "")
	if string(k.Answer) != `"blue, and hurry"` {
		t.Errorf("answer %s", k.Answer)
	}
	f.wantCode("a change of the answer", f.call("PATCH /v1/threads/"+got.Thread+"/messages/"+got.Message,
		`{"text":"red"}`), 409, mailroom.CodeConflict)
}

func TestTicketsAreFilteredAndPaged(t *testing.T) {
	f := start(t)
	one, _ := f.waiting("a", approval())
	f.waiting("b", newAsk(mailroom.TicketInput), newNamedAsk("timer", mailroom.TicketTimer))
	f.waiting("c", approval())
	f.call("POST /v1/threads/a/interrupt", "")
	for _, tc := range []struct {
		q    string
		want []string
	}{
		{"", []string{"c deploy", "b q", "b timer", "a deploy"}},
		{"state:open", []string{"c deploy", "b q", "b timer"}},
		{"state:void", []string{"a deploy"}},
		{"-state:void kind:approval", []string{"c deploy"}},
		{"kind:timer", []string{"b timer"}},
		{"thread:b", []string{"b q", "b timer"}},
		{"thread:* -thread:b", []string{"c deploy", "a deploy"}},
		{"run:" + one, []string{"a deploy"}},
		{"run:none", nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			got := f.ticketNames(tc.q, limit)
			want := slices.Clone(tc.want)
			slices.Sort(got) // tickets of one commit have no defined order
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q, %d a page: %s", tc.q, limit, diff)
			}
		}
	}
	for _, q := range []string{"state:broken", "kind:question", "name:q", "state"} {
		f.wantCode(q, f.call("GET /v1/tickets?q="+q, ""), 422, mailroom.CodeInvalid)
	}
}

func newNamedAsk(name string, kind mailroom.TicketKind) mailroom.Ask {
	a := newAsk(kind)
	a.Name = name
	return a
}

// ticketNames reads the whole list page by page, as "thread name".
func (f *fixture) ticketNames(q string, limit int) (names []string) {
	f.t.Helper()
	lq := client.ListQuery{Q: q, Limit: limit}
	for {
		page, err := f.client.Tickets(f.t.Context(), lq)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, k := range page.Items {
			names = append(names, k.Thread+" "+k.Name)
		}
		if page.Next == nil {
			return names
		}
		lq.Cursor = *page.Next
	}
}

func TestClientDecides(t *testing.T) {
	f := start(t)
	run, tickets := f.waiting("t", approval())
	k, err := f.client.Ticket(t.Context(), tickets["deploy"].ID)
	if err != nil {
		t.Fatal(err)
	}
	k, err = f.client.Decide(t.Context(), k.ID, api.Decision{Decision: mailroom.VerdictDeny, Reason: "not today"})
	if err != nil || k.State != mailroom.TicketDecided || *k.Reason != "not today" {
		t.Errorf("denied: %+v, %v", k, err)
	}
	_, err = f.client.Decide(t.Context(), k.ID, api.Decision{Decision: mailroom.VerdictApprove, Digest: k.Digest})
	if got := mailroom.CodeOf(err); got != mailroom.CodeConflict {
		t.Errorf("approved what was denied: %v, want conflict", err)
	}
	if w := f.claim(); w.Claim.Run != run {
		t.Errorf("claimed %s, want %s", w.Claim.Run, run)
	}
}
