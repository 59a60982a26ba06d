package thread_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func ids(inputs []mailroom.Input) []string {
	list := []string{}
	for _, in := range inputs {
		list = append(list, in.Message)
	}
	return list
}

// steering returns a fixture in which run x runs and the message of s is steered into it.
func steering(t *testing.T) (*fixture, store.Submitted) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	return w, w.must(in(mailroom.ModeSteer, "s"))
}

func TestASteerReachesTheCurrentRun(t *testing.T) {
	w, s := steering(t)
	seq := w.row.LastSeq
	wantEqual(t, "handed over", ids(w.steered()), []string{s.Message})
	w.wantSince(seq, "message.read x")
	wantEqual(t, "read", body[entry.MessageRef](t, w.last()), entry.MessageRef{Message: s.Message, Seq: s.Seq})

	seq = w.row.LastSeq
	wantEqual(t, "a repeat", ids(w.steered()), []string{s.Message})
	w.wantSince(seq, "")

	w.step(thread.StepCommit{Step: mailroom.Step{Name: "used it"}, Covers: s.Seq})
	wantEqual(t, "after a step that covers it", ids(w.steered()), []string{})
	w.end(completed("ok"))
	wantEqual(t, "a run of its own", w.state("s"), "none")
	wantEqual(t, "due", w.row.Due, mailroom.Due{})
}

func TestAStepAcknowledgesOnlyMessagesHandedOverBeforeIt(t *testing.T) {
	w, first := steering(t)
	w.steered()
	second := w.must(in(mailroom.ModeSteer, "s2"))
	w.steered()
	third := w.must(in(mailroom.ModeSteer, "s3"))
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}, Covers: first.Seq})
	wantEqual(t, "left", ids(w.steered()), []string{second.Message, third.Message})
}

func TestAStepDoesNotCoverWhatIsUnread(t *testing.T) {
	w, s := steering(t)
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}, Covers: s.Seq + 100})
	wantEqual(t, "left", ids(w.steered()), []string{s.Message})
}

func TestALaterAttemptGetsWhatWasReadAndNotCovered(t *testing.T) {
	for name, end := range map[string]func(w *fixture){
		"retry":   func(w *fixture) { w.end(failed(mailroom.ClassTransient)); w.wait(time.Second) },
		"release": func(w *fixture) { w.end(released()) },
		"lost":    func(w *fixture) { w.expire() },
		"by hand": func(w *fixture) {
			w.end(failed(mailroom.ClassPermanent))
			if _, err := w.retry(thread.Retry{Run: "x"}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := steering(t)
			w.steered()
			end(w)
			w.mustStart("x")
			seq := w.row.LastSeq
			wantEqual(t, "handed over again", ids(w.steered()), []string{s.Message})
			w.wantSince(seq, "")
		})
	}
}

func TestAnUnreadSteerBecomesARunAtThePlaceOfItsSubmission(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *fixture)
		want string
	}{
		"complete": {func(w *fixture) { w.end(completed("ok")) }, "message x, run.completed x, run.queued s"},
		"fail":     {func(w *fixture) { w.end(failed(mailroom.ClassPermanent)) }, "run.failed x, run.queued s"},
		"crash": {func(w *fixture) {
			for range 3 {
				w.expire()
				w.wait(time.Second)
				w.start()
			}
		}, "run.rescheduled x, run.started x, run.rescheduled x, run.started x, run.failed x, run.queued s, run.started a"},
		"cancel": {func(w *fixture) {
			if _, err := w.cancel("x"); err != nil {
				w.t.Fatal(err)
			}
			w.end(released())
		}, "run.stop_requested x, run.cancelled x, run.queued s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "x"))
			w.mustStart("x")
			w.must(in("", "a"))
			w.wait(time.Second)
			steer := in(mailroom.ModeSteer, "s")
			steer.Options = []byte(`{"deep":true}`)
			s := w.must(steer)
			w.must(in("", "b"))
			w.wait(time.Second)
			seq := w.row.LastSeq
			c.end(w)
			w.wantSince(seq, c.want)
			r := w.runs["s"]
			wantEqual(t, "place, options, created", []any{r.Place, string(r.Options), r.CreatedAt},
				[]any{s.Place, `{"deep":true}`, w.runs["x"].FinishedAt})
			wantEqual(t, "inputs", r.Inputs, []mailroom.Input{{Message: s.Message, Seq: s.Seq}})
			for _, want := range []string{"a", "s", "b"} {
				if w.row.Current != want {
					w.mustStart(want)
				}
				w.end(completed("ok"))
			}
		})
	}
}

