package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

func (d *fixture) sweep() {
	d.t.Helper()
	if err := d.Sweep(d.ctx, ""); err != nil {
		d.t.Fatal(err)
	}
}

func (d *fixture) renew(worker string, round int64, held ...mailroom.Claim) thread.Renewed {
	d.t.Helper()
	return must(d.Renew(d.ctx, thread.Renewal{Worker: worker, Round: round, Held: held}))(d.t)
}

func (d *fixture) deregister(worker string) {
	d.t.Helper()
	if err := d.Deregister(d.ctx, thread.Leave{Worker: worker}); err != nil {
		d.t.Fatal(err)
	}
}

// expireWorker ends a worker's lease and revokes its claims.
func (d *fixture) expireWorker(worker string) {
	d.t.Helper()
	d.deregister(worker)
	d.sweep()
}

func (d *fixture) flush(c mailroom.Claim, offset int, s string) {
	d.t.Helper()
	p := store.Partial{Message: partialText(c, "").ID, Offset: offset, Text: s}
	if err := d.Flush(d.ctx, c, p); err != nil {
		d.t.Fatal(err)
	}
}

func TestAClaimIsRevokedOnlyAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Lease: 15 * time.Second})
		d.register("w")
		d.register("other")
		d.submit(text("t", "hello"))
		first := d.claimOne("w")
		d.sweep()
		<-time.After(15 * time.Second)
		d.renew("other", 1)
		d.sweep()
		wantEqual(t, "at its end", d.thread("t").Worker, "w")
		<-time.After(time.Microsecond)
		d.sweep()
		again := d.claimOne("other")
		wantEqual(t, "claim", again.Claim, mailroom.Claim{Thread: "t", Run: first.Run.ID, Attempt: 2})
		wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.started, run.rescheduled, run.started")
	})
}

func TestARenewalExtendsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{Lease: 15 * time.Second})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		for range 5 {
			<-time.After(14 * time.Second)
			out := d.renew("w", 1, c)
			wantEqual(t, "until", time.Until(out.Until), 15*time.Second)
			d.sweep()
		}
		wantEqual(t, "worker", d.thread("t").Worker, "w")
		d.settle(complete(c, "ok"))
	})
}

// between calls a function after the next View, as another process may work between two transactions.
type between struct {
	store.Store
	then func()
}

func (b *between) View(ctx context.Context, f func(store.Reader) error) error {
	err := b.Store.View(ctx, f)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return err
}

func TestAWorkerThatRenewsWhileASweepLooksKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &between{Store: memory.New()}
		d := open(t, rows, ledger.Options{Lease: 15 * time.Second})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		<-time.After(time.Minute)
		rows.then = func() { d.renew("w", 1, c) }
		d.sweep()
		wantEqual(t, "lost", d.renew("w", 1, c).Lost, nil)
		d.settle(complete(c, "ok"))
	})
}

func TestALeaseIsHeldUntilItIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		<-time.After(time.Hour) // without a sweep
		wantEqual(t, "lost", d.renew("w", 1, c).Lost, nil)
		<-time.After(time.Hour)
		d.settle(complete(c, "ok"))
	})
}

func TestASweepKeepsTheLeaseOfTheWorkerThatSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		c := d.claimOne("w").Claim
		<-time.After(8 * time.Hour) // as after the sleep of a laptop
		if err := d.Sweep(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		d.settle(complete(c, "ok"))
	})
}

func TestADeadWorkerCannotRenewOrClaimOrComeBack(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	d.deregister("w")
	_, err := d.Renew(t.Context(), thread.Renewal{Worker: "w"})
	wantCode(t, err, mailroom.CodeLeaseLost)
	_, err = d.Claim(t.Context(), thread.ClaimRequest{Worker: "w", Slots: 1, Agents: map[string]int{"echo": 1}})
	wantCode(t, err, mailroom.CodeLeaseLost)
	_, err = d.Register(t.Context(), store.Worker{ID: "w"})
	wantCode(t, err, mailroom.CodeConflict)
}

