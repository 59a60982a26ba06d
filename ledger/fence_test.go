package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/digest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// lateWrites makes every write that a run can make, under claim c, and returns their errors.
func lateWrites(d *fixture, c mailroom.Claim) map[string]error {
	refused := map[string]error{}
	_, refused["entry"] = d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{
		Entries: []mailroom.AgentEntry{{Kind: "x.late", Body: json.RawMessage(`{}`)}},
	}})
	_, refused["checkpoint"] = d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1,
		Step: mailroom.Step{Checkpoint: json.RawMessage(`{"late":true}`)}})
	_, refused["send"] = d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{
		Sends: []mailroom.Send{{Name: "late", Thread: "elsewhere", Parts: mailroom.Text("late")}},
	}})
	for _, s := range []thread.Settle{complete(c, "late"), failure(c, mailroom.ClassTransient), release(c)} {
		s.Number, s.Message = 1, partialText(c, "late")
		_, refused["settle "+string(s.Outcome)] = d.Settle(d.ctx, s)
	}
	refused["flush"] = d.Flush(d.ctx, c, store.Partial{Message: "late", Text: "late"})
	_, refused["steered"] = d.MarkSteersRead(d.ctx, c)
	return refused
}

func TestALateWriteOfAnOldAttemptChangesNothing(t *testing.T) {
	for name, lose := range map[string]func(d *fixture, c mailroom.Claim){
		"lost worker":   func(d *fixture, c mailroom.Claim) { d.expireWorker("w") },
		"claimed again": func(d *fixture, c mailroom.Claim) { d.expireWorker("w"); d.claimOne("w2") },
		"released":      func(d *fixture, c mailroom.Claim) { d.settle(release(c)) },
		"completed":     func(d *fixture, c mailroom.Claim) { d.settle(complete(c, "ok")) },
		"failed":        func(d *fixture, c mailroom.Claim) { d.settle(failure(c, mailroom.ClassPermanent)) },
		"retried manually": func(d *fixture, c mailroom.Claim) {
			d.settle(failure(c, mailroom.ClassPermanent))
			must(d.Retry(d.ctx, thread.Retry{Run: c.Run}))(d.t)
		},
		"retried manually and claimed": func(d *fixture, c mailroom.Claim) {
			d.settle(failure(c, mailroom.ClassPermanent))
			must(d.Retry(d.ctx, thread.Retry{Run: c.Run}))(d.t)
			d.claimOne("w2")
		},
		"forced to end": func(d *fixture, c mailroom.Claim) {
			must(d.Cancel(d.ctx, c.Run, "ann"))(d.t)
			s := release(c)
			s.Forced = true
			d.settle(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil, ledger.Options{})
			d.register("w", "w2")
			out := d.submit(text("t", "hello"))
			c := d.claimOne("w").Claim
			d.submit(mode(mailroom.ModeSteer, "t", "and this"))
			lose(d, c)
			run, thread, log := d.run(out.Run), d.thread("t"), d.kinds("t")
			for op, err := range lateWrites(d, c) {
				if mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
					t.Errorf("%s: got error %v, want code %q", op, err, mailroom.CodeLeaseLost)
				}
			}
			wantEqual(t, "run", d.run(out.Run), run)
			wantEqual(t, "thread", d.thread("t"), thread)
			wantEqual(t, "log", d.kinds("t"), log)
			if d.thread("elsewhere") != nil {
				t.Error("a late send created a thread")
			}
		})
	}
}

func TestAClaimIsForOneRunOfOneThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	d.submit(text("u", "hello"))
	work := d.claim("w", 2)
	mixed := mailroom.Claim{Thread: work[0].Claim.Thread, Run: work[1].Claim.Run, Attempt: 1}
	for op, err := range lateWrites(d, mixed) {
		if mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
			t.Errorf("%s: got error %v, want code %q", op, err, mailroom.CodeLeaseLost)
		}
	}
}

