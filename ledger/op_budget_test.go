package ledger_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/thread"
)

// TestTwoServersSpendABudgetTogether has six workers on two servers with one database, which spend a cent with each run
// as fast as they can.
func TestTwoServersSpendABudgetTogether(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	var limits budget.Limits
	must(0, limits.Set("day", "0.50usd"))(t)
	var both [2]*fixture
	for i := range both {
		s := openPostgres(t, postgres.Options{URL: cluster.URL(), Schema: schema, Node: fmt.Sprint("node-", i)})
		both[i] = open(t, s, ledger.Options{Budgets: ledger.Budgets{Agent: map[string]budget.Limits{"echo": limits}}})
	}
	for n := range 120 {
		both[n%2].submit(text(fmt.Sprint("t", n), "hello"))
	}
	both[1].register("asker")
	const workers = 6
	for round, most := range []int64{50, 100} {
		var wait sync.WaitGroup
		for n := range workers {
			wait.Go(func() { spendCents(t, both[n%2], fmt.Sprint("w", round, n)) })
		}
		wait.Wait()
		pool := poolOf(both[0], limits)
		if used := pool.Used.MicroUSD / 10_000; used < most || used >= most+workers {
			t.Errorf("%d cents used, want %d, and less than %d more", used, most, workers)
		}
		questions := 0
		for _, e := range both[0].log("budget:agent:echo:day") {
			var m mailroom.Message
			if e.Kind == entry.KindMessage && e.Decode(&m) == nil && m.Role == mailroom.RoleSystem {
				questions++
			}
		}
		wantEqual(t, "a warning and questions", questions, 2+round)
		approve(t, both[1])
	}
}

// spendCents works until no run starts any more.
func spendCents(t *testing.T, d *fixture, worker string) {
	must(d.Register(t.Context(), store.Worker{ID: worker, Agents: []string{"echo"}}))(t)
	for round := int64(1); ; round++ {
		work := must(d.Claim(t.Context(), thread.ClaimRequest{Worker: worker, Round: round, Slots: 1,
			Agents: map[string]int{"echo": 1}}))(t)
		if len(work) == 0 {
			if p := poolOf(d, limitsOf("0.50usd")); p.State() == budget.Spent {
				return
			}
			continue // others hold the due runs
		}
		c := work[0].Claim
		step := mailroom.Step{Name: "turn", Usage: mailroom.Usage{CostUSD: 0.01}}
		must(d.Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Step: step}))(t)
		must(d.Settle(t.Context(), thread.Settle{Claim: c, Number: 2, Outcome: thread.OutcomeComplete}))(t)
	}
}

func limitsOf(day string) (l budget.Limits) {
	if err := l.Set("day", day); err != nil {
		panic(err)
	}
	return l
}

// poolOf returns the use of the budget of the agent echo today.
func poolOf(d *fixture, l budget.Limits) (p budget.Pool) {
	d.view(func(r store.Reader) error {
		b := ledger.Budgets{Agent: map[string]budget.Limits{"echo": l}}
		pools := b.All(r.Now())
		err := ledger.ReadPools(r, pools)
		p = pools[0]
		return err
	})
	return p
}

// approve asks what the thread of the budget of the agent echo has to ask, and approves it.
func approve(t *testing.T, d *fixture) {
	t.Helper()
	c, k := ask(t, d)
	must(d.Decide(d.ctx, thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove, Digest: k.Digest, By: "ann"}))(t)
	d.round++
	work := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "asker", Round: d.round, Slots: 1,
		Agents: map[string]int{"budget:asker": 1}}))(t)
	wantEqual(t, "run that goes on", work[0].Claim.Run, c.Run)
	d.settle(complete(work[0].Claim, "raised"))
}

// ask asks what the thread of the budget of the agent echo has to ask.
func ask(t *testing.T, d *fixture) (mailroom.Claim, *mailroom.Ticket) {
	t.Helper()
	next := func() []thread.ClaimedRun {
		d.round++
		return must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "asker", Round: d.round, Slots: 1,
			Agents: map[string]int{"budget:asker": 1}}))(t)
	}
	for {
		work := next()
		if len(work) == 0 {
			t.Fatal("nothing is asked")
		}
		c, r := work[0].Claim, work[0].Run
		notice := must(d.Messages(d.ctx, r.Thread, []int64{r.Inputs[0].Seq}))(t)[0].Parts[0].Data
		var n budget.Notice
		must(0, json.Unmarshal(notice, &n))(t)
		if n.State == budget.Low {
			d.settle(complete(c, n.Warning()))
			continue
		}
		ask := approval("raise")
		ask.Arguments = notice
		d.settle(park(c, nil, ask))
		return c, d.ticket(c.Run, "raise")
	}
}

// spend claims the due run, which uses some cents.
func (d *fixture) spend(cents int) {
	d.t.Helper()
	c := d.claimOne("w").Claim
	must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{
		Name: "turn", Usage: mailroom.Usage{CostUSD: float64(cents) / 100}}}))(d.t)
	d.settle(thread.Settle{Claim: c, Number: 2, Outcome: thread.OutcomeComplete})
}