func TestTheMessagesOfOneSteerBecomeOneRun(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	three := in(mailroom.ModeSteer, "s")
	three.Key = "k"
	three.Messages = []thread.NewMessage{{Parts: mailroom.Text("one")}, {Parts: mailroom.Text("two")},
		{Parts: mailroom.Text("three")}}
	w.must(three)
	w.must(in(mailroom.ModeSteer, "t"))
	if err := w.retract("s.4"); err != nil {
		t.Fatal(err)
	}
	if err := w.edit("s.6", "drei"); err != nil {
		t.Fatal(err)
	}
	w.end(completed("ok"))
	wantEqual(t, "queue", w.queue(), "s t")
	w.mustStart("s")
	wantEqual(t, "inputs", body[entry.RunStarted](t, w.last()).Messages, []int64{5, 9})
	again := w.must(three)
	wantEqual(t, "again", []any{again.Disposition, again.Run, again.Seq}, []any{store.DispositionDuplicate, "x", int64(6)})
}

func TestAnEditedSteerIsReadAsEdited(t *testing.T) {
	w, s := steering(t)
	if err := w.edit(s.Message, "better"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "handed over", w.steered(), []mailroom.Input{{Message: s.Message, Seq: s.Seq + 1}})
	wantEqual(t, "read", body[entry.MessageRef](t, w.last()), entry.MessageRef{Message: s.Message, Seq: s.Seq + 1})
}

func TestARetractedSteerIsNeitherReadNorARun(t *testing.T) {
	for _, read := range []bool{true, false} {
		w, s := steering(t)
		if err := w.retract(s.Message); err != nil {
			t.Fatal(err)
		}
		if read {
			wantEqual(t, "handed over", ids(w.steered()), []string{})
		}
		w.end(completed("ok"))
		wantEqual(t, "run", w.state("s"), "none")
		state, ok := w.runs["x"].MessageState(s.Message)
		wantEqual(t, "state", []any{state, ok}, []any{mailroom.MessageRetracted, true})
	}
}

func TestAReadSteerCanNotBeChanged(t *testing.T) {
	w, s := steering(t)
	w.steered()
	wantCode(t, w.edit(s.Message, "late"), mailroom.CodeConflict)
	wantCode(t, w.retract(s.Message), mailroom.CodeConflict)
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}, Covers: s.Seq})
	wantCode(t, w.edit(s.Message, "late"), mailroom.CodeConflict)
}

// All that a run has not worked into a step is written again with each message.
func TestTheSteeredMessagesOfARunAreBounded(t *testing.T) {
	w, _ := steering(t)
	for i := range thread.MaxSteers - 1 {
		if i == 100 {
			w.steered() // read, and covered by no step
		}
		w.must(in(mailroom.ModeSteer, fmt.Sprint("n", i)))
	}
	if _, err := w.submit(in(mailroom.ModeSteer, "more")); mailroom.CodeOf(err) != mailroom.CodeRateLimited {
		t.Errorf("one more: %v", err)
	}
	w.must(in("", "behind"))
	w.steered()
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "used"}, Covers: w.row.LastSeq})
	w.must(in(mailroom.ModeSteer, "again"))

	w, _ = steering(t)
	large := in(mailroom.ModeSteer, "large")
	large.Options = json.RawMessage(`"` + strings.Repeat("o", mailroom.MaxOptions-2) + `"`)
	for i := range thread.MaxSteersSize / mailroom.MaxOptions {
		large.Run = fmt.Sprint("l", i)
		w.must(large)
	}
	large.Run = "more"
	if _, err := w.submit(large); mailroom.CodeOf(err) != mailroom.CodeRateLimited {
		t.Errorf("one more of %d bytes: %v", mailroom.MaxOptions, err)
	}
}

func TestSteeredMessagesCountInTheQueue(t *testing.T) {
	w, _ := steering(t)
	s := in("", "q")
	w.maxQueued, w.queued = 3, 1
	w.must(s)
	s = in(mailroom.ModeSteer, "s2")
	w.maxQueued, w.queued = 3, 2
	if _, err := w.submit(s); mailroom.CodeOf(err) != mailroom.CodeRateLimited {
		t.Errorf("two in the queue and one unread: %v", err)
	}
	w.maxQueued = 4
	w.must(s)
}

// A submit of two messages resumes a run, and its first message is retracted. The resumed run reads the second message,
// so this message starts no run of its own.
func TestAMessageThatAResumedRunReadsStartsNoRunOfItsOwn(t *testing.T) {
	w := newFixture(t)
	w.park(true, ask("hook", mailroom.TicketEvent))
	more := text("n", "one")
	more.Messages = append(more.Messages, thread.NewMessage{Parts: mailroom.Text("two")})
	out := w.must(more)
	wantEqual(t, "disposition", out.Disposition, store.DispositionResumed)
	first := fmt.Sprintf("n.%d", out.Seq-1)
	if err := w.retract(first); err != nil {
		t.Fatal(err)
	}
	w.mustStart("x")
	wantEqual(t, "read", body[entry.RunStarted](t, w.last()).Messages, []int64{out.Seq})
	before := w.row.LastSeq
	w.end(completed("done"))
	w.wantSince(before, "message x, run.completed x")
}
