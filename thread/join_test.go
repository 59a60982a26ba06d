package thread_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// piece is a message of a chat, which waits a second for more of its sender.
func piece(run, sender string) thread.Submit {
	s := text(run, "say "+run)
	s.Sender, s.Origin = sender, mailroom.Origin{Via: "channel:tg", Sender: sender}
	s.Join = time.Second
	return s
}

func TestMessagesOfOneSenderWithinTheWaitBecomeOneRun(t *testing.T) {
	w := newFixture(t)
	first := piece("a", "ann")
	first.Metadata = map[string]string{"message": "1"}
	out := w.must(first)
	wantEqual(t, "disposition", out.Disposition, store.DispositionQueued)
	for i := range 3 {
		w.wait(900 * time.Millisecond)
		if r := w.start(); r != nil {
			t.Fatalf("started %s during the burst", r.ID)
		}
		s := piece("n", "ann")
		s.Metadata = map[string]string{"message": fmt.Sprint(i + 2)}
		out := w.must(s)
		wantEqual(t, "run", out.Run, "a")
		wantEqual(t, "disposition", out.Disposition, store.DispositionCollected)
	}
	w.wait(time.Second)
	w.mustStart("a")
	wantEqual(t, "messages", len(w.runs["a"].Inputs), 4)
	wantEqual(t, "labels", w.runs["a"].Metadata, map[string]string{"message": "4"})
}

// Without an end to the messages, the agent begins all the same.
func TestABurstDelaysItsFirstMessageNoLongerThanTheBound(t *testing.T) {
	w := newFixture(t)
	w.must(piece("a", "ann"))
	begin := w.now
	for i := 1; ; i++ {
		w.wait(500 * time.Millisecond)
		if out := w.must(piece(fmt.Sprint("n", i), "ann")); out.Run != "a" {
			break
		}
	}
	wantEqual(t, "wait", w.now.Sub(begin), mailroom.MaxJoin)
	w.mustStart("a")
}

func TestOnlyMoreOfTheSameSenderJoins(t *testing.T) {
	with := func(f func(s *thread.Submit)) thread.Submit {
		s := piece("n", "ann")
		f(&s)
		return s
	}
	for name, in := range map[string]thread.Submit{
		"another sender":  piece("n", "bob"),
		"another channel": with(func(s *thread.Submit) { s.Origin.Via = "channel:other" }),
		"another agent":   with(func(s *thread.Submit) { s.Agent = "codex" }),
		"another version": with(func(s *thread.Submit) { s.AgentVersion = "2" }),
		"other options":   with(func(s *thread.Submit) { s.Options = []byte(`{"a":1}`) }),
		"no join":         with(func(s *thread.Submit) { s.Join = 0 }),
		"another retry":   with(func(s *thread.Submit) { s.NoRetry = true }),
		"a full run": with(func(s *thread.Submit) {
			s.Messages = slices.Repeat(s.Messages, mailroom.MaxMessages)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(piece("a", "ann"))
			wantEqual(t, "run", w.must(in).Run, "n")
			w.mustStart("a") // at once, because nothing can join it any more
			w.end(completed("ok"))
			w.wait(time.Second)
			w.mustStart("n")
		})
	}
}

// A run of another kind is not one to join, although it waits and is the newest.
func TestNothingJoinsARunThatDoesNotWaitForMore(t *testing.T) {
	w := newFixture(t)
	s := piece("a", "ann")
	s.Join, s.NotBefore = 0, w.now.Add(time.Minute)
	w.must(s)
	wantEqual(t, "run", w.must(piece("n", "ann")).Run, "n")
}

func TestAMessageQueuedInBetweenEndsTheWaitForMore(t *testing.T) {
	for name, between := range map[string]func(w *fixture){
		"a message of another":  func(w *fixture) { w.must(piece("b", "bob")) },
		"a message of a client": func(w *fixture) { w.must(in("", "b")) },
		"a steered message":     func(w *fixture) { w.must(in(mailroom.ModeSteer, "b")) },
		"a scheduled run":       func(w *fixture) { w.must(delayed(w, "b", time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "x"))
			w.mustStart("x")
			w.must(piece("a", "ann"))
			between(w)
			wantEqual(t, "run", w.must(piece("n", "ann")).Run, "n")
			w.end(completed("ok"))
			w.mustStart("a")
		})
	}
}

