package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/server"
)

func TestTheStreamOfAllThreadsStartsNow(t *testing.T) {
	f := start(t)
	f.submit("before", "one")
	r := f.open(200, "/v1/stream", "Last-Event-ID: 1")
	f.claim()
	f.submit("é", "two")
	w := f.claim()
	f.publishText(w.Claim, 0, "hél")
	want := []string{"before 3 run.started", "é 1 message", "é 2 run.queued", "é 3 run.started"}
	for _, want := range want {
		lines := strings.Split(r.block(), "\n")
		if len(lines) != 2 || lines[0] != "event: entry" {
			t.Fatalf("an event %q, want an entry without an id", lines)
		}
		var e mailroom.Entry
		if err := e.UnmarshalJSON([]byte(strings.TrimPrefix(lines[1], "data: "))); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %d %s", e.Thread, e.Seq, e.Kind); got != want {
			t.Errorf("entry %q, want %q", got, want)
		}
	}
	got := r.block()
	if delta := `"run":"` + w.Claim.Run + `"`; !strings.HasPrefix(got, "event: delta\ndata: {\"thread\":\"é\",") || !strings.Contains(got, delta) {
		t.Errorf("got %q, want a delta of the thread é and %s", got, delta)
	}
	f.wantCode("a parameter", f.call("GET /v1/stream?after=1", ""), 422, mailroom.CodeInvalid)
	f.stop()
	if got := r.block(); got != "" {
		t.Errorf("at shutdown: %q, want the end", got)
	}
}

func TestASlowReaderOfAllThreadsIsCutOff(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "x")
	r := f.open(200, "/v1/stream")
	text := strings.Repeat("x", 64<<10)
	for i := range 3000 { // more than the buffers hold, while nothing is read
		f.bus.Publish(bus.Notice{Thread: "t", Delta: &entry.Delta{Run: sent.Run, Offset: i * len(text), Channel: "text", Text: text}})
	}
	events, last := 0, ""
	for b := r.block(); b != ""; b = r.block() {
		if !strings.HasPrefix(b, ":") {
			events, last = events+1, b
		}
	}
	if want := `event: gap` + "\n" + `data: {"after":0,"oldest":0,"last":0}`; last != want || events >= 3000 {
		t.Errorf("after %d events the last is %.100q, want %q", events, last, want)
	}
}

func TestStreamsOfAllThreadsAreBounded(t *testing.T) {
	f := start(t, func(o *server.Options) { o.MaxStreams = 1 })
	f.open(200, "/v1/stream")
	f.wantCode("one too many", f.call("GET /v1/stream", ""), 429, mailroom.CodeRateLimited)
	without := start(t, func(o *server.Options) { o.Bus = nil })
	without.wantCode("no bus", without.call("GET /v1/stream", ""), 404, mailroom.CodeNotFound)
}

// signalTransport signals when the header of a response has arrived.
type signalTransport struct {
	http.RoundTripper
	came chan struct{}
}

func (a signalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	a.came <- struct{}{}
	return resp, err
}

func TestClientStreamsAllThreadsUntilTheCallerStops(t *testing.T) {
	f := start(t)
	came := make(chan struct{}, 1)
	c := client.New(f.url, token, client.WithHTTPClient(&http.Client{Transport: signalTransport{f.http, came}}))
	var got []string
	listening := make(chan error, 1)
	go func() {
		for e, err := range c.Stream(t.Context()) {
			switch {
			case err != nil:
				listening <- err
				return
			case e.Entry != nil:
				got = append(got, e.Thread+" "+e.Entry.Kind+e.ID)
				continue
			}
			got = append(got, e.Thread+": "+e.Delta.Text+e.ID)
			break
		}
		listening <- nil
	}()
	<-came
	sent := f.submit("u", "one")
	f.bus.Publish(bus.Notice{Thread: "u", Delta: &entry.Delta{Run: sent.Run, Text: "hello"}})
	if err := <-listening; err != nil {
		t.Errorf("stream ended with %v, want the caller's stop", err)
	}
	if diff := cmp.Diff([]string{"u message", "u run.queued", "u: hello"}, got); diff != "" {
		t.Error(diff)
	}

	go func() {
		for _, err := range c.Stream(t.Context()) {
			if err != nil {
				listening <- err
			}
		}
	}()
	<-came
	f.stop()
	if err := <-listening; mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("once the server has gone: %v, want unavailable", err)
	}
}
