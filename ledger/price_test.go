package ledger_test

import (
	"log/slog"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/budget"
	"mailroom/internal/price"
	"mailroom/ledger"
	"mailroom/thread"
)

// priced are prices at which a token of the model m costs a millionth of a dollar.
func priced() ledger.Options {
	return ledger.Options{Prices: price.NewList(map[string]price.Price{"m": {Input: 1_000_000, Output: 1_000_000}})}
}

// ran commits a step that used so many tokens of a model, and says no cost.
func (d *fixture) ran(c mailroom.Claim, model string, tokens int64) thread.StepCommit {
	d.t.Helper()
	step := thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1,
		Step: mailroom.Step{Name: "turn", Usage: mailroom.Usage{InputTokens: tokens, Model: model, ComputedUSD: 7}}}
	must(d.Append(d.ctx, step))(d.t)
	return step
}

func TestTokensCostWhatTheirModelCosts(t *testing.T) {
	o := priced()
	uses := make(chan float64, 10)
	o.Observe.AttemptUsed = func(u thread.AttemptUse) { uses <- u.Usage.CostUSD }
	d := open(t, nil, o)
	d.register("w")
	p := d.budgeted("$1")
	first := d.ran(p.Claim, "m", 500_000)
	must(d.Append(d.ctx, first))(t)
	d.ran(p.Claim, "", 100_000) // of the same model
	d.consume(p.Claim, 5, 0.25)
	want := mailroom.Usage{InputTokens: 600_005, CostUSD: 0.85, Model: "m", ComputedUSD: 0.6}
	wantEqual(t, "usage", d.run(p.Run.ID).Usage, want)
	wantEqual(t, "left", d.run(p.Run.ID).BudgetLeft().Amounts, mailroom.Amounts{MicroUSD: 150_000})
	wantEqual(t, "costs in metrics", []float64{<-uses, <-uses, <-uses}, []float64{0.5, 0.1, 0.25})
	var steps []mailroom.Usage
	for _, e := range d.log("p") {
		var named entry.StepNamed
		if e.Kind == entry.KindStep && e.Decode(&named) == nil {
			steps = append(steps, named.Usage)
		}
	}
	wantEqual(t, "first step in the log", steps[0],
		mailroom.Usage{InputTokens: 500_000, CostUSD: 0.5, Model: "m", ComputedUSD: 0.5})
	d.ran(p.Claim, "m", 150_000)
	wantEqual(t, "stop", d.run(p.Run.ID).Stop, mailroom.ReasonBudget)
	wantEqual(t, "spent by a run of a known price", d.run(p.Run.ID).Budget.Unpriced, false)
}

func TestAModelWithoutAPriceAsksAfterEachStep(t *testing.T) {
	d := open(t, nil, priced())
	d.register("w")
	p := d.budgeted("$1, 1m tokens")
	for n, want := range []string{"Raise it by 1.00 usd, 1m tokens?", "Raise it by 1.00 usd, 1m tokens?"} {
		d.ran(p.Claim, "new", 10)
		wantEqual(t, "stop", d.run(p.Run.ID).Stop, mailroom.ReasonBudget)
		d.settle(failure(p.Claim, mailroom.ClassTransient))
		wantRun(d, p.Run.ID, mailroom.StatusWaiting)
		name := string(rune('1' + n))
		k := d.ticket(p.Run.ID, thread.BudgetTicket+name)
		if !strings.Contains(k.Prompt, want) || !strings.Contains(k.Prompt, `add [prices."new"] to the configuration`) {
			t.Errorf("the question is %q", k.Prompt)
		}
		if !strings.Contains(string(k.Arguments), `"unpriced":"new"`) {
			t.Errorf("the ticket shows %s", k.Arguments)
		}
		d.raise(p.Run.ID, name, mailroom.VerdictApprove)
		p = d.claimIn("p")
	}
	wantEqual(t, "cost", d.run(p.Run.ID).Usage.CostUSD, 0.0)
	d.ran(p.Claim, "m", 10) // a known one goes on
	wantEqual(t, "stop", d.run(p.Run.ID).Stop, "")
}

