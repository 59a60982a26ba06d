package thread_test

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// threeMessages submits run a with the messages a.1, a.2 and a.3.
func threeMessages(w *fixture) {
	s := in("", "a")
	s.Messages = []thread.NewMessage{{Parts: mailroom.Text("one")}, {Parts: mailroom.Text("two")},
		{Parts: mailroom.Text("three")}}
	w.must(s)
}

func TestARunStartsWithTheEditedMessage(t *testing.T) {
	w := newFixture(t)
	threeMessages(w)
	if err := w.edit("a.2", "zwei"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "entry", body[entry.Edited](t, w.last()),
		entry.Edited{Message: "a.2", Text: "zwei", Parts: mailroom.Text("zwei")})
	if err := w.edit("a.2", "deux"); err != nil {
		t.Fatal(err)
	}
	w.mustStart("a")
	wantEqual(t, "inputs", body[entry.RunStarted](t, w.last()).Messages, []int64{1, 6, 3})
}

func TestARetractedMessageIsNotAnInput(t *testing.T) {
	w := newFixture(t)
	threeMessages(w)
	seq := w.row.LastSeq
	if err := w.retract("a.1"); err != nil {
		t.Fatal(err)
	}
	w.wantSince(seq, "message.retracted a")
	w.mustStart("a")
	wantEqual(t, "inputs", body[entry.RunStarted](t, w.last()).Messages, []int64{2, 3})
}

func TestRetractingTheLastMessageCancelsTheRun(t *testing.T) {
	w := newFixture(t)
	threeMessages(w)
	w.must(in("", "b"))
	for _, id := range []string{"a.3", "a.1"} {
		if err := w.retract(id); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "state", w.state("a"), "queued")
	}
	seq := w.row.LastSeq
	if err := w.retract("a.2"); err != nil {
		t.Fatal(err)
	}
	w.wantSince(seq, "message.retracted a, run.cancelled a")
	wantEqual(t, "state", w.state("a"), "cancelled/retracted")
	wantCode(t, func() error { _, err := w.retry(thread.Retry{Run: "a"}); return err }(), mailroom.CodeConflict)
	w.mustStart("b")
}

func TestOnlyAnUnreadMessageCanBeChanged(t *testing.T) {
	for name, begin := range map[string]func(w *fixture){
		"claimed":   func(w *fixture) { w.mustStart("a") },
		"released":  func(w *fixture) { w.mustStart("a"); w.end(released()) },
		"done":      func(w *fixture) { w.mustStart("a"); w.end(completed("ok")) },
		"failed":    func(w *fixture) { w.mustStart("a"); w.end(failed(mailroom.ClassPermanent)) },
		"cancelled": func(w *fixture) { w.interrupt() },
		"retracted": func(w *fixture) {
			if err := w.retract("a.1"); err != nil {
				w.t.Fatal(err)
			}
		},
		"retried after it was read": func(w *fixture) {
			w.mustStart("a")
			w.end(failed(mailroom.ClassPermanent))
			if _, err := w.retry(thread.Retry{Run: "a"}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			threeMessages(w)
			begin(w)
			wantCode(t, w.edit("a.1", "late"), mailroom.CodeConflict)
			wantCode(t, w.retract("a.1"), mailroom.CodeConflict)
		})
	}
}

func TestAnEditIsAMessage(t *testing.T) {
	w := newFixture(t)
	threeMessages(w)
	for _, bad := range []string{"", "  ", "\x00", "\xff"} {
		wantCode(t, w.edit("a.1", bad), mailroom.CodeInvalid)
	}
}

func TestTheStateOfAMessageOverItsLife(t *testing.T) {
	w := newFixture(t)
	want := func(want string) {
		t.Helper()
		got, ok := w.runs["a"].MessageState("a.1")
		wantEqual(t, "state", []any{got, ok}, []any{want, true})
	}
	w.must(in("", "a"))
	want(mailroom.MessageAccepted)
	w.mustStart("a")
	want(mailroom.MessageDelivered)
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one"}})
	want(mailroom.MessageRead)
	w.end(failed(mailroom.ClassTransient))
	want(mailroom.MessageRead)
	w.wait(time.Second)
	w.mustStart("a")
	want(mailroom.MessageRead)
	w.end(completed("ok"))
	want(mailroom.MessageDone)
	if _, ok := w.runs["a"].MessageState("b.1"); ok {
		t.Error("a run knows the state of another's message")
	}
}

func TestTheStateOfAMessageThatWasNeverRead(t *testing.T) {
	for want, end := range map[string]func(w *fixture) error{
		mailroom.MessageSuperseded: func(w *fixture) error { w.interrupt(); return nil },
		mailroom.MessageRetracted:  func(w *fixture) error { return w.retract("a.1") },
	} {
		w := newFixture(t)
		w.must(in("", "a"))
		if err := end(w); err != nil {
			t.Fatal(err)
		}
		got, _ := w.runs["a"].MessageState("a.1")
		wantEqual(t, "state", got, want)
	}
}