func TestAClaimWhoseResponseWasLostIsReleasedByTheNextRenewal(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	for _, thread := range []string{"a", "b", "c"} {
		d.submit(text(thread, "hello"))
	}
	held := d.claim("w", 1)[0] // round 1
	lost := d.claim("w", 1)[0] // round 2, whose response is lost
	next := d.claim("w", 1)[0] // round 3, whose response is in flight
	d.renew("w", 2, held.Claim)
	for _, c := range []struct {
		work thread.ClaimedRun
		want mailroom.Status
	}{{held, mailroom.StatusRunning}, {lost, mailroom.StatusQueued}, {next, mailroom.StatusRunning}} {
		wantEqual(t, "thread "+c.work.Claim.Thread, d.run(c.work.Run.ID).Status, c.want)
	}
	r := d.run(lost.Run.ID)
	wantEqual(t, "crashes and lost", []int{r.Crashes, r.Lost}, []int{0, 0})
	wantEqual(t, "claimable at once", d.claimOne("w").Claim, mailroom.Claim{Thread: "b", Run: lost.Run.ID, Attempt: 2})
}

// A worker with several slots that renews while it claims does not know yet what it holds.
func TestARenewalThatKeepsReleasesNothingAndNamesAllClaims(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w", "other")
	d.submit(text("a", "hello"))
	d.submit(text("b", "hello"))
	first, second := d.claim("w", 1)[0], d.claim("w", 1)[0]
	d.submit(text("c", "hello"))
	d.claim("other", 1)
	must(d.Cancel(d.ctx, second.Claim.Run, "ann"))(t)
	got := must(d.Renew(d.ctx, thread.Renewal{Worker: "w", Keep: true}))(t)
	slices.SortFunc(got.Claims, func(a, b mailroom.Claim) int { return strings.Compare(a.Thread, b.Thread) })
	wantEqual(t, "claims", got.Claims, []mailroom.Claim{first.Claim, second.Claim})
	wantEqual(t, "stops", got.Stops, []thread.Stop{{Run: second.Claim.Run, Reason: mailroom.ReasonCancelled}})
	wantRun(d, first.Claim.Run, mailroom.StatusRunning)
	d.settle(complete(first.Claim, "done"))
	got = must(d.Renew(d.ctx, thread.Renewal{Worker: "w", Keep: true}))(t)
	wantEqual(t, "claims after a settle", got.Claims, []mailroom.Claim{second.Claim})
}

// An agent that ignores its stop still works on its attempt when the worker claims the run again, after a retry.
func TestAWorkerMayHoldTwoAttemptsOfARun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	old := d.claimOne("w").Claim
	must(d.Cancel(d.ctx, old.Run, "ann"))(t)
	d.settle(release(old))
	must(d.Retry(d.ctx, thread.Retry{Run: old.Run, By: "ann"}))(t)
	next := d.claimOne("w").Claim
	for _, held := range [][]mailroom.Claim{{old, next}, {next, old}} {
		out := d.renew("w", 2, held...)
		wantEqual(t, "lost", out.Lost, []mailroom.Claim{old})
		wantEqual(t, "worker", d.thread("t").Worker, "w")
		wantEqual(t, "attempt", d.run(next.Run).Attempt, next.Attempt)
	}
	d.settle(complete(next, "done"))
}

func TestARenewalNamesAttemptsNotRuns(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	old := d.claimOne("w").Claim
	d.settle(release(old))
	d.claimOne("w") // the response is lost
	out := d.renew("w", 2, old)
	wantEqual(t, "lost", out.Lost, []mailroom.Claim{old})
	wantEqual(t, "status", d.run(old.Run).Status, mailroom.StatusQueued)
}

func TestARenewalReportsTheStateOfItsClaims(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	for _, thread := range []string{"fine", "gone", "steered", "stopped"} {
		d.submit(text(thread, "hello"))
	}
	claims := map[string]mailroom.Claim{}
	var held []mailroom.Claim
	for _, w := range d.claim("w", 4) {
		claims[w.Claim.Thread] = w.Claim
		held = append(held, w.Claim)
	}
	d.settle(complete(claims["gone"], "ok"))
	d.submit(mode(mailroom.ModeSteer, "steered", "and this"))
	must(d.Cancel(t.Context(), claims["stopped"].Run, "ann"))(t)
	out := d.renew("w", 1, held...)
	wantEqual(t, "lost", out.Lost, []mailroom.Claim{claims["gone"]})
	wantEqual(t, "stops", out.Stops, []thread.Stop{{Run: claims["stopped"].Run, Reason: mailroom.ReasonCancelled}})
	wantEqual(t, "steer", out.Steer, []string{claims["steered"].Run})
	for _, c := range []string{"fine", "steered", "stopped"} {
		d.settle(complete(claims[c], "ok"))
	}
}

func TestAReleasedRunIsClaimableAtOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	d.settle(release(d.claimOne("w").Claim))
	wantEqual(t, "attempt", d.claimOne("w").Claim.Attempt, 2)
}

