package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

func (d *fixture) pausedAgents() (all []string) {
	for _, p := range must(d.Pauses(d.ctx))(d.t) {
		all = append(all, p.Agent)
	}
	return all
}

func (d *fixture) complete(a thread.ClaimedRun) {
	d.settle(thread.Settle{Claim: a.Claim, Number: 1, Outcome: thread.OutcomeComplete})
}

// A worker whose machine has no login fails one run, which another worker answers at once, with all others. The worker
// itself probes, and is used again after the login.
func TestAFaultOfOneWorkerKeepsNoRunFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("broken", "fine")
		for _, name := range []string{"a", "b", "c"} {
			d.submit(text(name, "hello"))
		}
		first := d.claim("broken", 1)[0]
		d.fail(first, loggedOut())
		wantEqual(t, "pauses", d.pausedAgents(), []string{"echo@broken"})
		<-time.After(time.Second)
		wantEqual(t, "runs of the broken worker", len(d.claim("broken", 5)), 0)
		work := d.claim("fine", 5)
		wantEqual(t, "runs of the other one", len(work), 3)
		for _, a := range work {
			d.complete(a)
		}
		if r := d.run(first.Run.ID); r.Status != mailroom.StatusCompleted || r.Failures != 0 {
			t.Errorf("the run is %s with %d failures", r.Status, r.Failures)
		}
		attempts := 0
		for range 120 {
			d.submit(text("a", "again"))
			<-time.After(time.Minute)
			d.renew("broken", 1)
			d.renew("fine", 1)
			for _, a := range d.claim("broken", 5) {
				attempts++
				d.fail(a, loggedOut())
			}
			<-time.After(time.Second)
			for _, a := range d.claim("fine", 5) {
				d.complete(a)
			}
		}
		if attempts < 4 || attempts > 12 {
			t.Errorf("the broken worker probed %d times in two hours", attempts)
		}
		d.submit(text("z", "after the login"))
		<-time.After(31 * time.Minute)
		d.renew("broken", 1)
		d.complete(d.claim("broken", 1)[0])
		wantEqual(t, "pauses after a success", len(d.pausedAgents()), 0)
	})
}

// Once no other worker is left, the agent is paused as a whole. The worker that works again starts all runs; the other
// one stays out.
func TestTheLastWorkerWithAFaultPausesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("one", "two")
		d.submit(text("a", "hello"))
		d.submit(text("b", "hello"))
		d.fail(d.claim("one", 1)[0], loggedOut())
		d.fail(d.claim("two", 1)[0], loggedOut())
		wantEqual(t, "pauses", d.pausedAgents(), []string{"echo", "echo@one"})
		<-time.After(2 * time.Minute)
		d.renew("one", 1)
		d.renew("two", 1)
		d.complete(d.claim("two", 1)[0])
		wantEqual(t, "pauses after the login of one", d.pausedAgents(), []string{"echo@one"})
		must(0, d.ResumeAgent(d.ctx, "echo"))(t)
		wantEqual(t, "pauses after a person resumed it", len(d.pausedAgents()), 0)
		wantEqual(t, "runs of the first worker", len(d.claim("one", 5)), 1)
		if err := d.ResumeAgent(d.ctx, "echo"); mailroom.CodeOf(err) != mailroom.CodeConflict {
			t.Errorf("resumed twice: %v", err)
		}
	})
}

// The claim of a worker that is kept out does not delay the claim of another one that waits beside it.
func TestAWorkerThatIsKeptOutDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Poll: time.Hour})
		d.register("broken", "w")
		run := d.submit(text("a", "hello")).Run
		d.fail(d.claimOne("broken"), loggedOut())
		<-time.After(time.Second)
		go func() {
			_, _ = d.Claim(t.Context(), thread.ClaimRequest{Worker: "broken", Round: 9, Slots: 1,
				Agents: map[string]int{"echo": 1}, LastAttempt: true, Wait: true})
		}()
		synctest.Wait()
		begin := time.Now()
		work := <-startClaimer(t.Context(), d, "echo", 1)
		wantEqual(t, "run", work[0].Run.ID, run)
		wantEqual(t, "after", time.Since(begin), 0)
	})
}

// A pause on a worker says why its runs wait once no other worker is left, and goes with the worker's row.
func TestAPauseOnAWorkerEndsWithTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("broken", "fine")
		d.submit(text("a", "hello"))
		d.fail(d.claimOne("broken"), loggedOut())
		for range 10 { // the other one ends
			<-time.After(5 * time.Second)
			d.renew("broken", 1)
			must(0, d.Sweep(d.ctx, "broken"))(t)
		}
		d.view(func(r store.Reader) error {
			runs, err := r.Runs(store.RunQuery{Thread: "a"})
			blocked, err2 := ledger.WaitsFor(r, r.Now(), runs, nil)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			b := blocked[runs[0].ID]
			if len(b) != 1 || b[0].Cause != thread.CausePause || b[0].Pause.Reason == "" || b[0].Until.IsZero() {
				t.Errorf("the run waits for %+v, want the pause", b)
			}
			return nil
		})
		<-time.After(48 * time.Hour)
		d.register("new")
		must(0, d.Sweep(d.ctx, "new"))(t)
		must(0, d.Sweep(d.ctx, "new"))(t)
		wantEqual(t, "pauses", len(d.pausedAgents()), 0)
		wantEqual(t, "runs of a new worker", len(d.claim("new", 5)), 1)
	})
}
