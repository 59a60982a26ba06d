package thread_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// states are the columns of the table of modes in api.md, and the current run
// between two attempts. But for the first, "a" and "b" are queued; a current
// run is "x".
var states = map[string]func(w *fixture){
	"idle": func(*fixture) {},
	"queued": func(w *fixture) {
		w.must(in("", "a"))
		w.must(in("", "b"))
	},
	"running": func(w *fixture) {
		w.must(in("", "x"))
		w.mustStart("x")
		w.must(in("", "a"))
		w.must(in("", "b"))
	},
	"stopping": func(w *fixture) {
		w.must(in("", "x"))
		w.mustStart("x")
		w.must(in("", "a"))
		w.must(in("", "b"))
		if _, err := w.cancel("x"); err != nil {
			w.t.Fatal(err)
		}
	},
	"backoff": func(w *fixture) {
		w.must(in("", "x"))
		w.mustStart("x")
		w.must(in("", "a"))
		w.must(in("", "b"))
		w.end(failed(mailroom.ClassTransient))
	},
}

// When something is due after a submit.
const (
	never  = "never"  // a worker holds the current run
	now    = "now"    // it was not due before, or later
	before = "before" // as it was
)

type cell struct {
	mode       mailroom.Mode
	state      string
	became     store.Disposition
	entries    string
	queue      string
	superseded []string
	stopping   string
	due        string
	busy       bool
}

func cells() []cell {
	const (
		queued  = store.DispositionQueued
		behind  = "message n, run.queued n"
		instead = behind + ", run.cancelled a, run.cancelled b"
	)
	ab := []string{"a", "b"}
	return []cell{
		{mode: "queue", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "queue", state: "queued", became: queued, entries: behind, queue: "a b n", due: before},
		{mode: "queue", state: "running", became: queued, entries: behind, queue: "a b n", due: never},
		{mode: "queue", state: "stopping", became: queued, entries: behind, queue: "a b n", due: never},
		{mode: "queue", state: "backoff", became: queued, entries: behind, queue: "a b n", due: before},

		{mode: "steer", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "steer", state: "queued", became: queued, entries: behind, queue: "a b n", due: before},
		{mode: "steer", state: "running", became: store.DispositionSteered, entries: "message x", queue: "a b", due: never},
		{mode: "steer", state: "stopping", became: queued, entries: behind, queue: "a b n", due: never},
		{mode: "steer", state: "backoff", became: store.DispositionSteered, entries: "message x", queue: "a b", due: before},

		{mode: "interrupt", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "interrupt", state: "queued", became: queued, entries: instead, queue: "n", superseded: ab, due: before},
		{mode: "interrupt", state: "running", became: queued, entries: instead + ", run.stop_requested x", queue: "n",
			superseded: ab, stopping: "x", due: never},
		{mode: "interrupt", state: "stopping", became: queued, entries: instead, queue: "n", superseded: ab, stopping: "x", due: never},
		{mode: "interrupt", state: "backoff", became: queued, entries: instead + ", run.cancelled x", queue: "n", superseded: ab, due: now},

		{mode: "latest", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "latest", state: "queued", became: queued, entries: instead, queue: "n", superseded: ab, due: before},
		{mode: "latest", state: "running", became: queued, entries: instead, queue: "n", superseded: ab, due: never},
		{mode: "latest", state: "stopping", became: queued, entries: instead, queue: "n", superseded: ab, due: never},
		{mode: "latest", state: "backoff", became: queued, entries: instead, queue: "n", superseded: ab, due: before},

		{mode: "collect", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "collect", state: "queued", became: store.DispositionCollected, entries: "message b", queue: "a b", due: before},
		{mode: "collect", state: "running", became: store.DispositionCollected, entries: "message b", queue: "a b", due: never},
		{mode: "collect", state: "stopping", became: store.DispositionCollected, entries: "message b", queue: "a b", due: never},
		{mode: "collect", state: "backoff", became: store.DispositionCollected, entries: "message b", queue: "a b", due: before},

		{mode: "reject", state: "idle", became: queued, entries: behind, queue: "n", due: now},
		{mode: "reject", state: "queued", busy: true},
		{mode: "reject", state: "running", busy: true},
		{mode: "reject", state: "stopping", busy: true},
		{mode: "reject", state: "backoff", busy: true},
	}
}

