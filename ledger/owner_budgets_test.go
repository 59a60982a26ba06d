package ledger_test

import (
	"fmt"
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

// createWithBudget makes a token whose threads have a budget of a day.
func createWithBudget(t *testing.T, d *fixture, name, day string) {
	t.Helper()
	in := account(name, "secret of "+name)
	in.Terms.Budget = limitsOf(day)
	must(d.Accounts().CreateToken(d.ctx, in))(t)
}

// of returns a submit to a thread of an owner.
func of(owner, id string) thread.Submit {
	in := text(id, "hello")
	in.Owner, in.Sender = owner, owner
	return in
}

// TestASpentOwnerLeavesItsSlotsToOthers has more due runs of the spent owner than slots, all older than those of the
// other one.
func TestASpentOwnerLeavesItsSlotsToOthers(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	createWithBudget(t, d, "alice", "0.10usd")
	d.register("w", "asker")
	d.submit(of("alice", "a"))
	d.spend(10)
	for n := range 20 {
		d.submit(of("alice", fmt.Sprint("a", n)))
	}
	for n := range 3 {
		d.submit(of("bob", fmt.Sprint("b", n)))
	}
	for range 3 { // one slot, in which no run of alice starts
		work := d.claim("w", 1)
		if len(work) != 1 || work[0].Thread.Owner != "bob" {
			t.Fatalf("claimed %+v, want a run of bob", work)
		}
		d.settle(complete(work[0].Claim, "done"))
	}
	wantEqual(t, "further runs that start", len(d.claim("w", 5)), 0)
	request := thread.ClaimRequest{Worker: "w", Round: 99, FairSlots: 5, Agents: map[string]int{"echo": 5}}
	fair := must(d.Claim(d.ctx, request))(t)
	wantEqual(t, "runs beyond the slots", len(fair), 0)

	var said string
	d.view(func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued}, Owner: "alice", Limit: 1})
		if err != nil || len(rows) == 0 {
			return err
		}
		all, err := ledger.WaitsFor(r, r.Now(), rows, nil)
		said = all[rows[0].ID][0].Text()
		return err
	})
	wantEqual(t, "what her runs wait for", said,
		"the budget of owner alice, 0.10 usd a day: it is spent, and begins again at 00:00 UTC")

	askAbout(t, d, "budget:owner:alice:day")
	wantEqual(t, "runs that start after the raise", len(d.claim("w", 5)), 5)
}

// askAbout asks the question of a budget, and approves it.
func askAbout(t *testing.T, d *fixture, id string) {
	t.Helper()
	_, k := ask(t, d)
	wantEqual(t, "thread of the question", k.Thread, id)
	must(d.Decide(d.ctx, thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove, Digest: k.Digest, By: "ann"}))(t)
}

// TestABudgetOfATokenHoldsOnOtherServers makes the token at one server, and spends its budget at another.
func TestABudgetOfATokenHoldsOnOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.New()
		o := ledger.Options{Budgets: ledger.Budgets{Reread: 5 * time.Second}}
		here, there := open(t, rows, o), open(t, rows, o)
		createWithBudget(t, here, "alice", "0.10usd")
		<-time.After(6 * time.Second)
		there.register("w")
		there.submit(of("alice", "a"))
		there.spend(10)
		there.submit(of("alice", "b"))
		wantEqual(t, "runs that start there", len(there.claim("w", 1)), 0)
		here.register("v")
		wantEqual(t, "runs that start here", len(here.claim("v", 1)), 0)
		var row *auth.Token
		here.view(func(r store.Reader) error {
			found, err := r.Tokens("alice")
			row = found[0]
			return err
		})
		wantEqual(t, "budget of the row", row.Terms.Budget, limitsOf("0.10usd"))
	})
}

// TestASubmitOfASpentOwnerStartsNothingInItsBatch has the claim in the batch of the submit, which made the run due.
func TestASubmitOfASpentOwnerStartsNothingInItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newControlledStore(nil)
		d := open(t, rows, ledger.Options{Poll: time.Hour})
		createWithBudget(t, d, "alice", "0.10usd")
		d.register("w")
		d.submit(of("alice", "a"))
		d.spend(10)
		errs := gatherBatch(t, d, rows, submitFunc(d, of("alice", "b")), func() error {
			for _, work := range d.claim("w", 2) {
				if work.Thread.Owner == "alice" {
					t.Error("a run of the spent owner started")
				}
			}
			return nil
		})
		wantEqual(t, "answers", codes(errs), make([]mailroom.Code, 2))
		d.round++
		errs = gatherBatch(t, d, rows, submitFunc(d, of("alice", "c")), func() error {
			work, err := d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: d.round, FairSlots: 2,
				Agents: map[string]int{"echo": 2}})
			if len(work) > 0 {
				t.Error("a run of the spent owner started beyond the slots")
			}
			return err
		})
		wantEqual(t, "answers", codes(errs), make([]mailroom.Code, 2))
	})
}