// A steered message that no run has read is a run behind the burst.
func TestASteeredMessageEndsABurst(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	w.must(piece("a", "ann"))
	w.must(in(mailroom.ModeSteer, "b"))
	for _, want := range []string{"a", "b"} {
		w.end(completed("ok"))
		w.mustStart(want)
	}
}

// A run of before, which an operator retries, is behind the burst.
func TestARunRetriedInBetweenEndsTheWaitForMore(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	if _, err := w.cancel("x"); err != nil {
		t.Fatal(err)
	}
	w.must(piece("a", "ann"))
	if _, err := w.retry(thread.Retry{Run: "x"}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "run", w.must(piece("n", "ann")).Run, "n")
	wantEqual(t, "queue", w.queue(), "a x")
}

// Its messages have been there before those of a run that is retried while it waits.
func TestABurstKeepsItsPlaceWhenItIsDue(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.must(in("", "y"))
	if _, err := w.cancel("y"); err != nil {
		t.Fatal(err)
	}
	w.mustStart("x")
	w.must(piece("a", "ann"))
	if _, err := w.retry(thread.Retry{Run: "y"}); err != nil {
		t.Fatal(err)
	}
	w.wait(time.Second)
	w.end(completed("ok"))
	w.mustStart("a")
}

// The second piece of the burst finds the run of the first piece among many scheduled runs of a client.
func TestAMessageJoinsItsBurstAlsoBehindManyScheduledRuns(t *testing.T) {
	w := newFixture(t)
	for i := range 20 {
		w.must(delayed(w, fmt.Sprint("due", i), 500*time.Millisecond))
		w.must(delayed(w, fmt.Sprint("late", i), time.Hour))
	}
	w.must(piece("a", "ann"))
	w.wait(100 * time.Millisecond)
	wantEqual(t, "run", w.must(piece("n", "ann")).Run, "a")
}

// A message that answers, steers or interrupts the current run takes effect at once.
func TestAnAnswerASteerAndAnInterruptDoNotWait(t *testing.T) {
	t.Run("answer", func(t *testing.T) {
		w := newFixture(t)
		w.park(false, ask("q", mailroom.TicketInput))
		wantEqual(t, "disposition", w.must(piece("n", "ann")).Disposition, store.DispositionResumed)
		w.mustStart("x")
	})
	t.Run("steer", func(t *testing.T) {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		s := piece("n", "ann")
		s.Mode = mailroom.ModeSteer
		wantEqual(t, "disposition", w.must(s).Disposition, store.DispositionSteered)
		w.end(completed("ok"))
		w.mustStart("n") // x did not read the message, so the message starts a run, without a wait
	})
	t.Run("interrupt", func(t *testing.T) {
		w := newFixture(t)
		w.must(in("", "x"))
		w.mustStart("x")
		s := piece("n", "ann")
		s.Mode = mailroom.ModeInterrupt
		wantEqual(t, "stops", w.must(s).Stopping != nil, true)
		more := piece("m", "ann")
		more.Mode = mailroom.ModeInterrupt
		wantEqual(t, "run of the next message, which replaces nothing of the burst", w.must(more).Run, "n")
		w.end(released())
		w.wait(time.Second)
		w.mustStart("n")
	})
}

func TestAWaitingMessageIsEditedAndRetracted(t *testing.T) {
	w := newFixture(t)
	first, second := w.must(piece("a", "ann")), w.must(piece("n", "ann"))
	change := func(f func(l *thread.State) error) {
		t.Helper()
		if err := w.do(thread.ScopeHead, []string{"a"}, f); err != nil {
			t.Fatal(err)
		}
	}
	change(func(l *thread.State) error { return l.Edit(second.Message, mailroom.Text("changed"), w.now) })
	change(func(l *thread.State) error { return l.Retract(first.Message, w.now) })
	wantEqual(t, "run", w.state("a"), "queued")
	change(func(l *thread.State) error { return l.Retract(second.Message, w.now) })
	wantEqual(t, "run without messages", w.state("a"), "cancelled/retracted")
	wantEqual(t, "run of the next message", w.must(piece("m", "ann")).Run, "m")
}