func TestASendArrivesOnceAlsoFromALaterAttempt(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w", "w2")
	d.submit(text("t", "hello"))
	step := mailroom.Step{Name: "ask", Sends: []mailroom.Send{
		{Name: "known", Thread: " u ", Parts: mailroom.Text("do this")},
		{Name: "new", Agent: "codex", Parts: mailroom.Text("and this")},
		{Name: "self", Thread: "t", Parts: mailroom.Text("later")},
	}}
	first := d.claimOne("w").Claim
	must(d.Append(t.Context(), thread.StepCommit{Claim: first, Number: 1, Step: step}))(t)
	d.expireWorker("w")

	var again mailroom.Claim
	for _, work := range d.claim("w2", 9) {
		if work.Claim.Run == first.Run {
			again = work.Claim
		} else {
			d.settle(complete(work.Claim, "ok"))
		}
	}
	must(d.Append(t.Context(), thread.StepCommit{Claim: again, Number: 2, Step: step}))(t)
	d.settle(complete(again, "ok"))

	fresh := digest.ID("thread", first.Run, "new")
	for thread, want := range map[string]string{"u": "do this", "t": "later", fresh: "and this"} {
		var got []string
		for _, e := range d.log(thread) {
			var m mailroom.Message
			if e.Kind == entry.KindMessage && e.Decode(&m) == nil && m.Role == mailroom.RoleUser && m.Sender == "echo" {
				got = append(got, m.Text)
				wantEqual(t, "parent", d.run(m.Run).Parent, first.Run)
			}
		}
		wantEqual(t, "messages in "+thread, got, []string{want})
	}
	row := d.thread(fresh)
	wantEqual(t, "the new thread", []string{row.Agent, row.Owner, row.Parent}, []string{"codex", "ann", "t"})
}

func TestARefusedSendFailsItsStep(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	send := func(number int, names ...string) error {
		a := thread.StepCommit{Claim: c, Number: number}
		for i, name := range names {
			a.Step.Sends = append(a.Step.Sends, mailroom.Send{Name: name, Thread: "u",
				Parts: mailroom.Text(names[len(names)-1] + names[i])})
		}
		_, err := d.Append(t.Context(), a)
		return err
	}
	if err := send(1, "a"); err != nil {
		t.Fatal(err)
	}
	log, other := d.kinds("t"), d.kinds("u")
	wantCode(t, send(2, "b", "a", "c"), mailroom.CodeConflict) // send "a" has another text
	wantEqual(t, "logs", []string{d.kinds("t"), d.kinds("u")}, []string{log, other})
	if err := send(2, "b"); err != nil {
		t.Fatal(err)
	}
	d.settle(complete(c, "ok"))
}

func TestANameOfASendIsBoundToOneThread(t *testing.T) {
	for _, first := range []string{"u", "t", ""} { // another thread, the run's own thread, a new thread
		others := slices.DeleteFunc([]string{"u", "v", "t", ""}, func(id string) bool { return id == first })
		t.Run(fmt.Sprintf("first to %q", first), func(t *testing.T) { checkOneThreadPerSend(t, first, others) })
	}
}

func checkOneThreadPerSend(t *testing.T, first string, others []string) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	send := func(number int, threadID string) error {
		_, err := d.Append(t.Context(), thread.StepCommit{Claim: c, Number: number, Step: mailroom.Step{
			Sends: []mailroom.Send{{Name: "one", Thread: threadID, Parts: mailroom.Text("hi")}},
		}})
		return err
	}
	if err := send(1, first); err != nil {
		t.Fatal(err)
	}
	for _, other := range others {
		wantCode(t, send(2, other), mailroom.CodeConflict)
	}
	if err := send(2, first); err != nil {
		t.Fatal(err)
	}
	d.settle(complete(c, "ok"))
}

func TestAStepWhoseResponseWasLostIsWrittenOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	a := thread.StepCommit{Claim: c, Number: 1, Message: partialText(c, "I look"), Step: mailroom.Step{
		Name: "look", Sends: []mailroom.Send{{Name: "one", Thread: "u", Parts: mailroom.Text("hi")}},
	}}
	first := must(d.Append(t.Context(), a))(t)
	log := d.kinds("t")
	wantEqual(t, "seq", must(d.Append(t.Context(), a))(t), first)
	wantEqual(t, "log", d.kinds("t"), log)
	s := complete(c, "done")
	s.Number = 2
	d.settle(s)
	log = d.kinds("t")
	wantEqual(t, "status", d.settle(s).Status, mailroom.StatusCompleted)
	wantEqual(t, "log", d.kinds("t"), log)
}

func TestAThreadContinuesAfterADeadLetterThatIsRetriedLater(t *testing.T) {
	d := open(t, nil, ledger.Options{Version: func(string) string { return "v2" }})
	d.register("w")
	dead := d.submit(text("t", "bad")).Run
	next := d.submit(text("t", "good")).Run
	d.settle(failure(d.claimOne("w").Claim, mailroom.ClassPermanent))
	var failed []string
	d.view(func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}})
		for _, run := range runs {
			failed = append(failed, run.ID+": "+run.Error.Message)
		}
		return err
	})
	wantEqual(t, "dead letters", failed, []string{dead + ": no luck"})
	must(d.Retry(t.Context(), thread.Retry{Run: dead, By: "ann"}))(t)
	wantEqual(t, "order", d.serve("w"), []string{next, dead})
	wantEqual(t, "attempts", d.run(dead).Attempt, 2)
}
