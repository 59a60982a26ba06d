package client

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

// sse responds with events: "SEQ kind" is an entry, "SEQ:N text" a delta, "gap AFTER LAST" a gap, ":" a
// heartbeat, "half" the beginning of an event, and "hang" waits until the client disconnects. It checks
// the Last-Event-ID.
func sse(t *testing.T, from string, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Last-Event-ID"); got != from {
			t.Errorf("Last-Event-ID %q, want %q", got, from)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			id, what, _ := strings.Cut(e, " ")
			seq, n, isDelta := strings.Cut(id, ":")
			switch {
			case e == ":":
				fmt.Fprint(w, ": still here\n\n")
			case e == "half":
				fmt.Fprint(w, "event: entry\nid: 999\ndata: {\"seq\":999")
			case e == "hang":
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				<-r.Context().Done()
			case id == "gap":
				after, last, _ := strings.Cut(what, " ")
				fmt.Fprintf(w, "event: gap\nid: %s\ndata: {\"after\":%s,\"oldest\":1,\"last\":%s}\n\n", last, after, last)
			case id == "new":
				fmt.Fprint(w, "event: weather\ndata: {}\n\n")
			case isDelta:
				fmt.Fprintf(w, "event: delta\nid: %s:%s\ndata: {\"text\":%q}\n\n", seq, n, what)
			default:
				fmt.Fprintf(w, "event: entry\nid: %s\ndata: {\"seq\":%s,\"kind\":%q}\n\n", seq, seq, what)
			}
		}
	}
}