func TestJoinIsForMessagesOfAChannel(t *testing.T) {
	for name, change := range map[string]func(s *thread.Submit){
		"a client":   func(s *thread.Submit) { s.Origin.Via = "user" },
		"too long":   func(s *thread.Submit) { s.Join = mailroom.MaxJoin + 1000 },
		"negative":   func(s *thread.Submit) { s.Join = -time.Second },
		"latest":     func(s *thread.Submit) { s.Mode = mailroom.ModeLatest },
		"not before": func(s *thread.Submit) { s.NotBefore = time.Unix(1<<33, 0) },
		"timeout":    func(s *thread.Submit) { s.Timeout = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			s := piece("a", "ann")
			change(&s)
			wantCode(t, s.Check(), mailroom.CodeInvalid)
		})
	}
	a, b := piece("a", "ann"), piece("a", "ann")
	b.Join, a.Key, b.Key = 0, "k", "k"
	w := newFixture(t)
	w.must(a)
	wantEqual(t, "a repeat with another setting", w.must(b).Disposition, store.DispositionDuplicate)
}

// A clock that steps back would keep the run waiting for the size of the step.
func TestABurstWaitsNoLongerAfterTheClockWentBack(t *testing.T) {
	w := newFixture(t)
	w.must(piece("a", "ann"))
	w.wait(-time.Hour)
	if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		l.ReplanAfterClockStep(w.now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.mustStart("a")
}

// What is read at once after an outage was written minutes apart, or in one go.
func TestAMessageJoinsARunOnlyIfItWasWrittenWithinTheWait(t *testing.T) {
	written := time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		name  string
		after time.Duration // of the second message, in the time of the platform
		want  string        // its run
	}{
		{"at once", 0, "a"},
		{"within the wait", 1900 * time.Millisecond, "a"}, // a platform may have whole seconds only
		{"minutes later", 2 * time.Minute, "n"},
		{"a moment too late", 2100 * time.Millisecond, "n"},
		{"before, as a wrong clock says", -time.Hour, "a"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newFixture(t)
			a, n := piece("a", "ann"), piece("n", "ann")
			a.Written, n.Written = written, written.Add(x.after)
			w.must(a)
			wantEqual(t, "run", w.must(n).Run, x.want)
			w.wait(time.Second)
			w.mustStart("a")
		})
	}
	t.Run("without a time", func(t *testing.T) {
		w := newFixture(t)
		a, n, m := piece("a", "ann"), piece("n", "ann"), piece("m", "ann")
		a.Written, m.Written = written, written.Add(time.Minute)
		w.must(a)
		wantEqual(t, "run of a message without a time", w.must(n).Run, "a")
		wantEqual(t, "run of a later message", w.must(m).Run, "m")
	})
}

// The files of a message are downloaded; its arrival counts, not the end of the download.
func TestAMessageThatIsOnItsWayHoldsItsBurst(t *testing.T) {
	hold := func(w *fixture, h thread.Submit) (held bool) {
		t.Helper()
		if err := w.do(thread.ScopeJoin, nil, func(l *thread.State) error {
			held = thread.HoldJoin(l, &h, w.now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return held
	}
	by := func(via, sender string) thread.Submit {
		return thread.Submit{Origin: mailroom.Origin{Via: via, Sender: sender}}
	}
	of := by("channel:tg", "ann")
	late := of
	late.Written = time.Date(2026, 1, 2, 2, 5, 0, 0, time.UTC)
	t.Run("until it comes", func(t *testing.T) {
		w := newFixture(t)
		w.must(piece("a", "ann"))
		w.wait(900 * time.Millisecond)
		wantEqual(t, "held", hold(w, of), true)
		w.wait(8 * time.Second)
		if r := w.start(); r != nil {
			t.Fatalf("started %s during the download", r.ID)
		}
		wantEqual(t, "run", w.must(piece("n", "ann")).Run, "a")
		w.wait(time.Second)
		w.mustStart("a") // the wait after the message is the usual one
	})
	t.Run("up to the bound", func(t *testing.T) {
		w := newFixture(t)
		w.must(piece("a", "ann"))
		wantEqual(t, "held", hold(w, of), true)
		w.wait(9 * time.Second)
		wantEqual(t, "held", hold(w, of), true)
		w.wait(time.Second)
		w.mustStart("a")
	})
	for name, h := range map[string]thread.Submit{
		"of another sender":  by("channel:tg", "bob"),
		"of another channel": by("channel:other", "ann"),
		"written later":      late,
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			a := piece("a", "ann")
			a.Written = time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC)
			w.must(a)
			wantEqual(t, "held", hold(w, h), false)
			w.wait(time.Second)
			w.mustStart("a")
		})
	}
	w := newFixture(t)
	wantEqual(t, "held without a message", hold(w, of), false)
}

