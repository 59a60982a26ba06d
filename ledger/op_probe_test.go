package ledger_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// loggedOut is the failure of an agent that cannot work for any message.
func loggedOut() *mailroom.Failure {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Agent: true,
		Err: errors.New("claude failed: Please run /login")}
}

func (d *fixture) fail(a thread.ClaimedRun, f *mailroom.Failure) {
	d.settle(thread.Settle{Claim: a.Claim, Number: 1, Outcome: thread.OutcomeFail, Failure: f})
}

// TestAFaultOfTheAgentPausesItOnce lets an agent lose its login while five messages wait: one attempt is made, all
// messages stay queued, one run at a time probes, and all are answered after the login.
func TestAFaultOfTheAgentPausesItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		runs := []string{d.submit(text("a", "one")).Run}
		first := d.claimOne("w")
		for _, name := range []string{"b", "c", "d", "e"} {
			runs = append(runs, d.submit(text(name, "hello")).Run)
		}
		d.fail(first, loggedOut())
		begin := time.Now()
		pauses := must(d.Pauses(d.ctx))(t)
		if len(pauses) != 1 || pauses[0].By != "" || pauses[0].Reason != "claude failed: Please run /login" ||
			pauses[0].Probe.IsZero() {
			t.Fatalf("pauses %+v, want one of the server with the reason", pauses)
		}
		// For two days: few probes, one run each, and nothing fails.
		attempts := 0
		for time.Since(begin) < 48*time.Hour {
			<-time.After(time.Minute)
			d.renew("w", 1)
			work := d.claim("w", 5)
			if len(work) > 1 {
				t.Fatalf("%d runs started while the agent is paused, want one", len(work))
			}
			for _, a := range work {
				attempts++
				d.fail(a, loggedOut())
			}
		}
		if attempts < 48 || attempts > 48*2+8 {
			t.Errorf("%d probes in two days, want about two an hour", attempts)
		}
		for _, r := range runs {
			if got := d.run(r); got.Status != mailroom.StatusQueued || got.LastError == nil {
				t.Errorf("run %s is %s with the error %v, want queued with one", r, got.Status, got.LastError)
			}
		}
		<-time.After(31 * time.Minute)
		d.renew("w", 1)
		probe := d.claimOne("w")
		d.settle(thread.Settle{Claim: probe.Claim, Number: 1, Outcome: thread.OutcomeComplete})
		wantEqual(t, "pauses after a success", len(must(d.Pauses(d.ctx))(t)), 0)
		if got := d.claim("w", 5); len(got) != 4 {
			t.Errorf("claimed %d runs after the login, want the other 4", len(got))
		}
	})
}

// TestAProbeThatWorksForLongLetsOthersFollow claims further runs, one at a time, while the first has not ended.
func TestAProbeThatWorksForLongLetsOthersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("a", "one"))
		d.fail(d.claimOne("w"), loggedOut())
		d.submit(text("b", "two"))
		d.submit(text("c", "three"))
		for range 3 {
			<-time.After(3 * time.Minute)
			d.renew("w", 1)
			if got := d.claim("w", 5); len(got) != 1 {
				t.Fatalf("claimed %d runs, want one", len(got))
			}
			if got := d.claim("w", 5); len(got) != 0 {
				t.Fatalf("claimed %d runs at once after a probe", len(got))
			}
		}
	})
}

// TestAPersonDecidesAboutThePauseOfAnAgent pauses and resumes by hand what the server has paused.
func TestAPersonDecidesAboutThePauseOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("a", "one"))
		d.submit(text("b", "two"))
		work := d.claim("w", 2)
		d.fail(work[0], loggedOut())
		must(d.PauseAgent(d.ctx, pauseOf("echo")))(t)
		d.fail(work[1], loggedOut())
		if got := must(d.Pauses(d.ctx))(t); len(got) != 1 || got[0].By != "ann" || !got[0].Probe.IsZero() {
			t.Errorf("pauses %+v, want that of ann, without a probe", got)
		}
		<-time.After(2 * time.Hour)
		d.renew("w", 1)
		if got := d.claim("w", 5); len(got) != 0 {
			t.Errorf("%d runs of an agent started that a person has paused", len(got))
		}
		must(0, d.ResumeAgent(d.ctx, "echo"))(t)
		if got := d.claim("w", 5); len(got) != 2 {
			t.Errorf("claimed %d runs after the pause, want 2", len(got))
		}
	})
}

func TestAPauseOfTheServerOutlivesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	first := open(t, handle(t, path), ledger.Options{})
	first.register("w")
	first.submit(text("a", "one"))
	first.fail(first.claimOne("w"), loggedOut())
	want := must(first.Pauses(first.ctx))(t)
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, handle(t, path), ledger.Options{})
	got := must(next.Pauses(next.ctx))(t)
	if len(got) != 1 || got[0] != want[0] || got[0].Probe.IsZero() {
		t.Errorf("pauses %+v, want %+v", got, want)
	}
}

// TestOtherFailuresPauseNothing fails for the message and for an outage.
func TestOtherFailuresPauseNothing(t *testing.T) {
	for _, class := range []mailroom.Class{mailroom.ClassPermanent, mailroom.ClassTransient, mailroom.ClassUnavailable} {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("a", "one"))
		d.fail(d.claimOne("w"), &mailroom.Failure{Class: class, Err: errors.New("no")})
		wantEqual(t, "pauses", must(d.Pauses(d.ctx))(t), []store.Pause(nil))
	}
}
