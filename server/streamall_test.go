package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/server"
	"mailroom/thread"
)

// openAll opens the stream of all threads after a cursor, or now with "".
func (f *fixture) openAll(after string) *reader {
	f.t.Helper()
	if after != "" {
		return f.open(200, "/v1/stream", "Last-Event-ID: "+after)
	}
	r := f.open(200, "/v1/stream")
	r.moved()
	return r
}

// moved reads the position that a stream without an event tells.
func (r *reader) moved() (id string) {
	r.t.Helper()
	b := r.block()
	id, ok := strings.CutPrefix(b, "id: ")
	if !ok || strings.Contains(id, "\n") {
		r.t.Fatalf("got %q, want an id alone", b)
	}
	return id
}

// nextOfAll returns the next event: "THREAD SEQ KIND" of an entry, "THREAD: TEXT" of a delta, or "gap".
func (r *reader) nextOfAll() (what, id string) {
	r.t.Helper()
	lines := strings.Split(r.block(), "\n")
	name, data := strings.TrimPrefix(lines[0], "event: "), strings.TrimPrefix(lines[len(lines)-1], "data: ")
	if len(lines) == 3 {
		id = strings.TrimPrefix(lines[1], "id: ")
	}
	switch name {
	case "entry":
		var e mailroom.Entry
		if err := e.UnmarshalJSON([]byte(data)); err != nil {
			r.t.Fatal(err)
		}
		return fmt.Sprintf("%s %d %s", e.Thread, e.Seq, e.Kind), id
	case "delta":
		var d api.ThreadDelta
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			r.t.Fatal(err)
		}
		return d.Thread + ": " + d.Text, id
	}
	return name, id
}

// wantAll reads these events and returns the last id.
func (r *reader) wantAll(want ...string) (last string) {
	r.t.Helper()
	for _, want := range want {
		got, id := r.nextOfAll()
		if got != want || (id == "") != strings.Contains(got, ": ") {
			r.t.Fatalf("got %q with the id %q, want %q; only live text has no id", got, id, want)
		}
		if id != "" {
			last = id
		}
	}
	return last
}

func TestTheStreamOfAllThreadsStartsNow(t *testing.T) {
	f := start(t)
	f.submit("before", "one")
	r := f.openAll("")
	f.claim()
	f.submit("é", "two")
	w := f.claim()
	f.publishText(w.Claim, 0, "hél")
	r.wantAll("before 3 run.started", "é 1 message", "é 2 run.queued", "é 3 run.started", "é: hél")
	f.stop()
	if got := r.block(); got != "" {
		t.Errorf("at shutdown: %q, want the end", got)
	}
}

func TestTheStreamOfAllThreadsResumesAfterEveryEvent(t *testing.T) {
	f := start(t)
	r := f.open(200, "/v1/stream")
	ids := []string{r.moved()}
	f.submit("t", "one")
	f.submit("u", "two")
	f.settleRun(f.claim(), thread.OutcomeComplete, "reply")
	all := []string{"t 1 message", "t 2 run.queued", "u 1 message", "u 2 run.queued", "t 3 run.started", "t 4 message",
		"t 5 run.completed"}
	for _, want := range all {
		ids = append(ids, r.wantAll(want))
	}
	f.submit("t", "later") // so that there is an event after each
	for i, id := range ids {
		f.openAll(id).wantAll(append(all[i:len(all):len(all)], "t 6 message")...)
		if len(id) > 54 {
			t.Errorf("the id %s has %d characters", id, len(id))
		}
	}
	if got, _ := f.open(200, "/v1/stream?after="+ids[1]).nextOfAll(); got != all[1] {
		t.Errorf("after in the URL: got %q, want %q", got, all[1])
	}
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"after":%q}`, ids[5])
	p.want("ack 1 1", "entry 1 message", "entry 1 run.completed", "settled 1 completed", "entry 1 message")
}

func TestASubscriptionToAllThreadsHasACursor(t *testing.T) {
	f := start(t)
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1}`)
	ack := p.next()
	f.submit("t", "one")
	first := p.next()
	p.want("entry 1 run.queued")
	for i, at := range []string{ack.Cursor, first.Cursor} {
		again := f.dialWithToken()
		again.send(`{"op":"subscribe","id":1,"after":%q}`, at)
		again.want(append([]string{"ack 1 1"}, []string{"entry 1 message", "entry 1 run.queued"}[i:]...)...)
	}
}

func TestACursorOfAnotherStoreGetsAGapAndContinuesNow(t *testing.T) {
	f, other := start(t), start(t)
	other.submit("t", "one")
	foreign := other.open(200, "/v1/stream").moved()
	own := f.open(200, "/v1/stream").moved()
	order, _, _ := strings.Cut(own, "-")
	// the second one is ahead, as after the restore of a backup
	for _, id := range []string{foreign, order + "-zzzzzz-1-1"} {
		r := f.openAll(id)
		if at := r.wantAll("gap"); at != own {
			t.Errorf("the gap has the id %s, want the end %s", at, own)
		}
	}
	r := f.openAll(foreign)
	f.submit("new", "one")
	r.wantAll("gap", "new 1 message")
}

