package ledger_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

func TestRunsThatNoWorkerTakesEndAtTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		must(d.PauseAgent(d.ctx, store.Pause{Agent: "echo", By: "ann"}))(t)
		var runs []string
		for i := range 250 { // more than one batch
			in := text(fmt.Sprint("t", i%7), "hello")
			in.Timeout = time.Minute
			runs = append(runs, d.submit(in).Run)
		}
		open := d.submit(text("t0", "without")).Run
		<-time.After(time.Minute)
		d.sweep()
		for _, id := range runs {
			if r := d.run(id); r.Status != mailroom.StatusCancelled || r.Reason != mailroom.ReasonDeadline || r.Attempt != 0 {
				t.Fatalf("run %s is %s, %s, at attempt %d", id, r.Status, r.Reason, r.Attempt)
			}
		}
		wantEqual(t, "the run without a deadline", d.run(open).Status, mailroom.StatusQueued)
	})
}

func TestADeadlineHoldsOverRetriesWaitsAndRestartsOnEachStore(t *testing.T) {
	for name, s := range kindsOfStores(t) {
		t.Run(name, func(t *testing.T) {
			d := open(t, s, ledger.Options{})
			in := func(threadID string) thread.Submit {
				in := text(threadID, "hello")
				in.Timeout = time.Second
				return in
			}
			retried, held, waiting, queued := d.submit(in("a")).Run, d.submit(in("b")).Run, d.submit(in("c")).Run,
				d.submit(in("d")).Run
			d.register("w")
			for _, one := range d.claim("w", 3) {
				switch one.Run.ID {
				case retried:
					d.settle(failure(one.Claim, mailroom.ClassUnavailable))
				case waiting:
					d.settle(thread.Settle{
						Claim: one.Claim, Outcome: thread.OutcomePark, Wait: &mailroom.Wait{Names: []string{"q"}},
						Asks: []mailroom.Ask{{Name: "q", Kind: mailroom.TicketApproval, Prompt: "may I?"}},
					})
				}
			}
			if err := d.close(); err != nil {
				t.Fatal(err)
			}
			d = open(t, s, ledger.Options{})
			// the clock of the store ends the wait
			for d.run(queued).Status != mailroom.StatusCancelled || d.run(held).Stop == "" {
				d.sweep()
			}
			for _, id := range []string{retried, waiting, queued} {
				wantEqual(t, "status and reason", []any{d.run(id).Status, d.run(id).Reason},
					[]any{mailroom.StatusCancelled, mailroom.ReasonDeadline})
			}
			wantEqual(t, "stop of the run at work", d.run(held).Stop, mailroom.ReasonDeadline)
			d.expireWorker("w")
			wantEqual(t, "its end", d.run(held).Reason, mailroom.ReasonDeadline)
		})
	}
}