func TestRetryByHand(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.AgentVersion = "v1"
	w.must(s)
	w.mustStart("a")
	w.step(thread.StepCommit{Step: mailroom.Step{Name: "one", Checkpoint: json.RawMessage(`{"at":1}`)}})
	w.expire()
	w.mustStart("a")
	w.end(failed(mailroom.ClassTransient))
	w.wait(time.Second)
	w.mustStart("a")
	w.end(failed(mailroom.ClassPermanent))
	w.must(in("", "b"))
	seq := w.row.LastSeq
	if _, err := w.retry(thread.Retry{Run: "a", By: "bob", AgentVersion: "v2"}); err != nil {
		t.Fatal(err)
	}
	w.wantSince(seq, "run.retried a")
	wantEqual(t, "entry", body[entry.RunRetried](t, w.last()), entry.RunRetried{By: "bob"})
	r := w.runs["a"]
	wantEqual(t, "counters", []int{r.Attempt, r.Failures, r.Crashes, r.Lost, r.Step}, []int{3, 0, 0, 0, 1})
	wantEqual(t, "error group", r.ErrorGroup, "")
	wantEqual(t, "kept", []string{string(r.Checkpoint), r.AgentVersion, w.state("a")},
		[]string{`{"at":1}`, "v2", "queued"})
	wantEqual(t, "queue", w.queue(), "b a")
	w.mustStart("b")
	w.end(completed("ok"))
	wantEqual(t, "attempt", w.mustStart("a").Attempt, 4)
	wantEqual(t, "inputs listed again", body[entry.RunStarted](t, w.last()).Messages, []int64{})
}

func TestAFreshRetryByHandDropsTheCheckpoint(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.AgentVersion = "v1"
	w.must(s)
	w.mustStart("a")
	w.step(thread.StepCommit{Step: mailroom.Step{Checkpoint: json.RawMessage(`{"at":1}`)}})
	w.end(failed(mailroom.ClassPermanent))
	r, err := w.retry(thread.Retry{Run: "a", Fresh: true, SameVersion: true, AgentVersion: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "checkpoint and version", []string{string(r.Checkpoint), r.AgentVersion}, []string{"", "v1"})
}

func TestOnlyFailedAndCancelledRunsAreRetriedByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(w *fixture)
		run   string
		want  mailroom.Code
	}{
		{"failed", func(w *fixture) { states["running"](w); w.end(failed(mailroom.ClassPermanent)) }, "x", ""},
		{"cancelled", func(w *fixture) { states["backoff"](w); w.interrupt() }, "x", ""},
		{"superseded", func(w *fixture) { states["queued"](w); w.interrupt() }, "a", ""},
		{"queued", states["queued"], "a", mailroom.CodeConflict},
		{"running", states["running"], "x", mailroom.CodeConflict},
		{"backoff", states["backoff"], "x", mailroom.CodeConflict},
		{"completed", func(w *fixture) { states["running"](w); w.end(completed("ok")) }, "x", mailroom.CodeConflict},
		{"unknown", states["queued"], "unknown", mailroom.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.begin(w)
			_, err := w.retry(thread.Retry{Run: c.run})
			wantCode(t, err, c.want)
		})
	}
}

func TestARetriedRunThatWasNeverReadCanBeEdited(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.interrupt()
	if _, err := w.retry(thread.Retry{Run: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := w.edit("a.1", "better"); err != nil {
		t.Fatal(err)
	}
	w.mustStart("a")
	wantEqual(t, "inputs", body[entry.RunStarted](t, w.last()).Messages, []int64{5})
}

func TestThreadPatch(t *testing.T) {
	w := newFixture(t)
	patch := func(p thread.Patch) error {
		return w.do(thread.ScopeRow, nil, func(l *thread.State) error { return l.Patch(p, w.now) })
	}
	agent, bad := "codex", "\x00"
	wantCode(t, patch(thread.Patch{Agent: &agent}), mailroom.CodeNotFound)
	w.must(in("", "a"))
	for _, p := range []thread.Patch{
		{Metadata: json.RawMessage(`{`)}, {Metadata: json.RawMessage(`[1]`)}, {Agent: &agent, Metadata: json.RawMessage(`null`)}, {Agent: &bad},
	} {
		wantCode(t, patch(p), mailroom.CodeInvalid)
	}
	if err := patch(thread.Patch{Agent: &agent, Metadata: json.RawMessage(` {"title":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "agent and metadata", []string{w.row.Agent, string(w.row.Metadata)}, []string{"codex", ` {"title":"x"}`})
	wantEqual(t, "agent of the run that is queued", w.runs["a"].Agent, "echo")
}

func TestOnlyAnIdleThreadCanBeDeleted(t *testing.T) {
	for state, begin := range states {
		w := newFixture(t)
		if state != "idle" {
			begin(w)
			wantCode(t, w.load(thread.ScopeRow, "").CheckDeletable(), mailroom.CodeConflict)
			continue
		}
		wantCode(t, w.load(thread.ScopeRow, "").CheckDeletable(), mailroom.CodeNotFound)
		w.must(in("", "a"))
		w.mustStart("a")
		w.end(completed("ok"))
		wantCode(t, w.load(thread.ScopeRow, "").CheckDeletable(), "")
	}
}
