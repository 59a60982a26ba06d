package builtin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/entry"
	"mailroom/thread"
)

// wantEnd checks that the run has completed with a summary that contains all lines.
func (h *fixture) wantEnd(run string, lines ...string) {
	h.t.Helper()
	r := h.run(run)
	if r.Status != mailroom.StatusCompleted || r.Reply == nil {
		h.t.Fatalf("run is %s (error %v), want completed with a reply", r.Status, r.Error)
	}
	for _, want := range lines {
		if !strings.Contains(*r.Reply, want) {
			h.t.Errorf("the summary has no %q:\n%s", want, *r.Reply)
		}
	}
}

// names returns the names of a thread's steps, in order.
func (h *fixture) names(thread string) []string {
	h.t.Helper()
	var names []string
	for _, e := range h.entries(thread, entry.KindStep) {
		var s entry.StepNamed
		h.must(e.Decode(&s))
		names = append(names, s.Name)
	}
	return names
}

var script = []string{"greet", "look", "ask", "act", "tell"}

func TestTourShowsEverything(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.pace = builtin.DefaultPace
		h.serve(h.store)
		out := h.send("t")
		h.wait(time.Minute)

		if r := h.run(out.Run); r.Status != mailroom.StatusWaiting || r.Progress != 0.6 {
			h.t.Fatalf("run is %s at progress %v, want waiting", r.Status, r.Progress)
		}
		asked := h.open()
		if len(asked) != 1 || asked[0].Prompt == "" || asked[0].Action != "send_postcard" ||
			!strings.Contains(string(asked[0].Arguments), "slow tide") {
			h.t.Fatalf("open tickets %+v, want one approval with prompt, action and arguments", asked)
		}
		if c := h.child(out.Run); c.Status != mailroom.StatusCompleted || c.Thread == "t" {
			h.t.Errorf("child is %s in thread %s, want completed in another thread", c.Status, c.Thread)
		}
		h.decide(asked[0], mailroom.VerdictApprove, "")
		h.wait(time.Minute)

		h.wantEnd(out.Run, "slow tide", "the post boat", "anna allowed it, and it was sent once: postcard no. 1",
			"attempts of this run: 2; tours of this thread: 1")
		if diff := cmp.Diff(script, h.names("t")); diff != "" {
			h.t.Errorf("steps (-want +got):\n%s", diff)
		}
		for kind, want := range map[string]int{
			entry.KindToolStarted: 2, entry.KindToolDone: 2, entry.KindEffectSettled: 2, entry.KindEffectUnknown: 0,
			entry.KindSend: 1, entry.KindTicketOpened: 2, entry.KindTicketDecided: 2,
		} {
			if got := len(h.entries("t", kind)); got != want {
				h.t.Errorf("%d entries of kind %s, want %d", got, kind, want)
			}
		}
		again := h.send("t")
		h.wait(time.Minute)
		h.decide(h.open()[0], mailroom.VerdictApprove, "why not")
		h.wait(time.Minute)
		h.wantEnd(again.Run, `anna allowed it ("why not")`, "tours of this thread: 2")
	})
}

func TestTourEndsWithoutApproval(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(h *fixture)
		want   string
	}{
		"denied": {func(h *fixture) {
			h.decide(h.open()[0], mailroom.VerdictDeny, "too wet")
		}, `anna said no ("too wet"): it was not sent`},
		"expired": {func(h *fixture) {
			h.stop()
			h.wait(8 * 24 * time.Hour)
			h.serve(h.store)
		}, "the approval expired, so it was not sent"},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				h.serve(h.store)
				out := h.send("t")
				h.wait(time.Minute)
				test.answer(h)
				h.wait(time.Minute)
				h.wantEnd(out.Run, test.want, "the post boat")
				if got := len(h.entries("t", entry.KindEffectIntended)); got != 1 {
					h.t.Errorf("%d effects, want only the look at the weather", got)
				}
			})
		})
	}
}

func TestTourReadsSteeredMessages(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.pace = builtin.DefaultPace
		h.serve(h.store)
		steer := func(in *thread.Submit) {
			in.Mode, in.Messages = mailroom.ModeSteer, []thread.NewMessage{{Parts: mailroom.Text("mind the gulls")}}
		}
		out := h.send("t")
		h.wait(100 * time.Millisecond) // during the stream
		h.send("t", steer)
		h.wait(time.Minute)
		h.send("t", steer) // while it waits
		h.decide(h.open()[0], mailroom.VerdictApprove, "")
		h.wait(time.Minute)
		h.wantEnd(out.Run, `messages during the tour: 2, the last one "mind the gulls"`)
		said := 0
		for _, e := range h.entries("t", entry.KindMessage) {
			var m mailroom.Message
			h.must(e.Decode(&m))
			said += strings.Count(m.Text, `(You say "mind the gulls".`)
		}
		if said != 2 {
			h.t.Errorf("%d acknowledgements of steered messages, want 2", said)
		}
	})
}

