package ledger_test

import (
	"testing"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/thread"
)

// message tells the text and the present state of a message.
func (d *fixture) message(id string) []string {
	d.t.Helper()
	m := must(d.Message(d.ctx, "t", id))(d.t)
	wantEqual(d.t, "id", m.ID, id)
	return []string{m.Text, m.State}
}

func TestTheStateAndTextOfAMessageFollowItsRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "hello"))
	wantEqual(t, "submitted", d.message(out.Message), []string{"hello", mailroom.MessageAccepted})
	edited := must(d.Edit(t.Context(), "t", out.Message, mailroom.Text("hi")))(t)
	wantEqual(t, "edited", []string{edited.ID, edited.Text}, []string{out.Message, "hi"})
	c := d.claimOne("w").Claim
	wantEqual(t, "claimed", d.message(out.Message), []string{"hi", mailroom.MessageDelivered})
	must(d.Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Message: partialText(c, "well")}))(t)
	wantEqual(t, "after a step", d.message(out.Message), []string{"hi", mailroom.MessageRead})
	d.settle(thread.Settle{Claim: c, Outcome: thread.OutcomeComplete})
	wantEqual(t, "done", d.message(out.Message), []string{"hi", mailroom.MessageDone})
	wantEqual(t, "what the agent wrote", d.message(partialText(c, "").ID), []string{"well", mailroom.MessageDone})
}

func TestASteeredMessageOverItsLife(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	c := d.claimOne("w").Claim
	three := mode(mailroom.ModeSteer, "t", "one")
	three.Messages = append(three.Messages, thread.NewMessage{Parts: mailroom.Text("two")},
		thread.NewMessage{Parts: mailroom.Text("three")})
	last := d.submit(three)
	run := last.Message[:36] // the run that they would become
	one, two, three3 := run+".4", run+".5", run+".6"
	wantEqual(t, "last message", last.Message, three3)
	wantEqual(t, "submitted", d.message(one), []string{"one", mailroom.MessageAccepted})
	must(d.Edit(t.Context(), "t", one, mailroom.Text("eins")))(t)
	wantEqual(t, "edited", d.message(one), []string{"eins", mailroom.MessageAccepted})
	if err := d.Retract(t.Context(), "t", two); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "retracted", d.message(two), []string{"two", mailroom.MessageRetracted})
	handed := must(d.MarkSteersRead(t.Context(), c))(t)
	wantEqual(t, "handed over", len(handed), 2)
	wantEqual(t, "handed over", d.message(one), []string{"eins", mailroom.MessageRead})
	must(d.Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Covers: max(handed[0].Seq, handed[1].Seq)}))(t)
	wantEqual(t, "covered", d.message(one), []string{"eins", mailroom.MessageRead})
	d.settle(complete(c, "ok"))
	wantEqual(t, "done", d.message(one), []string{"eins", mailroom.MessageDone})
	wantEqual(t, "still retracted", d.message(two), []string{"two", mailroom.MessageRetracted})
}

func TestAMessageThatResumedARunCanBeEditedUntilItIsRead(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	d.settle(park(d.claimOne("w").Claim, nil, mailroom.Ask{Name: "q", Kind: mailroom.TicketEvent}))
	answer := d.submit(text("t", "yes")).Message
	must(d.Edit(t.Context(), "t", answer, mailroom.Text("no")))(t)
	wantEqual(t, "edited", d.message(answer), []string{"no", mailroom.MessageAccepted})
	c := d.claimOne("w").Claim
	wantEqual(t, "claimed", d.message(answer)[0], "no")
	d.settle(complete(c, "ok"))
	wantEqual(t, "done", d.message(answer), []string{"no", mailroom.MessageDone})
}