// TestAClaimSeesWhatItsBatchUsed has a claim in the batch of the step that spends the budget.
func TestAClaimSeesWhatItsBatchUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := newControlledStore(nil)
		b := ledger.Budgets{Agent: map[string]budget.Limits{"echo": limitsOf("0.10usd")}}
		d := open(t, rows, ledger.Options{Budgets: b, Poll: time.Hour})
		d.register("w")
		d.submit(text("a", "one"))
		c := d.claimOne("w").Claim
		d.submit(text("b", "two"))
		errs := gatherBatch(t, d, rows, func() error {
			_, err := d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{
				Name: "turn", Usage: mailroom.Usage{CostUSD: 0.10}}})
			return err
		}, func() error {
			if work := d.claim("w", 1); len(work) > 0 {
				t.Error("a run was claimed in the batch that spent the budget")
			}
			return nil
		})
		wantEqual(t, "answers", codes(errs), make([]mailroom.Code, 2))
		wantEqual(t, "batches", rows.updates(), 1)
	})
}

func TestRunsStartWhenThePeriodBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ledger.Budgets{Agent: map[string]budget.Limits{"echo": limitsOf("0.10usd")}}
		d := open(t, nil, ledger.Options{Budgets: b, Poll: 7 * time.Hour, Lease: 99 * time.Hour})
		d.register("w")
		d.submit(text("a", "one"))
		d.spend(10)
		d.submit(text("b", "two"))
		<-time.After(20 * time.Hour)
		if work := d.claim("w", 1); len(work) > 0 {
			t.Fatal("a run started although the budget is spent")
		}
		work := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: 9, Slots: 1, Agents: map[string]int{"echo": 1},
			Wait: true}))(t)
		if at := time.Now().UTC(); len(work) != 1 || at.Day() != 2 || at.Hour() != 0 || at.Minute() > 0 {
			t.Errorf("%d runs started at %s", len(work), at)
		}
	})
}

func TestOldPeriodsOfBudgetsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf("1usd")
		must(0, l.Set("month", "10usd"))(t)
		d := open(t, nil, ledger.Options{Budgets: ledger.Budgets{Agent: map[string]budget.Limits{"echo": l}},
			Poll: 99 * time.Hour, Lease: 9999 * time.Hour})
		d.register("w")
		rows := func(step time.Duration) (n int) {
			d.view(func(r store.Reader) error {
				found, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step}})
				n = len(found.Summaries)
				return err
			})
			return n
		}
		for n := range 3 {
			d.submit(text(fmt.Sprint("t", n), "one"))
			d.spend(1)
			<-time.After(35 * 24 * time.Hour)
			must(0, d.DropOldSummaries(d.ctx, time.Now()))(t)
			wantEqual(t, "days", rows(store.StepBudgetDay), min(n+1, 1))
			wantEqual(t, "months", rows(store.StepBudgetMonth), n+1)
		}
	})
}

// TestABudgetThatIsRaisedByHandIsNotAskedAbout has an open question, which is withdrawn.
func TestABudgetThatIsRaisedByHandIsNotAskedAbout(t *testing.T) {
	b := ledger.Budgets{Agent: map[string]budget.Limits{"echo": limitsOf("0.10usd")}}
	d := open(t, nil, ledger.Options{Budgets: b})
	budgets := ledger.PeriodBudgets{Ledger: d.Ledger}
	echo := budget.Scope{Kind: budget.Agent, Name: "echo"}
	refused := func(s budget.Scope, p budget.Period, by mailroom.Amounts, code mailroom.Code) {
		t.Helper()
		_, err := budgets.Raise(d.ctx, s, p, by)
		wantCode(t, err, code)
	}
	refused(echo, budget.Month, mailroom.Dollars(1), mailroom.CodeNotFound)
	refused(budget.Scope{Kind: budget.Agent, Name: "other"}, budget.Day, mailroom.Dollars(1), mailroom.CodeNotFound)
	refused(echo, budget.Day, mailroom.Amounts{Tokens: 1}, mailroom.CodeInvalid)
	refused(echo, budget.Day, mailroom.Dollars(-1), mailroom.CodeInvalid)
	refused(echo, budget.Day, mailroom.Amounts{}, mailroom.CodeInvalid)

	d.register("w", "asker")
	d.submit(text("a", "one"))
	d.spend(10)
	d.submit(text("b", "two"))
	wantEqual(t, "runs that start", len(d.claim("w", 1)), 0)
	c, k := ask(t, d)
	listed := must(budgets.List(d.ctx))(t)
	wantEqual(t, "question", listed[0].Question, k.ID)
	raised := must(budgets.Raise(d.ctx, echo, budget.Day, mailroom.Dollars(0.05)))(t)
	wantEqual(t, "left", raised.Left(), mailroom.Dollars(0.05))
	wantEqual(t, "question after it", raised.Question, "")
	wantEqual(t, "status of the run that asked", d.run(c.Run).Status, mailroom.StatusCancelled)
	d.spend(5)
	d.submit(text("c", "three"))
	wantEqual(t, "runs that start", len(d.claim("w", 1)), 0)
	ask(t, d) // about the new limit
}