// A server that was killed has received nothing in the time that the run should have waited.
func TestAClockThatStepsBackAfterTheStartHoldsNoBurst(t *testing.T) {
	w := newFixture(t)
	w.served = w.now.Add(time.Hour) // the time of the start, by the clock before its step
	w.must(piece("a", "ann"))
	w.wait(time.Second)
	w.mustStart("a")
}

func TestABurstWaitsAgainAfterARestart(t *testing.T) {
	w := newFixture(t)
	w.must(piece("a", "ann"))
	w.wait(time.Hour)
	w.served = w.now
	if r := w.start(); r != nil {
		t.Fatalf("started %s at once", r.ID)
	}
	wantEqual(t, "run", w.must(piece("n", "ann")).Run, "a")
	w.wait(time.Second)
	w.mustStart("a")
	w.end(completed("ok"))

	w.must(piece("b", "ann"))
	w.wait(500 * time.Millisecond)
	w.served = w.now // before the end of its wait, which stays
	w.wait(500 * time.Millisecond)
	w.mustStart("b")
	w.end(completed("ok"))

	w.must(piece("c", "ann"))
	w.wait(time.Minute)
	w.served = w.now
	if r := w.start(); r != nil {
		t.Fatalf("started %s at once", r.ID)
	}
	w.wait(3 * time.Second)
	w.mustStart("c")
}

// burst is what a model knows of the newest run.
type burst struct {
	run, sender  string
	created, due time.Time
	open         bool // more can join
}

