package thread_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
	"mailroom/thread"
)

func TestASubmitMakesItsThread(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.Owner, s.From = "ann", &thread.Descent{Thread: "p"}
	w.must(s)
	wantEqual(t, "row", w.row, mailroom.Thread{
		Key: 1, Revision: 1, ID: "t", Agent: "echo", Owner: "ann", Parent: "p",
		Due:      mailroom.Due{At: w.now, Agent: "echo", Priority: 128},
		FirstSeq: 1, LastSeq: 2, NextPlace: 2, Bytes: int64(len(w.log[0].Raw) + len(w.log[1].Raw)), CreatedAt: w.now,
		UpdatedAt: w.now,
	})
	r := *w.runs["a"]
	wantEqual(t, "run", r, mailroom.Run{
		Key: 1, ID: "a", Thread: "t", Agent: "echo", Mode: mailroom.ModeQueue, Priority: 128, Place: 1,
		Origin: s.Origin, MaxAttempts: 5, AgentAttempts: true, FirstSeq: 1, Status: mailroom.StatusQueued, AvailableAt: w.now,
		Inputs: []mailroom.Input{{Message: "a.1", Seq: 1}}, InputBytes: int64(len(w.log[0].Raw)), InputText: "say a",
		CreatedAt: w.now,
	})
	wantEqual(t, "queued", body[entry.RunQueued](t, w.last()), entry.RunQueued{
		Agent: "echo", Mode: mailroom.ModeQueue, Priority: 128, AvailableAt: w.now, Messages: []string{"a.1"},
		Origin: s.Origin,
	})
}

func TestALaterSubmitChangesOnlyTheAgentOfAThread(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.Owner = "ann"
	w.must(s)
	s = in("", "b")
	s.Owner, s.From = "bob", &thread.Descent{Thread: "p"}
	w.must(s)
	wantEqual(t, "agent not asked for", w.row.Agent, "echo")
	s.Run, s.Agent = "c", "codex"
	w.must(s)
	wantEqual(t, "agent, owner, parent", []string{w.row.Agent, w.row.Owner, w.row.Parent}, []string{"codex", "ann", ""})
}

func TestARepeatedKeySubmitsOnceInEveryMode(t *testing.T) {
	for _, c := range cells() {
		if c.busy {
			continue
		}
		t.Run(string(c.mode)+"/"+c.state, func(t *testing.T) {
			w := newFixture(t)
			states[c.state](w)
			s := in(c.mode, "n")
			s.Key = "k"
			first := w.must(s)
			log := len(w.log)
			s.Run = "other"
			again := w.must(s)
			wantEqual(t, "disposition", again.Disposition, store.DispositionDuplicate)
			first.Disposition = store.DispositionDuplicate
			wantEqual(t, "answer", again, first)
			wantEqual(t, "entries", len(w.log), log)
		})
	}
}

func TestARepeatedKeyReturnsTheCurrentStatus(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.Key = "k"
	w.must(s)
	for _, c := range []struct {
		then func()
		want mailroom.Status
	}{
		{func() {}, mailroom.StatusQueued},
		{func() { w.mustStart("a") }, mailroom.StatusRunning},
		{func() { w.end(completed("ok")) }, mailroom.StatusCompleted},
	} {
		c.then()
		wantEqual(t, "status", w.must(s).Status, c.want)
	}
}

func TestARepeatedKeyIsRecognisedBeforeAReject(t *testing.T) {
	w := newFixture(t)
	s := in(mailroom.ModeReject, "a")
	s.Key = "k"
	w.must(s)
	wantEqual(t, "disposition", w.must(s).Disposition, store.DispositionDuplicate)
	s.Key = "other"
	_, err := w.submit(s)
	wantCode(t, err, mailroom.CodeBusy)
	s.Key = "k"
	wantEqual(t, "disposition", w.must(s).Disposition, store.DispositionDuplicate)
	wantEqual(t, "keys", len(w.keys), 1)
}

func TestOptionsThatTheAgentDoesNotTakeRefuseASubmit(t *testing.T) {
	st := thread.State{}
	sub := thread.Submit{Thread: "t", Run: "r", Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}},
		Options: []byte(`{"model":"x"}`)}
	_, err := st.Submit(sub, thread.Resolved{Agent: "codex", BadOptions: errors.New("codex takes no options")}, time.Now())
	wantCode(t, err, mailroom.CodeInvalid)
	if !strings.Contains(err.Error(), "options: codex takes no options") {
		t.Errorf("error %v", err)
	}
}