func TestPartialTextIsKeptWhenTheWorkerIsLost(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	d.flush(c, 0, "Hello, ")
	d.flush(c, 7, "wor")
	d.expireWorker("w")
	wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.started, message, run.rescheduled")
	var m mailroom.Message
	if err := d.log("t")[3].Decode(&m); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "message", []any{m.ID, m.Text, m.Partial}, []any{partialText(c, "").ID, "Hello, wor", true})
}

func TestAStoppedRunWhoseWorkerDiesEndsCancelled(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "hello"))
	c := d.claimOne("w").Claim
	d.flush(c, 0, "Hello")
	wantEqual(t, "status", must(d.Cancel(t.Context(), out.Run, "ann"))(t).Status, mailroom.StatusRunning)
	d.expireWorker("w")
	wantEqual(t, "status", d.run(out.Run).Status, mailroom.StatusCancelled)
	wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.started, run.stop_requested, message, run.cancelled")
}

func TestARunThatKillsThreeWorkersIsADeadLetterAndTheOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		poison := d.submit(text("poison", "hello")).Run
		const companions = 199
		for i := range companions {
			d.submit(text(fmt.Sprint("t", i), "hello"))
		}
		// Each start of the crashing run kills its worker with all claims.
		done := 0
		for n := 0; done < companions; n++ {
			if n > companions+3 {
				t.Fatalf("%d other runs are completed after %d workers, want all", done, n)
			}
			worker := fmt.Sprint("w", n)
			d.register(worker)
			died := false
			var held []thread.ClaimedRun
			d.round++
			for _, w := range must(d.Claim(d.ctx, thread.ClaimRequest{
				Worker: worker, Round: d.round, Slots: 300, Agents: map[string]int{"echo": 300}, LastAttempt: true,
			}))(t) {
				died = died || w.Run.ID == poison
				held = append(held, w)
			}
			for _, w := range held {
				if !died {
					d.settle(complete(w.Claim, "ok"))
					done++
				}
			}
			d.expireWorker(worker)
			<-time.After(5 * time.Second)
		}
		r := d.run(poison)
		wantEqual(t, "status and class", []any{r.Status, r.Error.Class, r.Attempt},
			[]any{mailroom.StatusFailed, mailroom.ClassCrashed, 3})
	})
}

func TestARestartDoesNotWaitForTheLease(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{})
	must(d.Register(t.Context(), store.Worker{ID: "local", Local: true}))(t)
	must(d.Register(t.Context(), store.Worker{ID: "remote"}))(t)
	d.submit(text("a", "hello"))
	d.submit(text("b", "hello"))
	mine, theirs := d.claim("local", 1)[0].Claim, d.claim("remote", 1)[0].Claim
	if err := d.close(); err != nil { // as if killed: nothing is released
		t.Fatal(err)
	}
	d = open(t, s, ledger.Options{})
	if err := d.EndLocalWorkers(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	d.register("w")
	d.sweep()
	again := d.claimOne("w").Claim
	wantEqual(t, "claim", again, mailroom.Claim{Thread: mine.Thread, Run: mine.Run, Attempt: 2})
	d.settle(complete(theirs, "a remote worker keeps its claim"))
}

func TestCrashesThatNoRunCausedMakeNoDeadLetter(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{})
	id := d.submit(text("a", "hello")).Run
	die := func(uncharged bool) {
		t.Helper()
		worker := ledger.NewID()
		must(d.Register(t.Context(), store.Worker{ID: worker, Local: true}))(t)
		d.claimOne(worker)
		if err := d.close(); err != nil { // as if killed: nothing is released
			t.Fatal(err)
		}
		d = start(t, s, ledger.Options{})
		if err := d.EndLocalWorkers(t.Context(), uncharged); err != nil {
			t.Fatal(err)
		}
		if err := d.close(); err != nil { // killed before the sweep: the store has the mark
			t.Fatal(err)
		}
		d = start(t, s, ledger.Options{})
		if err := d.EndLocalWorkers(t.Context(), !uncharged); err != nil { // a later mark does not change it
			t.Fatal(err)
		}
		d.sweep()
	}
	for range mailroom.MaxCrashes {
		die(true)
	}
	r := d.run(id)
	wantEqual(t, "status, crashes, lost", []any{r.Status, r.Crashes, r.Lost},
		[]any{mailroom.StatusQueued, 0, mailroom.MaxCrashes})
	die(false)
	r = d.run(id)
	wantEqual(t, "after one that a run caused", []any{r.Status, r.Crashes, r.Lost},
		[]any{mailroom.StatusQueued, 1, mailroom.MaxCrashes + 1})
}