func TestTourAsksAgainAfterACancel(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		withFixture(t, func(h *fixture) {
			h.serve(h.store)
			out := h.send("t")
			h.wait(time.Minute)
			old := h.child(out.Run).ID
			_, err := h.ledger.Cancel(h.t.Context(), out.Run, "anna")
			h.must(err)
			_, err = h.ledger.Retry(h.t.Context(), thread.Retry{Run: out.Run, By: "anna", Fresh: fresh})
			h.must(err)
			h.wait(time.Minute)
			h.decide(h.open()[0], mailroom.VerdictApprove, "")
			h.wait(time.Minute)
			h.wantEnd(out.Run, "the post boat", "sent once")
			if h.run(old).Status != mailroom.StatusCompleted {
				h.t.Errorf("fresh %v: first child is %s", fresh, h.run(old).Status)
			}
		})
	}
}

// TestTourSurvivesAKillAtEveryWrite kills a tour before and after each of its writes. Another
// server continues it.
func TestTourSurvivesAKillAtEveryWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, killed := 1, true; killed; n++ {
			withFixture(t, func(h *fixture) { killed = h.killedTour(n, after) })
			if n > 100 {
				t.Fatal("the tour has too many writes")
			}
			if !killed && n < 15 {
				t.Fatalf("the tour had only %d writes", n-1)
			}
		}
	}
}

// killedTour reports whether the tour had an n-th write.
func (h *fixture) killedTour(n int, after bool) bool {
	m := &killableStore{Store: h.store, n: n, after: after}
	h.pace = builtin.DefaultPace
	h.serve(m)
	h.front = h.ledger
	out := h.send("t")
	killed := false
	for round := 0; !h.run(out.Run).Status.Finished(); round++ {
		if round > 20 {
			h.t.Fatalf("killed at write %d (after: %v): run is still %s", n, after, h.run(out.Run).Status)
		}
		h.wait(10 * time.Second)
		if m.isDead() && !killed {
			killed = true
			h.stop()
			h.serve(h.store)
			continue
		}
		for _, k := range h.open() {
			h.decide(k, mailroom.VerdictApprove, "")
		}
	}
	h.wantWhole(out.Run, fmt.Sprintf("killed at write %d (after: %v)", n, after))
	return killed
}

// wantWhole checks that each scene of a tour happened exactly once.
func (h *fixture) wantWhole(run, when string) {
	h.t.Helper()
	h.wantEnd(run, "the post boat", "anna allowed it, and it was sent once: postcard no. 1")
	if diff := cmp.Diff(script, h.names("t")); diff != "" {
		h.t.Errorf("%s: steps (-want +got):\n%s", when, diff)
	}
	if c := h.child(run); c.Status != mailroom.StatusCompleted {
		h.t.Errorf("%s: child is %s", when, c.Status)
	}
	settled := map[string]int{}
	for _, e := range h.entries("t", entry.KindEffectSettled) {
		var body entry.EffectEntry
		h.must(e.Decode(&body))
		settled[body.Name]++
	}
	if diff := cmp.Diff(map[string]int{"look-1": 1, "send-1": 1}, settled); diff != "" {
		h.t.Errorf("%s: effects that have settled (-want +got):\n%s", when, diff)
	}
	for kind, want := range map[string]int{entry.KindToolStarted: 2, entry.KindToolDone: 2} {
		if got := len(h.entries("t", kind)); got != want {
			h.t.Errorf("%s: %d entries of kind %s, want %d", when, got, kind, want)
		}
	}
}

func TestDeniedRepeatDoesNotFailTheTour(t *testing.T) {
	withFixture(t, func(h *fixture) {
		// Killed when the send of the postcard has started.
		m := &killableStore{Store: h.store, after: true, at: func(e *mailroom.Entry) bool {
			var body entry.EffectEntry
			if e.Kind == entry.KindEffectIntended {
				h.must(e.Decode(&body))
			}
			return body.Name == "send-1"
		}}
		h.serve(m)
		h.front = h.ledger
		out := h.send("t")
		h.wait(time.Minute)
		h.decide(h.open()[0], mailroom.VerdictApprove, "")
		h.wait(time.Minute)
		if !m.isDead() {
			h.t.Fatal("the send of the postcard did not start")
		}
		h.stop()
		h.serve(h.store)
		h.wait(time.Minute)
		h.decide(h.open()[0], mailroom.VerdictDeny, "")
		h.wait(time.Minute)
		h.wantEnd(out.Run, "the outcome is unknown, and a repeat was denied")
	})
}