func TestAReaderOfAllThreadsBehindTheRetentionGetsOneGap(t *testing.T) {
	f := start(t)
	r := f.open(200, "/v1/stream")
	from := r.moved()
	for _, text := range []string{"one", "two"} {
		f.submit("old", text)
		f.settleRun(f.claim(), thread.OutcomeComplete, "")
	}
	f.submit("kept", "three")
	last := r.wantAll("old 1 message", "old 2 run.queued", "old 3 run.started", "old 4 run.completed",
		"old 5 message", "old 6 run.queued", "old 7 run.started", "old 8 run.completed", "kept 1 message",
		"kept 2 run.queued")
	if err := f.ledger.Purge(t.Context(), "old", -time.Hour); err != nil {
		t.Fatal(err)
	}
	f.submit("new", "four")
	r.wantAll("new 1 message", "new 2 run.queued") // it had read what was removed
	f.openAll(last).wantAll("new 1 message")
	f.openAll(from).wantAll("gap", "kept 1 message", "kept 2 run.queued", "new 1 message", "new 2 run.queued")
}

// Deleted threads are invisible, so they leave no gap.
func TestAReaderOfAllThreadsNeverSeesADeletedThread(t *testing.T) {
	f := start(t)
	r := f.open(200, "/v1/stream")
	from := r.moved()
	for range 2 {
		sent := f.submit("t", "one")
		mustCall[api.Run](f, "POST /v1/runs/"+sent.Run+"/cancel", "")
		if a := f.call("DELETE /v1/threads/t", ""); a.status != 204 {
			t.Fatal(a.body)
		}
	}
	f.submit("u", "two")
	f.openAll(from).wantAll("u 1 message", "u 2 run.queued")
}

func TestLiveTextNeverFollowsTheEntryOfItsMessage(t *testing.T) {
	f := start(t)
	f.submit("t", "one")
	w := f.claim()
	r := f.openAll("")
	late := &entry.Delta{Run: w.Claim.Run, Attempt: 1, Message: w.Claim.Run + ".1-1", Channel: "text", Text: "reply"}
	f.bus.Publish(bus.Notice{Thread: "t", Delta: late})
	r.wantAll("t: reply")
	f.settleRun(w, thread.OutcomeComplete, "reply")
	r.wantAll("t 4 message")
	f.bus.Publish(bus.Notice{Thread: "t", Delta: late})
	f.submit("u", "two")
	r.wantAll("t 5 run.completed", "u 1 message")
}

// A reader that is behind loses live text, and no entry.
func TestASlowReaderOfAllThreadsGetsEveryEntry(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "x")
	r := f.openAll("")
	text := strings.Repeat("x", 16<<10)
	const many = 3000 // more than the buffers hold, while nothing is read
	for i := range many {
		f.bus.Publish(bus.Notice{Thread: "t", Delta: &entry.Delta{Run: sent.Run, Message: "m", Offset: i * len(text),
			Channel: "text", Text: text}})
	}
	f.submit("u", "y")
	deltas := 0
	what, _ := r.nextOfAll()
	for ; strings.HasPrefix(what, "t: "); what, _ = r.nextOfAll() {
		deltas++
	}
	if what != "u 1 message" || deltas >= many {
		t.Errorf("after %d pieces of text: got %q, want the entry after fewer than %d", deltas, what, many)
	}
}

func TestStreamsOfAllThreadsAreBounded(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.MaxStreams = 1 })
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
	select {
	case a.came <- struct{}{}:
	case <-r.Context().Done():
	}
	return resp, err
}

func TestClientStreamsAllThreadsUntilTheCallerStops(t *testing.T) {
	f := start(t)
	came := make(chan struct{}, 1)
	c := client.New(f.url, token, client.WithHTTPClient(&http.Client{Transport: signalTransport{f.http, came}}))
	var got []string
	listening := make(chan error, 1)
	go func() {
		for e, err := range c.Stream(t.Context(), "") {
			switch {
			case err != nil:
				listening <- err
				return
			case e.Entry != nil:
				got = append(got, e.Thread+" "+e.Entry.Kind)
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

	ctx, leave := context.WithCancelCause(t.Context())
	go func() {
		for _, err := range c.Stream(ctx, "") {
			if err != nil {
				listening <- err
			}
		}
	}()
	<-came
	f.stop()
	left := errors.New("left")
	leave(left)
	if err := <-listening; err != left {
		t.Errorf("once the server has gone: %v, want the caller's stop", err)
	}
}
