package ledger_test

import (
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/storetest"
	"mailroom/thread"
)

func TestDeletingAThreadDeletesAllItsRows(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	in := text("t", "hello")
	in.Key = "k"
	out := d.submit(in)
	wantCode(t, d.DeleteThread(t.Context(), "t", nil), mailroom.CodeConflict)
	c := d.claimOne("w").Claim
	wantCode(t, d.DeleteThread(t.Context(), "t", nil), mailroom.CodeConflict)
	d.flush(c, 0, "He")
	d.settle(complete(c, "Hello"))
	if err := d.DeleteThread(t.Context(), "t", nil); err != nil {
		t.Fatal(err)
	}
	wantCode(t, d.DeleteThread(t.Context(), "t", nil), mailroom.CodeNotFound)
	if d.thread("t") != nil || len(d.log("t")) > 0 {
		t.Error("rows of the thread remain")
	}
	_, err := d.Cancel(t.Context(), out.Run, "ann")
	wantCode(t, err, mailroom.CodeNotFound)

	again := d.submit(in)
	wantEqual(t, "the key is new again", []any{again.Disposition, again.Seq, again.Place},
		[]any{store.DispositionQueued, int64(1), int64(1)})
}

func TestMissingObjectsAreNotFound(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "hello"))
	agent := "codex"
	for name, f := range map[string]func() error{
		"cancel":    func() error { _, err := d.Cancel(t.Context(), "unknown", "ann"); return err },
		"retry":     func() error { _, err := d.Retry(t.Context(), thread.Retry{Run: "unknown"}); return err },
		"interrupt": func() error { _, err := d.Interrupt(t.Context(), "nowhere", ann()); return err },
		"patch": func() error {
			_, err := d.PatchThread(t.Context(), "nowhere", thread.Patch{Agent: &agent})
			return err
		},
		"delete":  func() error { return d.DeleteThread(t.Context(), "nowhere", nil) },
		"retract": func() error { return d.Retract(t.Context(), "nowhere", "x.1") },
		"message": func() error { _, err := d.Message(t.Context(), "t", "unknown.1"); return err },
	} {
		if err := f(); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("%s: got error %v, want not_found", name, err)
		}
	}
	if d.thread("nowhere") != nil {
		t.Error("a refused operation created a thread")
	}
}

func TestAThreadIsPatched(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "hello"))
	agent := "codex"
	row := must(d.PatchThread(t.Context(), "t", thread.Patch{Agent: &agent, Metadata: []byte(`{"title":"x"}`)}))(t)
	wantEqual(t, "row", []string{row.Agent, string(row.Metadata)}, []string{"codex", `{"title":"x"}`})
	wantEqual(t, "stored", d.thread("t"), row)
	wantEqual(t, "agent of the next run", d.run(d.submit(text("t", "again")).Run).Agent, "codex")
}

func TestInterrupt(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	running := d.submit(text("t", "a")).Run
	c := d.claimOne("w").Claim
	queued := d.submit(text("t", "b")).Run
	out := must(d.Interrupt(t.Context(), "t", ann()))(t)
	wantEqual(t, "answer", out, thread.Interrupted{Superseded: []string{queued}, Stopping: &running})
	d.settle(release(c))
	wantEqual(t, "status", []any{d.run(running).Status, d.run(running).Reason},
		[]any{mailroom.StatusCancelled, mailroom.ReasonInterrupted})
	out = must(d.Interrupt(t.Context(), "t", ann()))(t)
	wantEqual(t, "of an idle thread", out, thread.Interrupted{Superseded: []string{}})
}

func TestTheReplacementIsDurableBeforeAnythingIsStopped(t *testing.T) {
	store := newControlledStore(nil)
	d := open(t, store, ledger.Options{})
	d.register("w")
	d.submit(text("t", "a"))
	c := d.claimOne("w").Claim
	d.submit(text("t", "b"))
	before := len(d.log("t"))
	instead := mode(mailroom.ModeInterrupt, "t", "instead")
	store.setFaults(storetest.Fault{Kind: storetest.FailBefore})
	_, err := d.Submit(t.Context(), instead)
	wantCode(t, err, mailroom.CodeUnavailable)
	wantEqual(t, "entries after a commit that failed", len(d.log("t")), before)
	wantEqual(t, "stop after it", d.run(c.Run).Stop, "")
	store.updates()
	out := d.submit(instead)
	wantEqual(t, "commits", store.updates(), 1)
	var kinds []string
	for _, e := range d.log("t")[before:] {
		kinds = append(kinds, e.Kind)
	}
	wantEqual(t, "log", kinds, []string{"message", "run.queued", "run.cancelled", "run.stop_requested"})
	wantEqual(t, "claimable before the end", len(d.claim("w", 1)), 0)
	d.settle(release(c))
	wantEqual(t, "served", d.serve("w"), []string{out.Run})
}

func TestACancelledRunStaysReadable(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	out := d.submit(text("t", "hello"))
	r := must(d.Cancel(t.Context(), out.Run, "ann"))(t)
	wantEqual(t, "answer", []any{r.Status, r.Reason}, []any{mailroom.StatusCancelled, mailroom.ReasonCancelled})
	r.Stored = mailroom.StatusCancelled // the result is made before the commit
	wantEqual(t, "stored", d.run(out.Run), r)
	must(d.Cancel(t.Context(), out.Run, "ann"))(t)
	wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.cancelled")
}
