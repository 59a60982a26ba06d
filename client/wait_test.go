package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"mailroom"
	"mailroom/api"
)

func TestAnUnansweredDecisionIsRepeated(t *testing.T) {
	var sent []string
	note := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent = append(sent, r.Method+" "+r.URL.EscapedPath()+" "+string(raw))
			next(w, r)
		}
	}
	c, _ := script(t, note(hangUp), note(refuse(mailroom.CodeUnavailable)), note(answer(api.Ticket{ID: "k", State: mailroom.TicketDecided})))
	k, err := c.Decide(t.Context(), "k/1", api.Decision{Decision: mailroom.VerdictAnswer, Answer: json.RawMessage(`{"a":1}`)})
	if err != nil || k.State != mailroom.TicketDecided {
		t.Errorf("Decide() = %+v, %v", k, err)
	}
	for _, got := range sent {
		if want := `POST /v1/tickets/k%2F1 {"decision":"answer","answer":{"a":1}}`; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	if len(sent) != 3 {
		t.Errorf("sent %d times, want 3", len(sent))
	}
	for _, code := range []mailroom.Code{mailroom.CodeConflict, mailroom.CodeGone, mailroom.CodeInvalid, mailroom.CodeNotFound} {
		c, asked := script(t, refuse(code))
		if _, err := c.Decide(t.Context(), "k", api.Decision{}); mailroom.CodeOf(err) != code || asked.Load() != 1 {
			t.Errorf("code %s returned as %v after %d requests", code, err, asked.Load())
		}
	}
}

func TestTheStreamOfAllThreadsEndsAfterALoss(t *testing.T) {
	events := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, text)
		}
	}
	const entry = "event: entry\ndata: {\"thread\":\"t\",\"seq\":1,\"kind\":\"message\",\"body\":{}}\n\n"
	for name, tc := range map[string]struct {
		sent string
		want mailroom.Code
		seen int
	}{
		"a gap":         {entry + "event: gap\ndata: {}\n\n" + entry, mailroom.CodeUnavailable, 1},
		"the end":       {entry + ": beat\n\nevent: new\ndata: {}\n\n" + entry, mailroom.CodeUnavailable, 2},
		"half an event": {entry + "event: entry\ndata: {", mailroom.CodeUnavailable, 1},
		"no JSON":       {"event: delta\ndata: {\n\n", mailroom.CodeInternal, 0},
	} {
		c, _ := script(t, events(tc.sent))
		seen := 0
		var last error
		for _, err := range c.Stream(t.Context()) {
			if last = err; err == nil {
				seen++
			}
		}
		if got := mailroom.CodeOf(last); got != tc.want || seen != tc.seen {
			t.Errorf("%s: %d events, then %v; want %d and %s", name, seen, last, tc.seen, tc.want)
		}
	}
	c, _ := script(t, refuse(mailroom.CodeRateLimited))
	for _, err := range c.Stream(t.Context()) {
		if mailroom.CodeOf(err) != mailroom.CodeRateLimited {
			t.Errorf("refused: %v, want rate_limited", err)
		}
	}
}
