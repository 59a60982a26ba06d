package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	c, _ := script(t, note(hangUp), note(refuse(mailroom.CodeUnavailable)),
		note(answer(api.Ticket{ID: "k", State: mailroom.TicketDecided})))
	k, err := c.Decide(t.Context(), "k/1", api.Decision{Decision: mailroom.VerdictAnswer,
		Answer: json.RawMessage(`{"a":1}`)})
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
	for _, code := range []mailroom.Code{mailroom.CodeConflict, mailroom.CodeGone, mailroom.CodeInvalid,
		mailroom.CodeNotFound} {
		c, asked := script(t, refuse(code))
		if _, err := c.Decide(t.Context(), "k", api.Decision{}); mailroom.CodeOf(err) != code || asked.Load() != 1 {
			t.Errorf("code %s returned as %v after %d requests", code, err, asked.Load())
		}
	}
}

// stream responds with text to a request that resumes after the cursor.
func stream(t *testing.T, after, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Last-Event-ID"); got != after {
			t.Errorf("Last-Event-ID %q, want %q", got, after)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
}

func TestTheStreamOfAllThreadsResumesAfterEachEvent(t *testing.T) {
	entry := func(id, seq string) string {
		return "event: entry\nid: " + id + "\ndata: {\"thread\":\"t\",\"seq\":" + seq +
			",\"kind\":\"message\",\"body\":{}}\n\n"
	}
	c, _ := script(t,
		stream(t, "", "id: a\n\n"),
		stream(t, "a", "event: delta\ndata: {\"thread\":\"t\",\"text\":\"x\"}\n\n"+entry("b", "1")+
			"event: entry\nid: half\ndata: {"),
		hangUp,
		refuse(mailroom.CodeUnavailable),
		stream(t, "b", ": beat\n\nevent: new\ndata: {}\n\n"+entry("c", "2")+"event: gap\nid: d\ndata: {}\n\n"),
		stream(t, "d", "event: delta\ndata: {\n\n"),
	)
	var got []string
	var last error
	for ev, err := range c.Stream(t.Context(), "") {
		if last = err; err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%s entry %t delta %t gap %t", ev.ID, ev.Entry != nil, ev.Delta != nil, ev.Gap != nil))
	}
	want := []string{" entry false delta true gap false", "b entry true delta false gap false",
		"c entry true delta false gap false", "d entry false delta false gap true"}
	if diff := cmp.Diff(want, got); diff != "" || mailroom.CodeOf(last) != mailroom.CodeInternal {
		t.Errorf("ended with %v, want the error of the invalid event; %s", last, diff)
	}
	c, asked := script(t, refuse(mailroom.CodeInvalid))
	for _, err := range c.Stream(t.Context(), "x") {
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || asked.Load() != 1 {
			t.Errorf("refused: %v after %d requests, want invalid after one", err, asked.Load())
		}
	}
}