func TestEveryModeInEveryState(t *testing.T) {
	for _, c := range cells() {
		t.Run(string(c.mode)+"/"+c.state, func(t *testing.T) {
			w := newFixture(t)
			states[c.state](w)
			w.wait(100 * time.Millisecond) // within the backoff
			was := w.row
			out, err := w.submit(in(c.mode, "n"))
			if c.busy {
				wantCode(t, err, mailroom.CodeBusy)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.wantSince(was.LastSeq, c.entries)
			wantEqual(t, "queue", w.queue(), c.queue)
			if c.superseded == nil {
				c.superseded = []string{}
			}
			wantEqual(t, "superseded", out.Superseded, c.superseded)
			for _, id := range c.superseded {
				wantEqual(t, "run "+id, w.state(id), "cancelled/superseded")
			}
			wantEqual(t, "disposition", out.Disposition, c.became)
			stopping := ""
			if out.Stopping != nil {
				stopping = *out.Stopping
			}
			wantEqual(t, "stopping", stopping, c.stopping)
			wantDue(w, was, c.due)
		})
	}
}

func wantDue(w *fixture, was mailroom.Thread, due string) {
	w.t.Helper()
	want := map[string]time.Time{now: w.now, before: was.Due.At}[due]
	if got := w.row.Due.At; !got.Equal(want) {
		w.t.Errorf("due: got %v, want %v (%s)", got, want, due)
	}
}

func TestASubmitReturnsItsRunAndPlace(t *testing.T) {
	two := []thread.NewMessage{{Parts: mailroom.Text("one")}, {Role: mailroom.RoleSystem, Parts: mailroom.Text("two")}}
	for _, c := range []struct {
		state string
		mode  mailroom.Mode
		want  store.Submitted
	}{
		{"queued", "queue", store.Submitted{Message: "n.6", Run: "n", Seq: 6, Place: 3, Status: mailroom.StatusQueued,
			Disposition: store.DispositionQueued}},
		{"running", "steer", store.Submitted{Message: "n.9", Run: "x", Seq: 9, Place: 4, Status: mailroom.StatusRunning,
			Disposition: store.DispositionSteered}},
		{"backoff", "steer", store.Submitted{Message: "n.10", Run: "x", Seq: 10, Place: 4, Status: mailroom.StatusQueued,
			Disposition: store.DispositionSteered}},
		{"queued", "collect", store.Submitted{Message: "b.6", Run: "b", Seq: 6, Place: 2, Status: mailroom.StatusQueued,
			Disposition: store.DispositionCollected}},
	} {
		t.Run(string(c.mode)+"/"+c.state, func(t *testing.T) {
			w := newFixture(t)
			states[c.state](w)
			s := in(c.mode, "n")
			s.Messages = two
			c.want.Thread, c.want.Superseded = "t", []string{}
			wantEqual(t, "answer", w.must(s), c.want)
			m := body[mailroom.Message](t, w.log[c.want.Seq-1])
			wantEqual(t, "message", m, mailroom.Message{
				ID: c.want.Message, Thread: "t", Seq: c.want.Seq, Role: mailroom.RoleSystem, Sender: "ann", Text: "two",
				Parts: mailroom.Text("two"), Visibility: mailroom.VisibleAll, Run: c.want.Run,
				State: mailroom.MessageAccepted, CreatedAt: w.now,
			})
		})
	}
}

func TestExpectRunGuardsASteer(t *testing.T) {
	for _, c := range []struct {
		expect string
		want   store.Disposition
	}{{"", store.DispositionSteered}, {"x", store.DispositionSteered}, {"y", store.DispositionQueued}} {
		w := newFixture(t)
		states["running"](w)
		s := in(mailroom.ModeSteer, "n")
		s.ExpectRun = c.expect
		wantEqual(t, "expecting "+c.expect, w.must(s).Disposition, c.want)
	}
}

func TestASteerForAnotherAgentIsARunOfItsOwn(t *testing.T) {
	w := newFixture(t)
	states["running"](w)
	s := in(mailroom.ModeSteer, "n")
	s.Agent = "codex"
	wantEqual(t, "disposition", w.must(s).Disposition, store.DispositionQueued)
	wantEqual(t, "agent of the thread", w.row.Agent, "codex")
	wantEqual(t, "agent of the current run", w.runs["x"].Agent, "echo")
}

func TestChildrenAreNotSuperseded(t *testing.T) {
	for _, mode := range []mailroom.Mode{mailroom.ModeInterrupt, mailroom.ModeLatest} {
		w := newFixture(t)
		w.must(in("", "a"))
		child := in("", "child")
		child.Parent = "elsewhere"
		w.must(child)
		held := in("", "held")
		held.NotBefore = w.now.Add(time.Hour)
		w.must(held)
		wantEqual(t, "superseded by "+string(mode), w.must(in(mode, "n")).Superseded, []string{"a", "held"})
		wantEqual(t, "queue", w.queue(), "child n")
	}
}
