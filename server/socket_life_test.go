package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

func TestSocketsAreClosedAtShutdown(t *testing.T) {
	f := start(t)
	f.submit("t", "one")
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
	p.want("ack 1 1")
	unknown := f.dial()
	f.stop()
	for _, p := range []*peer{p, unknown} {
		if got := p.closed(); got.Code != websocket.StatusGoingAway {
			t.Errorf("closed with %v, want 1001", got)
		}
	}
	f.waitStopped()
}

// flushText stores the text written so far, for readers that connect later.
func (f *fixture) flushText(run mailroom.Claim, text string) {
	f.t.Helper()
	message := fmt.Sprintf("%s.%d-1", run.Run, run.Attempt)
	if err := f.ledger.Workers().Flush(f.t.Context(), run,
		store.Partial{Run: run.Run, Attempt: run.Attempt, Message: message, Text: text}); err != nil {
		f.t.Fatal(err)
	}
	f.bus.Publish(bus.Notice{Thread: run.Thread, Flushed: &bus.Flushed{Run: run.Run, Attempt: run.Attempt,
		Message: message, Upto: len(text)}})
}

// One device is closed while the run writes; another device stops the run.
func TestClosingASocketCancelsNothingAndAnotherStopsTheRun(t *testing.T) {
	f := start(t)
	desktop := f.dialWithToken()
	run := result[store.Submitted](desktop, `{"op":"submit","id":1,"thread":"t","text":"one"}`).Run
	desktop.send(`{"op":"subscribe","id":2,"run":%q,"after":"2"}`, run)
	desktop.want("ack 2 1")
	w := f.claim()
	desktop.want("entry 1 3 run.started")
	f.publishText(w.Claim, 0, "so fár ")
	desktop.want("delta 1 3:8 so fár")
	if err := desktop.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	f.log.wait(t, `"status":101`)
	if got := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); got.Status != mailroom.StatusRunning || got.Stopping {
		t.Errorf("run after its socket was closed: %s, stopping %t", got.Status, got.Stopping)
	}

	phone, tablet := f.dialWithToken(), f.dialWithToken()
	for _, p := range []*peer{phone, tablet} { // both resume at the first one's cursor
		p.send(`{"op":"resume","id":1,"thread":"t","run":%q,"after":"3:8"}`, run)
		p.want("ack 1 1")
	}
	f.flushText(w.Claim, "so fár and on")
	phone.want("delta 1 3:14 and on")
	tablet.want("delta 1 3:14 and on")
	phone.send(`{"op":"cancel","id":"stop","run":%q}`, run)
	first, second := phone.next().String(), phone.next().String() // in either order
	if got := first + ", " + second; got != "ack stop, entry 1 4 run.stop_requested" &&
		got != "entry 1 4 run.stop_requested, ack stop" {
		t.Errorf("got %s, want the ack and the entry", got)
	}
	f.settleRun(w, thread.OutcomeRelease, "") // flushed text stays even if the worker does not repeat it
	phone.want("entry 1 5 message", "entry 1 6 run.cancelled", "settled 1 cancelled")
	tablet.want("entry 1 4 run.stop_requested", "entry 1 5 message", "entry 1 6 run.cancelled", "settled 1 cancelled")
	phone.send(`{"op":"cancel","id":"again","run":%q}`, run)
	phone.want("ack again")
}

func TestOneSocketHasManySubscriptions(t *testing.T) {
	f := start(t)
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1}`)
	p.want("ack 1 1")
	f.submit("é", "one")
	p.want("entry 1 message", "entry 1 run.queued")
	w := f.claim()
	f.publishText(w.Claim, 0, "hi")
	p.want("entry 1 run.started", "delta 1 é hi")
	p.send(`{"op":"subscribe","id":2,"thread":"é","after":"3:1"}`)
	p.want("ack 2 2")
	p.send(`{"op":"subscribe","id":3,"run":%q,"after":"9"}`, w.Claim.Run)
	p.want("ack 3 3", "gap 3 3")
	f.settleRun(w, thread.OutcomeComplete, "")
	got := map[string]int{}
	for range 6 { // the three follow the log independently
		got[p.next().String()]++
	}
	for _, want := range []string{
		"entry 1 run.completed", "settled 1 completed", "entry 2 4 run.completed", "settled 2 completed",
		"entry 3 4 run.completed", "settled 3 completed",
	} {
		if got[want] != 1 {
			t.Errorf("got %q %d times, want once, in %v", want, got[want], got)
		}
	}
}

func TestASubscriptionSaysWhyItEnds(t *testing.T) {
	f := start(t)
	f.submit("t", "one")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"thread":"t","after":4}`)
	p.want("ack 1 1")
	if a := f.call("DELETE /v1/threads/t", ""); a.status != 204 {
		t.Fatalf("delete: %d %s", a.status, a.body)
	}
	p.want("error 1 not_found")
	p.send(`{"op":"unsubscribe","id":2,"sub":"1"}`)
	p.want("error 2 not_found")
}

func TestASubscriptionReportsTheLastEndOfARetriedRun(t *testing.T) {
	f := start(t)
	run := f.submit("t", "one").Run
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	mustCall[api.Run](f, "POST /v1/runs/"+run+"/retry", "")
	p := f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"run":%q,"after":"3"}`, run)
	p.want("ack 1 1", "entry 1 4 run.failed", "entry 1 5 run.retried")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	p.want("entry 1 6 run.started", "entry 1 7 run.completed", "settled 1 completed")
}

// slowCancel delays the answer to a cancel.
type slowCancel struct {
	server.Runs
	late time.Duration
}

func (l slowCancel) Cancel(ctx context.Context, run, by string) (*mailroom.Run, error) {
	timer := time.NewTimer(l.late)
	defer timer.Stop()
	<-timer.C
	return l.Runs.Cancel(ctx, run, by)
}

func TestASocketIsNotSilentWhileItsFrameIsHandled(t *testing.T) {
	const beat = 50 * time.Millisecond
	f := start(t, func(o *server.Options) {
		o.Limits.Heartbeat = beat
		o.Ledger.Runs = slowCancel{o.Ledger.Runs, 6 * beat}
	})
	run := f.submit("t", "one").Run
	p := f.dialWithToken()
	p.send(`{"op":"cancel","id":1,"run":%q}`, run)
	p.send(`{"op":"ping","id":2}`)
	p.want("ack 1", "pong 2")
}

func TestAPanicInAFrameIsAnsweredWithInternal(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Agents.Names = func() []string { panic("a secret") } })
	p := f.dialWithToken()
	p.send(`{"op":"submit","id":1,"thread":"t","text":"one","agent":"echo"}`)
	if h := p.next(); h.String() != "error 1 internal" || strings.Contains(h.Error.Detail, "secret") {
		t.Errorf("a panic: %s %+v", h, h.Error)
	}
	p.send(`{"op":"ping","id":2}`)
	p.want("pong 2")
}