func TestTheRowOfADeadWorkerIsDeletedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.expireWorker("w")
		workers := func() (n int) {
			d.view(func(r store.Reader) error {
				all, err := r.Workers()
				n = len(all)
				return err
			})
			return n
		}
		<-time.After(23 * time.Hour)
		d.sweep()
		wantEqual(t, "rows", workers(), 1)
		<-time.After(2 * time.Hour)
		d.sweep()
		wantEqual(t, "rows", workers(), 0)
	})
}

func TestARunOfAnAgentThatExistsNowhereFailsOnceAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		for _, agent := range []string{"configured", "served", "left", "unserved", "unserved"} {
			in := text("of "+agent, "hello")
			in.Agent = agent
			d.submit(in)
		}
		must(d.Register(d.ctx, store.Worker{ID: "w", Agents: []string{"served"}}))(t)
		must(d.Register(d.ctx, store.Worker{ID: "l", Agents: []string{"left"}}))(t)
		failed := func() (threads []string) {
			if err := d.FailOrphans(d.ctx, []string{"configured"}, time.Minute); err != nil {
				t.Fatal(err)
			}
			d.view(func(r store.Reader) error {
				runs, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}})
				for _, run := range runs {
					threads = append(threads, run.Thread)
					wantEqual(t, "error", run.Error, &mailroom.RunError{Class: mailroom.ClassPermanent,
						Message: fmt.Sprintf("no worker serves agent %q", run.Agent)})
				}
				return err
			})
			slices.Sort(threads)
			return threads
		}
		<-time.After(30 * time.Second)
		d.deregister("l")
		<-time.After(30*time.Second - time.Microsecond)
		wantEqual(t, "before the grace", failed(), nil)
		<-time.After(time.Microsecond)
		wantEqual(t, "after it", failed(), []string{"of unserved"})
		wantEqual(t, "a second time", failed(), []string{"of unserved", "of unserved"})
		<-time.After(31 * time.Second)
		wantEqual(t, "of a worker that left", failed(), []string{"of left", "of unserved", "of unserved"})
		wantEqual(t, "log", d.kinds("of left"), "message, run.queued, run.failed")
		wantEqual(t, "due", d.thread("of unserved").Due, mailroom.Due{})
	})
}

func TestARunOfAnAgentOfATokenWaitsForItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		must(d.Accounts().CreateToken(d.ctx, auth.Token{
			Name: "laptop", Sum: "1", Scopes: []auth.Permission{auth.PermissionWork}, Agents: []string{"far"},
		}))(t)
		in := text("t", "hello")
		in.Agent = "far"
		run := d.submit(in).Run
		judge := func() mailroom.Status {
			<-time.After(time.Hour)
			if err := d.FailOrphans(d.ctx, nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			return d.run(run).Status
		}
		wantEqual(t, "while the token is good", judge(), mailroom.StatusQueued)
		if err := d.Accounts().RevokeToken(d.ctx, "laptop"); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "when it was revoked", judge(), mailroom.StatusFailed)
	})
}

func TestRedundantRowsOfDeadWorkersAreDeletedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		views := 0
		d := open(t, countingViews{st, &views}, ledger.Options{})
		for i := range 500 {
			d.register(fmt.Sprint("w", i))
		}
		must(d.Register(d.ctx, store.Worker{ID: "other", Agents: []string{"coder"}}))(t)
		<-time.After(16 * time.Second)
		d.sweep()
		views = 0
		d.sweep()
		if views > 4 { // of workers, overruns, deadlines and deleted threads, however many are dead
			t.Errorf("a sweep of 501 dead workers makes %d views", views)
		}
		rows := func() (n int) {
			d.view(func(r store.Reader) error {
				all, err := r.Workers()
				n = len(all)
				return err
			})
			return n
		}
		wantEqual(t, "rows", rows(), 501)
		<-time.After(10 * time.Minute)
		d.sweep()
		wantEqual(t, "rows after a while", rows(), 2)
		if _, err := d.Renew(d.ctx, thread.Renewal{Worker: "w0"}); mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
			t.Errorf("Renew of a worker without a row: %v", err)
		}
	})
}

// countingViews counts the views of a store.
type countingViews struct {
	store.Store
	n *int
}

func (s countingViews) View(ctx context.Context, f func(store.Reader) error) error {
	*s.n++
	return s.Store.View(ctx, f)
}