func TestAKeyWithOtherContentConflicts(t *testing.T) {
	prio, options := 7, json.RawMessage(`{"a": 1}`)
	for name, change := range map[string]func(s *thread.Submit){
		"text":       func(s *thread.Submit) { s.Messages[0].Parts = mailroom.Text("other") },
		"role":       func(s *thread.Submit) { s.Messages[0].Role = mailroom.RoleSystem },
		"visibility": func(s *thread.Submit) { s.Messages[0].Visibility = mailroom.VisibleInternal },
		"messages":   func(s *thread.Submit) { s.Messages = append(s.Messages, s.Messages[0]) },
		"agent":      func(s *thread.Submit) { s.Agent = "codex" },
		"mode":       func(s *thread.Submit) { s.Mode = mailroom.ModeInterrupt },
		"priority":   func(s *thread.Submit) { s.Priority = &prio },
		"not_before": func(s *thread.Submit) { s.NotBefore = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) },
		"options":    func(s *thread.Submit) { s.Options = json.RawMessage(`{"a":2}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			first := func() thread.Submit { s := in("", "a"); s.Key, s.Options = "k", options; return s }
			w.must(first())
			s := first()
			change(&s)
			_, err := w.submit(s)
			wantCode(t, err, mailroom.CodeConflict)
			same := first()
			same.Options = json.RawMessage(`{"a":1}`) // the same JSON, and the default said aloud
			same.Mode, same.Messages[0].Role = mailroom.ModeQueue, mailroom.RoleUser
			wantEqual(t, "the same", w.must(same).Disposition, store.DispositionDuplicate)
		})
	}
}

func TestAKeySurvivesEditRetractAndCancel(t *testing.T) {
	w := newFixture(t)
	s := in("", "a")
	s.Key = "k"
	w.must(s)
	if err := w.edit("a.1", "better"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "after an edit", w.must(s).Disposition, store.DispositionDuplicate)
	if err := w.retract("a.1"); err != nil {
		t.Fatal(err)
	}
	again := w.must(s)
	wantEqual(t, "after a retract", []any{again.Disposition, again.Status},
		[]any{store.DispositionDuplicate, mailroom.StatusCancelled})
}

func TestARepeatedInterruptInterruptsNothing(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	s := in(mailroom.ModeInterrupt, "n")
	s.Key = "k"
	w.must(s)
	w.end(released())
	w.mustStart("n")
	w.must(in("", "later"))
	seq := w.row.LastSeq
	w.must(s)
	w.wantSince(seq, "")
	wantEqual(t, "stop", w.runs["n"].Stop, "")
}

func TestCheckDoesNotChangeTheCallersMessages(t *testing.T) {
	drafts := []thread.NewMessage{{Parts: mailroom.Text("hello")}}
	s := thread.Submit{Messages: drafts}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "draft", drafts[0], thread.NewMessage{Parts: mailroom.Text("hello")})
}

func TestThreadIDs(t *testing.T) {
	long := strings.Repeat("ü", 200)
	for _, c := range []struct{ in, want string }{
		{"a", "a"}, {" a b\n", "a b"}, {"issue:42", "issue:42"}, {long, long}, {" " + long + " ", long},
		{"日本語 ✓ 🙂", "日本語 ✓ 🙂"}, {"...", "..."}, {"..a", "..a"}, {"-", "-"}, {"%2F", "%2F"},
	} {
		got, err := check.ThreadID(c.in)
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, error %v, want %q", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{
		"", " ", ".", " .. ", "a/b", "/", "a\x00b", "a\nb", "a\tb", "a\u200bb", "a\u202eb", "\xff", "a\u00a0b", "a\u2028b",
		long + "u", "\ufeffa",
	} {
		got, err := check.ThreadID(bad)
		if mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%q: got %q, error %v, want invalid", bad, got, err)
		}
	}
}

func TestADerivedIDIsAStableUUID(t *testing.T) {
	wantEqual(t, "id", digest.ID("thread", "ann", "k"), "4a36dbde-1463-8499-b895-1afae008a890")
	seen := map[string][]string{}
	for _, names := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"}, {"1:a"},
		{"a1:b"}} {
		id := digest.ID(names...)
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have the same id", names, other)
		}
		seen[id] = names
		if len(id) != 36 || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%q: %s is not a UUID of version 8", names, id)
		}
	}
}