// TestRandomBursts runs random histories of chats, clients, edits and restarts of runs against a model: each message is
// in one run, in the order of acceptance, with messages of its sender only, and waits no longer than the bound.
func TestRandomBursts(t *testing.T) {
	for seed := range uint64(300) {
		h := &history{fixture: newFixture(t), rand: rand.New(rand.NewPCG(seed, 1)), sender: map[string]string{},
			in: map[string]string{}}
		for range 80 {
			h.step()
			h.checkWaits()
		}
		h.finish()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type history struct {
	*fixture
	rand   *rand.Rand
	last   burst
	number int
	sender map[string]string // by message
	in     map[string]string // run that must have a message, by message
	sent   []string          // messages, in order
	read   []string          // messages, in the order in which runs began with them
	done   []thread.Submit   // with keys, to repeat
}

func (h *history) step() {
	switch n := h.rand.IntN(100); {
	case n < 45:
		h.say()
	case n < 65:
		h.wait(time.Duration(h.rand.IntN(1500)) * time.Millisecond)
	case n < 80:
		h.begin()
	case n < 92:
		if h.row.Current != "" {
			h.end(completed("ok"))
		}
	case n < 96:
		h.repeat()
	default:
		h.change()
	}
}

// say sends a message of one of two people in a chat, or of a client.
func (h *history) say() {
	h.number++
	run, who := fmt.Sprint("r", h.number), []string{"ann", "ann", "bob", "client"}[h.rand.IntN(4)]
	s := piece(run, who)
	s.Join = []time.Duration{time.Second, time.Second, 4 * time.Second, 0}[h.rand.IntN(4)]
	if who == "client" { // of ann
		s = in("", run)
	}
	s.Key = run
	b, want := &h.last, run
	if s.Join > 0 && b.open && b.sender == who && h.now.Before(b.due) {
		want = b.run
		b.due = h.now.Add(s.Join)
		if most := b.created.Add(10 * time.Second); b.due.After(most) {
			b.due = most
		}
	} else {
		*b = burst{run, who, h.now, h.now.Add(s.Join), s.Join > 0}
	}
	out := h.must(s)
	wantEqual(h.t, "run of message "+run, out.Run, want)
	h.sender[out.Message], h.in[out.Message] = s.Origin.Via+" "+s.Origin.Sender, want
	h.sent, h.done = append(h.sent, out.Message), append(h.done, s)
}

// repeat submits a message again, as a client does after a crash. The message stays in the same run.
func (h *history) repeat() {
	if len(h.done) == 0 {
		return
	}
	i := h.rand.IntN(len(h.done))
	out := h.must(h.done[i])
	wantEqual(h.t, "disposition of a repeat", out.Disposition, store.DispositionDuplicate)
	wantEqual(h.t, "run of a repeat", out.Run, h.in[h.sent[i]])
}

// change edits or retracts one of the last messages, if it is unread.
func (h *history) change() {
	if len(h.sent) == 0 {
		return
	}
	m := h.sent[max(0, len(h.sent)-1-h.rand.IntN(3))]
	r := h.runs[h.in[m]]
	if state, _ := r.MessageState(m); state != mailroom.MessageAccepted {
		return
	}
	retract := h.rand.IntN(2) == 0
	err := h.do(thread.ScopeHead, []string{r.ID}, func(l *thread.State) error {
		if retract {
			return l.Retract(m, h.now)
		}
		return l.Edit(m, mailroom.Text("changed"), h.now)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if retract {
		h.read = append(h.read, m) // nothing reads it
		h.last.open = h.last.open && h.runs[h.last.run].Status == mailroom.StatusQueued
	}
}

func (h *history) begin() {
	r := h.start()
	if r == nil {
		return
	}
	for _, in := range r.Inputs {
		if !in.Retracted {
			h.read = append(h.read, in.Message)
		}
	}
}

// checkWaits checks that a run without a run before it is due when the model says, and no later than the bound.
func (h *history) checkWaits() {
	h.t.Helper()
	for _, r := range h.set(store.RunsScheduled) {
		if wait := r.NotBefore.Sub(r.CreatedAt); wait > 10*time.Second {
			h.t.Errorf("run %s waits %s", r.ID, wait)
		}
		if h.last.run != r.ID || !h.last.due.Equal(r.NotBefore) {
			h.t.Errorf("run %s waits until %s, want only %+v to wait", r.ID, r.NotBefore, h.last)
		}
	}
}

// finish lets all runs end and checks what was read.
func (h *history) finish() {
	h.t.Helper()
	h.wait(10 * time.Second)
	for {
		if h.row.Current != "" {
			h.end(completed("ok"))
		}
		before := len(h.read)
		if h.begin(); len(h.read) == before && h.row.Current == "" {
			break
		}
	}
	seen := map[string]int{}
	for _, r := range h.runs {
		for _, in := range r.Inputs {
			seen[in.Message]++
			wantEqual(h.t, "sender in run "+r.ID, h.sender[in.Message], r.Origin.Via+" "+r.Origin.Sender)
			wantEqual(h.t, "run of "+in.Message, r.ID, h.in[in.Message])
		}
	}
	last := map[string]int{}
	for i, m := range h.sent {
		last[m] = i
		if seen[m] != 1 {
			h.t.Errorf("message %s is in %d runs", m, seen[m])
		}
	}
	read := slices.DeleteFunc(slices.Clone(h.read), func(m string) bool {
		s, _ := h.runs[h.in[m]].MessageState(m)
		return s == mailroom.MessageRetracted
	})
	if !slices.IsSortedFunc(read, func(a, b string) int { return last[a] - last[b] }) {
		h.t.Errorf("read in the order %q", read)
	}
	slices.Sort(h.read)
	sent := slices.Sorted(slices.Values(h.sent))
	wantEqual(h.t, "messages that were read or retracted", h.read, sent)
}