func TestAnAgentThatNamesNoModelAsks(t *testing.T) {
	d := open(t, nil, priced())
	d.register("w")
	p := d.budgeted("$1")
	d.ran(p.Claim, "", 10)
	d.settle(release(p.Claim))
	if k := d.ticket(p.Run.ID, thread.BudgetTicket+"1"); !strings.Contains(k.Prompt, "does not say which model it uses") {
		t.Errorf("the question is %q", k.Prompt)
	}
	in := text("q", "go")
	in.Budget.Tokens = 1000
	d.submit(in)
	q := d.claimIn("q")
	d.ran(q.Claim, "", 10) // dollars are not bounded
	wantEqual(t, "stop", d.run(q.Run.ID).Stop, "")
}

// A part in dollars that was used for a model without a price does not come back, whatever people add.
func TestAPartOfAnUnknownCostDoesNotComeBack(t *testing.T) {
	for raised, tokens := range map[bool]int64{false: 900, true: 1000} { // a raise pays first
		d := open(t, nil, priced())
		d.register("w")
		p := d.budgeted("$2, 1000 tokens")
		d.mustSend(p.Claim, mailroom.Send{Name: "a", Thread: "a", Answer: mailroom.AnswerWait,
			Budget: mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: 1_500_000, Tokens: 400}}})
		c := d.claimIn("a")
		d.ran(c.Claim, "new", 100)
		if raised {
			d.settle(release(c.Claim))
			d.raise(c.Run.ID, "1", mailroom.VerdictApprove)
			c = d.claimIn("a")
		}
		d.settle(complete(c.Claim, "done"))
		wantEqual(t, "left", d.run(p.Run.ID).BudgetLeft().Amounts, mailroom.Amounts{MicroUSD: 500_000, Tokens: tokens})
	}
}

// A step whose cost is not known spends the dollars of a day, and nothing of a day in tokens beyond its tokens.
func TestAModelWithoutAPriceSpendsTheBudgetOfADay(t *testing.T) {
	o := priced()
	limits := limitsOf("5usd, 1m tokens")
	o.Budgets = ledger.Budgets{Agent: map[string]budget.Limits{"echo": limits}}
	d := open(t, nil, o)
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.ran(p.Claim, "m", 10)
	wantEqual(t, "used", poolOf(d, limits).Used, mailroom.Amounts{MicroUSD: 10, Tokens: 10, Turns: 1})
	d.ran(p.Claim, "new", 10)
	pool := poolOf(d, limits)
	wantEqual(t, "used", pool.Used, mailroom.Amounts{MicroUSD: 5_000_010, Tokens: 20, Turns: 2})
	wantEqual(t, "state", pool.State(), budget.Spent)
	wantEqual(t, "stop of the run, which has no budget", d.run(p.Run.ID).Stop, "")
	d.settle(complete(p.Claim, "done"))
	d.submit(text("p", "again"))
	wantEqual(t, "runs started", len(d.claim("w", 1)), 0)
}

// TestAModelWithoutAPriceIsLoggedOnce reads the log, because the question about the budget of a day names no model.
func TestAModelWithoutAPriceIsLoggedOnce(t *testing.T) {
	for of, test := range map[string]struct {
		budget string
		want   int
	}{"dollars": {"5usd", 1}, "tokens": {"1m tokens", 0}} {
		t.Run(of, func(t *testing.T) {
			var log lockedLog
			o := priced()
			o.Budgets = ledger.Budgets{Agent: map[string]budget.Limits{"echo": limitsOf(test.budget)}}
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			d := open(t, nil, o)
			d.register("w")
			d.submit(text("p", "go"))
			p := d.claimIn("p")
			for _, model := range []string{"m", "new\x1b[2J", "new\x1b[2J"} {
				d.ran(p.Claim, model, 10)
			}
			d.settle(complete(p.Claim, "done"))
			log.mu.Lock()
			defer log.mu.Unlock()
			got := log.text.String()
			if n := strings.Count(got, "price of a model not known"); n != test.want ||
				n != strings.Count(got, `agent=echo model="new\x1b[2J"`) {
				t.Errorf("the log has %d lines, want %d:\n%s", n, test.want, got)
			}
		})
	}
}
