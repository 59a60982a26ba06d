package thread_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestAnInternalStepMakesAnInternalMessageAndNoReply(t *testing.T) {
	w := newFixture(t)
	w.row.DeliverTo = "chat"
	w.must(in("", "x"))
	w.mustStart("x")
	w.step(thread.StepCommit{
		Message: &thread.PartialText{ID: "m1", Text: "let me look"},
		Step: mailroom.Step{Internal: true, Entries: []mailroom.AgentEntry{{Kind: entry.KindToolStarted,
			Body: json.RawMessage(`{}`)}}},
	})
	wantEqual(t, "deliveries of an aside", len(w.sent), 0)
	if w.runs["x"].Reply != nil {
		t.Errorf("the aside became the reply %q", *w.runs["x"].Reply)
	}
	for _, e := range w.log {
		if m, ok := messageIn(t, e); ok && m.ID == "m1" {
			wantEqual(t, "visibility", m.Visibility, mailroom.VisibleInternal)
		}
	}
	w.end(completed("found it"))
	wantEqual(t, "deliveries", len(w.sent), 1)
	wantEqual(t, "delivered", w.sent[0].Messages[0].Parts[0].Text, "found it")
	wantEqual(t, "reply", *w.runs["x"].Reply, "found it")
}

// TestTheSilentWordIsNotDelivered compares each message of a run, and the log keeps all.
func TestTheSilentWordIsNotDelivered(t *testing.T) {
	for text, want := range map[string]int{"HEARTBEAT_OK": 0, "**HEARTBEAT_OK**\n": 0, "HEARTBEAT_OK: look": 1} {
		w := newFixture(t)
		w.row.DeliverTo = "chat"
		beat := in("", "x")
		beat.Metadata = map[string]string{"silent_word": "HEARTBEAT_OK"}
		w.must(beat)
		w.mustStart("x")
		w.end(completed(text))
		wantEqual(t, "deliveries of "+text, len(w.sent), want)
		wantEqual(t, "reply", *w.runs["x"].Reply, text)
	}
	w := newFixture(t)
	w.row.DeliverTo = "chat"
	w.must(in("", "x"))
	w.mustStart("x")
	w.end(completed("HEARTBEAT_OK"))
	wantEqual(t, "deliveries without a word", len(w.sent), 1)
	file := newFixture(t)
	file.row.DeliverTo = "chat"
	beat := in("", "x")
	beat.Metadata = map[string]string{"silent_word": "OK"}
	file.must(beat)
	file.mustStart("x")
	file.step(thread.StepCommit{Message: &thread.PartialText{ID: "m1", Text: "OK", Parts: []mailroom.Part{
		{Type: mailroom.PartReasoning, Text: "nothing is new"}}}})
	wantEqual(t, "deliveries of the word after reasoning", len(file.sent), 0)
	file.step(thread.StepCommit{Message: &thread.PartialText{ID: "m2", Text: "OK", Parts: []mailroom.Part{
		{Type: mailroom.PartFile, URI: "https://example.org/x", Name: "x"}}}})
	wantEqual(t, "deliveries of the word with a file", len(file.sent), 1)
}

func TestARunWithInternalMessagesOnlyHasNoReply(t *testing.T) {
	w := newFixture(t)
	w.row.DeliverTo = "chat"
	w.must(in("", "x"))
	w.mustStart("x")
	w.step(thread.StepCommit{Message: &thread.PartialText{ID: "m1", Text: "let me look"},
		Step: mailroom.Step{Internal: true}})
	w.end(completed(""))
	wantEqual(t, "deliveries", len(w.sent), 1)
	wantEqual(t, "what is told", w.sent[0].Messages[0].Parts[0].Type, "data")
}

func TestAFailureAfterAReplyIsReported(t *testing.T) {
	w := newFixture(t)
	w.row.DeliverTo = "chat"
	w.must(in("", "x"))
	w.mustStart("x")
	w.step(thread.StepCommit{Message: &thread.PartialText{ID: "m1", Text: "half of it"}})
	w.end(thread.Settle{Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{Class: mailroom.ClassPermanent,
		Err: errors.New("no")}})
	wantEqual(t, "deliveries", len(w.sent), 2)
	wantEqual(t, "first", w.sent[0].Messages[0].Parts[0].Text, "half of it")
	if end := string(w.sent[1].Messages[0].Parts[0].Data); !strings.Contains(end, `"status":"failed"`) {
		t.Errorf("what is told is %s", end)
	}
}

func messageIn(t *testing.T, e mailroom.Entry) (mailroom.Message, bool) {
	t.Helper()
	if e.Kind != entry.KindMessage {
		return mailroom.Message{}, false
	}
	return body[mailroom.Message](t, e), true
}