func noContent(t *testing.T, from string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Last-Event-ID"); got != from {
			t.Errorf("Last-Event-ID %q, want %q", got, from)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// follow collects the events of Follow.
func follow(t *testing.T, c *Client, q FollowQuery) ([]string, error) {
	t.Helper()
	var got []string
	var last error
	for e, err := range c.Follow(t.Context(), q) {
		if last != nil {
			t.Errorf("after the error %v Follow yielded %+v, %v", last, e, err)
		}
		last = err
		switch {
		case err != nil && e != (Event{}):
			t.Errorf("Follow yielded the event %+v with the error %v", e, err)
		case e.Entry != nil:
			got = append(got, e.ID+" "+e.Entry.Kind)
		case e.Delta != nil:
			got = append(got, e.ID+" "+e.Delta.Text)
		case e.Gap != nil:
			got = append(got, fmt.Sprintf("gap %d %d", e.Gap.After, e.Gap.Last))
		}
	}
	return got, last
}

func TestFollowGivesEachEntryOnceOverLostConnections(t *testing.T) {
	c, _ := script(t,
		sse(t, "0", "1 message", ":", "2 run.queued", "half"),
		hangUp,
		refuse(mailroom.CodeUnavailable),
		refuse(mailroom.CodeRateLimited),
		sse(t, "2", "2 run.queued", "new", "3 run.started", "3:2 he", "3:5 llo"),
		sse(t, "3:5", "3:6 !", "4 message", "5 run.completed"),
		noContent(t, "5"),
	)
	got, err := follow(t, c, FollowQuery{Thread: "t", Until: UntilSettled})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 message", "2 run.queued", "3 run.started", "3:2 he", "3:5 llo", "3:6 !", "4 message",
		"5 run.completed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFollowStartsAtTheGivenCursor(t *testing.T) {
	c, _ := script(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.String(), "/v1/runs/r/stream?until=waiting"; got != want {
			t.Errorf("request to %s, want %s", got, want)
		}
		sse(t, "7:3", "7:5 lo", "8 message")(w, r)
	}, noContent(t, "8"))
	got, err := follow(t, c, FollowQuery{Run: "r", After: "7:3", Until: UntilWaiting})
	if diff := cmp.Diff([]string{"7:5 lo", "8 message"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	c, _ = script(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.String(), "/v1/threads/a%2Fb/stream?run=r"; got != want {
			t.Errorf("request to %s, want %s", got, want)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if _, err := follow(t, c, FollowQuery{Thread: "a/b", Run: "r"}); err != nil {
		t.Error(err)
	}
}

func TestFollowReturnsEveryEntryAfterAGapOfACursorAheadOfTheLog(t *testing.T) {
	c, _ := script(t, sse(t, "50", "gap 50 4", "5 message"), noContent(t, "5"))
	got, err := follow(t, c, FollowQuery{Thread: "t", After: "50"})
	if diff := cmp.Diff([]string{"gap 50 4", "5 message"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestASilentStreamReconnects(t *testing.T) {
	// On a busy machine any response can exceed the idle timeout, so responses depend on the cursor.
	at := map[string]http.HandlerFunc{
		"0": sse(t, "0", "1 message", "hang"), "1": sse(t, "1", "2 run.queued"), "2": noContent(t, "2"),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at[r.Header.Get("Last-Event-ID")](w, r)
	}))
	defer s.Close()
	c := New(s.URL, "", WithIdleTimeout(50*time.Millisecond), WithBackoff(time.Millisecond, time.Millisecond),
		WithMaxAttempts(1000))
	got, err := follow(t, c, FollowQuery{Thread: "t"})
	if diff := cmp.Diff([]string{"1 message", "2 run.queued"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestLeavingTheLoopClosesTheConnection(t *testing.T) {
	closed := make(chan string)
	hang := func(w http.ResponseWriter, r *http.Request) {
		sse(t, r.Header.Get("Last-Event-ID"), "1 message", "2 message", "hang")(w, r)
		closed <- r.URL.Path
	}
	c, asked := script(t, hang, hang)
	for name, events := range map[string]iter.Seq2[Event, error]{
		"/v1/threads/t/stream": c.Follow(t.Context(), FollowQuery{Thread: "t"}),
		"/v1/stream":           c.Stream(t.Context(), "0"),
	} {
		for ev, err := range events {
			if err != nil || ev.Entry.Seq != 1 {
				t.Errorf("%s: %+v, %v, want the first entry", name, ev, err)
			}
			break
		}
		if got := <-closed; got != name {
			t.Errorf("the connection of %s was closed, want %s", got, name)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("%d requests, want 2", asked.Load())
	}
}

// refusing responds with 429 and a Retry-After of 7 s, then with 204.
type refusing struct{ asked []time.Time }

func (r *refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	r.asked = append(r.asked, time.Now())
	status := http.StatusTooManyRequests
	if len(r.asked) > 1 {
		status = http.StatusNoContent
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody, Request: q},
		nil
}

func TestFollowHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &refusing{}
		c := New("http://localhost", "", WithHTTPClient(&http.Client{Transport: server}))
		for _, err := range c.Follow(t.Context(), FollowQuery{Thread: "t"}) {
			t.Errorf("Follow yielded %v, want no error", err)
		}
		if len(server.asked) != 2 || server.asked[1].Sub(server.asked[0]) < 7*time.Second {
			t.Errorf("requests at %v, want the second one 7 s later", server.asked)
		}
	})
}

// restarting responds with the first entry of a stream, is unreachable for ten seconds, and then
// responds with 204.
type restarting struct{ gone time.Time }

func (r *restarting) RoundTrip(q *http.Request) (*http.Response, error) {
	switch {
	case r.gone.IsZero():
		r.gone = time.Now()
		body := io.NopCloser(strings.NewReader("event: entry\nid: 1\ndata: {\"seq\":1}\n\nevent: half"))
		return &http.Response{StatusCode: http.StatusOK, Body: body, Request: q}, nil
	case time.Since(r.gone) < 10*time.Second:
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: q}, nil
}

func TestFollowReportsALostServerAndItsReturnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var reports []string
		onOutage := func(err error) {
			at := time.Since(began)
			if err != nil && (at < 500*time.Millisecond || at > 2*time.Second) || err == nil && at < 10*time.Second {
				t.Errorf("outage reported as %v after %s", err, at)
			}
			reports = append(reports, string(mailroom.CodeOf(err)))
		}
		c := New("http://localhost", "", WithHTTPClient(&http.Client{Transport: &restarting{}}), WithOutage(onOutage))
		for _, err := range c.Follow(t.Context(), FollowQuery{Thread: "t"}) {
			if err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"unavailable", ""}, reports); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEachRangeOverFollowStartsFromTheBeginning(t *testing.T) {
	c, _ := script(t, sse(t, "0", "1 message", "2 message"), noContent(t, "2"), sse(t, "0", "1 message"),
		noContent(t, "1"))
	events := c.Follow(t.Context(), FollowQuery{Thread: "t"})
	var got []string
	for range 2 {
		for ev, err := range events {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.ID)
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFollowDoesNotRepeatARefusal(t *testing.T) {
	c, _ := script(t, refuse(mailroom.CodeNotFound))
	if _, err := follow(t, c, FollowQuery{Thread: "t"}); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("%v, want not_found", err)
	}
	for _, q := range []FollowQuery{{}, {Thread: "t", After: "yesterday"}} {
		if _, err := follow(t, c, q); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%+v: %v, want invalid", q, err)
		}
	}
}

func TestFollowLimitsTheAttemptsOfTheFirstConnection(t *testing.T) {
	c, asked := script(t, hangUp, hangUp, hangUp, hangUp, hangUp)
	_, err := follow(t, c, FollowQuery{Thread: "t"})
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable || asked.Load() != 5 {
		t.Errorf("%v after %d tries, want unavailable after 5", err, asked.Load())
	}
}

func TestRetriesEndAtTheirTimeLimit(t *testing.T) {
	answers := []http.HandlerFunc{sse(t, "0", "1 message")}
	for range 1000 {
		answers = append(answers, hangUp)
	}
	c, asked := script(t, answers...)
	WithRetryTimeout(30 * time.Millisecond)(&c.options)
	_, err := follow(t, c, FollowQuery{Thread: "t"})
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable || asked.Load() < 3 {
		t.Errorf("error %v after %d requests, want unavailable after several", err, asked.Load())
	}
	if e, ok := errors.AsType[*mailroom.Error](err); !ok || e.Cause == nil {
		t.Errorf("error %v has no cause", err)
	}
}
