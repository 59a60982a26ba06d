package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/thread"
)

// A worker that renews its lease but never ends a run loses the claim.
func TestTheLedgerEndsTheClaimOfAWorkerThatOnlyRenews(t *testing.T) {
	for _, c := range []struct {
		name    string
		stop    func(d *fixture, run string)
		within  time.Duration
		entries string
	}{
		{"after a cancel", func(d *fixture, run string) { must(d.Cancel(d.ctx, run, "ann"))(d.t) }, 26 * time.Second,
			"message, run.queued, run.started, run.stop_requested, run.cancelled"},
		{"after an interrupt", func(d *fixture, _ string) { d.submit(mode(mailroom.ModeInterrupt, "t", "no")) }, 26 * time.Second,
			"message, run.queued, run.started, message, run.queued, run.stop_requested, run.cancelled"},
		{"at its deadline", func(*fixture, string) {}, 10*time.Minute + 26*time.Second,
			"message, run.queued, run.started, run.rescheduled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, nil, ledger.Options{
					Lease: 15 * time.Second, StopGrace: 10 * time.Second,
					Deadline: func(string) time.Duration { return 10 * time.Minute },
				})
				d.register("w")
				d.submit(text("t", "hello"))
				held := d.claimOne("w").Claim
				c.stop(d, held.Run)
				ended := false
				for end := time.Now().Add(c.within); time.Now().Before(end) && !ended; <-time.After(time.Second) {
					d.sweep()
					ended = len(d.renew("w", d.round, held).Lost) == 1
				}
				if !ended {
					t.Errorf("the claim is still valid %s later", c.within)
				}
				wantEqual(t, "log", d.kinds("t"), c.entries)
				_, err := d.Append(d.ctx, thread.StepCommit{Claim: held, Number: 1})
				wantCode(t, err, mailroom.CodeLeaseLost)
			})
		})
	}
}

// The engine of a machine that slept ends its runs itself, by a clock that stood still.
func TestASweepExtendsTheOverdueClaimsOfItsOwnWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Deadline: func(string) time.Duration { return time.Minute }})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		<-time.After(8 * time.Hour)
		must(0, d.Sweep(d.ctx, "w"))(t)
		if ends := d.run(c.Run).ClaimEnds; !ends.After(time.Now()) {
			t.Errorf("the claim ended at %s", ends)
		}
		wantEqual(t, "lost", d.renew("w", d.round, c).Lost, nil)
		d.settle(complete(c, "ok"))
	})
}

// The streamed text is kept, as at every end of an attempt.
func TestTheTextOfAnOverrunClaimIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		d.flush(c, 0, "half a sen")
		must(d.Cancel(d.ctx, c.Run, "ann"))(t)
		<-time.After(25 * time.Second)
		d.renew("w", d.round, c)
		d.sweep()
		wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.started, run.stop_requested, message, run.cancelled")
	})
}

// More claims expire at the same time than one operation ends.
func TestAllOverrunClaimsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Lease: 2 * time.Hour})
		d.register("w")
		const n = 230
		for range n {
			d.submit(text("", "hello"))
		}
		work := d.claim("w", n)
		<-time.After(3*time.Hour + 10*time.Second)
		d.sweep()
		for _, w := range work {
			if r := d.run(w.Run.ID); r.Failures != 1 {
				t.Fatalf("run %s is %s with %d failures", r.ID, r.Status, r.Failures)
			}
		}
	})
}
