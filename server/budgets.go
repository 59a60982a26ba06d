package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/ledger"
	"mailroom/server/operate"
)

// Budgets is the part of a ledger with the budgets of days and months.
type Budgets interface {
	operate.Budgets
	List(ctx context.Context) ([]ledger.PeriodBudget, error)
	Raise(ctx context.Context, s budget.Scope, p budget.Period, by mailroom.Amounts) (ledger.PeriodBudget, error)
}

// budgetHandlers serve budgets of days and months.
type budgetHandlers struct {
	ledger Budgets
	log    *slog.Logger
}

// list returns the budgets that the caller sees.
func (h *budgetHandlers) list(ctx context.Context, _ *struct{}) (*body[api.Page[api.PeriodBudget]], error) {
	all, err := h.ledger.List(ctx)
	if err != nil {
		return nil, err
	}
	out := api.Page[api.PeriodBudget]{Items: []api.PeriodBudget{}}
	who := requestOf(ctx).who
	for i := range all {
		if sees(who, &all[i]) {
			out.Items = append(out.Items, showBudget(&all[i]))
		}
	}
	return &body[api.Page[api.PeriodBudget]]{out}, nil
}

// sees reports whether a caller sees a budget: its own, the ones of threads that it sees, and of agents if it sees
// all threads. An admin sees all.
func sees(who *auth.Token, b *ledger.PeriodBudget) bool {
	switch {
	case b.Thread != nil:
		return who.CanSee(b.Thread)
	case who.Has(auth.PermissionAdmin):
		return true
	case b.Scope.Kind == budget.Agent:
		return who.SeesAll()
	}
	return b.Scope.Name == who.Name
}

type raiseBudgetInput struct{ Body api.RaiseBudget }

// raise adds to a budget until the end of its period.
func (h *budgetHandlers) raise(ctx context.Context, in *raiseBudgetInput) (*body[api.PeriodBudget], error) {
	by, err := mailroom.ParseBudget(in.Body.By)
	if err == nil && !by.Until.IsZero() {
		err = mailroom.Errorf(mailroom.CodeInvalid, "has a time; a budget is raised until its period ends")
	}
	if err != nil {
		return nil, check.Invalid("body.by", err.Error(), in.Body.By)
	}
	s := budget.Scope{Kind: in.Body.Kind, Name: in.Body.Name}
	raised, err := h.ledger.Raise(ctx, s, budget.Period(in.Body.Period), by.Amounts)
	if err != nil {
		return nil, err
	}
	h.log.InfoContext(ctx, "budget raised", "budget", raised.Key(), "by", by.String(), "who", requestOf(ctx).who.Name)
	return &body[api.PeriodBudget]{showBudget(&raised)}, nil
}

// readLimits reads the budgets of a token, by period.
func readLimits(texts map[string]string) (l budget.Limits, err error) {
	for _, period := range slices.Sorted(maps.Keys(texts)) {
		if err := l.Set(period, texts[period]); err != nil {
			return l, check.Invalid("body.budget", err.Error(), texts[period])
		}
	}
	return l, nil
}

func showBudget(b *ledger.PeriodBudget) api.PeriodBudget {
	return api.PeriodBudget{
		Kind: b.Scope.Kind, Name: b.Scope.Name, Period: string(b.Period), Begin: b.Begin, End: b.End, Zone: b.Zone,
		Budget: showAmounts(b.Budget.Amounts), Raised: showAmounts(b.Raised), Used: showAmounts(b.Used),
		Left: showAmounts(b.Left()), State: b.State(), Question: b.Question,
		Text: b.Budget.String() + " " + b.Period.Every(),
	}
}

func showAmounts(a mailroom.Amounts) api.Amounts {
	return api.Amounts{USD: a.USD(), Tokens: a.Tokens, Turns: a.Turns}
}