func TestAnEventThatHoldsKeepsMessagesInTheQueue(t *testing.T) {
	for holds, want := range map[bool]store.Disposition{false: store.DispositionResumed, true: store.DispositionQueued} {
		w := newFixture(t)
		hook := ask("hook", mailroom.TicketEvent)
		hook.Holds = holds
		w.park(false, hook)
		wantEqual(t, "a message", w.must(in("", "n")).Disposition, want)
		if !holds {
			continue
		}
		_, err := w.submit(in(mailroom.ModeReject, "r"))
		wantCode(t, err, mailroom.CodeBusy)
		wantEqual(t, "a steered one", w.must(in(mailroom.ModeSteer, "s")).Disposition, store.DispositionSteered)
		wantEqual(t, "run x", w.state("x"), "waiting")
	}
}

func TestOnlyAnEventTicketMayHoldMessages(t *testing.T) {
	for _, kind := range []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput, mailroom.TicketTimer} {
		a := ask("a", kind)
		a.Holds = true
		wantCode(t, thread.CheckAsk(&a), mailroom.CodeInvalid)
	}
}

func TestARunWithoutRetriesIsClaimedAgainWhenItsWorkerIsLost(t *testing.T) {
	for class, want := range map[mailroom.Class]mailroom.Class{
		mailroom.ClassUnavailable: mailroom.ClassExhausted, mailroom.ClassTransient: mailroom.ClassExhausted,
		mailroom.ClassPermanent: mailroom.ClassPermanent,
	} {
		w := newFixture(t)
		s := in("", "a")
		s.NoRetry = true
		w.must(s)
		w.mustStart("a")
		w.expire()
		w.now = w.row.Due.At
		w.mustStart("a")
		r := w.end(failed(class))
		wantEqual(t, "status", r.Status, mailroom.StatusFailed)
		wantEqual(t, "class", r.Error.Class, want)
	}
}

func TestASubmitSaysWhereItsThreadDelivers(t *testing.T) {
	w := newFixture(t)
	s := in("", "x")
	s.DeliverTo, s.DeliverAgent = "out", "chat"
	w.must(s)
	wantEqual(t, "delivers to", w.row.DeliverTo, "out")
	again := in("", "y")
	again.DeliverTo, again.DeliverAgent = "elsewhere", "chat"
	w.must(again)
	wantEqual(t, "still delivers to", w.row.DeliverTo, "out")
	again.MustDeliver, again.Run = true, "z"
	before := len(w.runs)
	_, err := w.submit(again)
	wantConflict(t, err, `thread "t" already delivers to thread "out"`)
	wantEqual(t, "runs", len(w.runs), before)
	again.DeliverTo, again.Owner = "out", w.row.Owner
	w.must(again)
	again.Owner, again.Run = "another", "q"
	_, err = w.submit(again)
	wantConflict(t, err, "has another owner")
}

// wantConflict checks the refusal of a submit that must deliver.
func wantConflict(t *testing.T, err error, words string) {
	t.Helper()
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok || e.Code != mailroom.CodeConflict || len(e.Fields) != 1 || e.Fields[0].Location != "notify" ||
		!strings.Contains(e.Message, words) {
		t.Errorf("got %v, want a conflict of notify: %s", err, words)
	}
}

func TestACircularDeliveryIsRefused(t *testing.T) {
	for name, change := range map[string]func(*thread.Submit, *fixture){
		"to itself":                      func(s *thread.Submit, _ *fixture) { s.DeliverTo = "t" },
		"to one that delivers on":        func(_ *thread.Submit, w *fixture) { w.target.DeliverTo = "far" },
		"without an agent that delivers": func(s *thread.Submit, _ *fixture) { s.DeliverAgent = "" },
		"to what is no thread id":        func(s *thread.Submit, _ *fixture) { s.DeliverTo = "a/b" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := in("", "x")
			s.DeliverTo, s.DeliverAgent = "out", "chat"
			change(&s, w)
			if _, err := w.submit(s); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

func TestACursorNeedsAChannelAndAPosition(t *testing.T) {
	good := store.Cursor{Channel: "chat", Position: json.RawMessage(`{"since":"a"}`)}
	if err := thread.CheckCursor(&good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]store.Cursor{
		"no channel":    {Position: good.Position},
		"no position":   {Channel: "chat"},
		"no JSON":       {Channel: "chat", Position: json.RawMessage(`{`)},
		"NUL":           {Channel: "chat", Identity: "a\x00", Position: good.Position},
		"a vast cursor": {Channel: "chat", Position: json.RawMessage(`"` + strings.Repeat("a", mailroom.MaxPosition) + `"`)},
	} {
		if thread.CheckCursor(&c) == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}