// A purge takes a run with its first entry. What joined it behind the entries of
// another that is open stays in the log, and is told as it was.
func TestAMessageThatOutlivesItsRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	collect := func(s string) string { return d.submit(mode(mailroom.ModeCollect, "t", s)).Message }
	first := text("t", "one")
	first.Agent = "echo"
	run := d.submit(first).Run
	other := text("t", "of another agent")
	other.Agent, other.NotBefore = "codex", time.Now().Add(time.Hour)
	d.submit(other)
	d.patchAgent("echo")
	edited, retracted := collect("two"), collect("three")
	must(d.Edit(t.Context(), "t", edited, mailroom.Text("zwei")))(t)
	must(0, d.Retract(t.Context(), "t", retracted))(t)
	d.settle(complete(d.claimOne("w").Claim, "ok"))
	want := [][]string{d.message(edited), d.message(retracted)}
	must(0, d.Purge(t.Context(), "t", 0))(t)
	wantEqual(t, "runs left", len(d.runsOf(run)), 0)
	wantEqual(t, "told after the purge", [][]string{d.message(edited), d.message(retracted)}, want)
	wantEqual(t, "told before", want, [][]string{{"zwei", mailroom.MessageDone}, {"three", mailroom.MessageRetracted}})
}

func (d *fixture) patchAgent(agent string) {
	d.t.Helper()
	must(d.PatchThread(d.ctx, "t", thread.Patch{Agent: &agent}))(d.t)
}

func TestASteeredMessageThatBecameARun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	c := d.claimOne("w").Claim
	s := d.submit(mode(mailroom.ModeSteer, "t", "left"))
	d.settle(complete(c, "ok"))
	wantEqual(t, "queued", d.message(s.Message), []string{"left", mailroom.MessageAccepted})
	must(d.Edit(t.Context(), "t", s.Message, mailroom.Text("right")))(t)
	wantEqual(t, "served", len(d.serve("w")), 1)
	wantEqual(t, "done", d.message(s.Message), []string{"right", mailroom.MessageDone})
}

func TestASupersededMessage(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	c := d.claimOne("w").Claim
	queued, steered := d.submit(text("t", "a")), d.submit(mode(mailroom.ModeSteer, "t", "b"))
	d.submit(mode(mailroom.ModeInterrupt, "t", "stop"))
	wantEqual(t, "queued", d.message(queued.Message), []string{"a", mailroom.MessageSuperseded})
	wantEqual(t, "steered", d.message(steered.Message), []string{"b", mailroom.MessageSuperseded})
	d.settle(release(c))
	wantEqual(t, "served", len(d.serve("w")), 1)
}

func TestOnlyAnUnreadMessageCanBeChanged(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	steered := d.submit(mode(mailroom.ModeSteer, "t", "left"))
	must(d.MarkSteersRead(t.Context(), c))(t)
	must(d.Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Message: partialText(c, "well"),
		Covers: steered.Seq}))(t)
	other := d.submit(text("u", "elsewhere"))
	log := d.kinds("t")
	for id, want := range map[string]mailroom.Code{
		out.Message:           mailroom.CodeConflict,
		steered.Message:       mailroom.CodeConflict,
		partialText(c, "").ID: mailroom.CodeConflict,
		out.Run + ".99":       mailroom.CodeNotFound,
		out.Run + ".2":        mailroom.CodeNotFound, // an entry, but no message
		out.Run + ".1-99":     mailroom.CodeNotFound,
		other.Message:         mailroom.CodeNotFound,
		"nonsense":            mailroom.CodeNotFound,
		"":                    mailroom.CodeNotFound,
	} {
		_, err := d.Edit(t.Context(), "t", id, mailroom.Text("late"))
		if mailroom.CodeOf(err) != want {
			t.Errorf("edit %q: got error %v, want code %q", id, err, want)
		}
		if err := d.Retract(t.Context(), "t", id); mailroom.CodeOf(err) != want {
			t.Errorf("retract %q: got error %v, want code %q", id, err, want)
		}
		if _, err := d.Message(t.Context(), "t", id); want == mailroom.CodeNotFound && mailroom.CodeOf(err) != want {
			t.Errorf("message %q: got error %v, want code %q", id, err, want)
		}
	}
	wantEqual(t, "log", d.kinds("t"), log)
	_, err := d.Edit(t.Context(), "nowhere", out.Message, mailroom.Text("late"))
	wantCode(t, err, mailroom.CodeNotFound)
}
