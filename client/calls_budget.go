package client

import (
	"context"
	"net/http"

	"mailroom/api"
)

// Budgets returns the budgets of days and months that the token sees, by agent or token and period.
func (a Accounts) Budgets(ctx context.Context) ([]api.PeriodBudget, error) {
	page, err := get[api.Page[api.PeriodBudget]](ctx, a.c, "/v1/budgets", nil)
	return page.Items, err
}

// RaiseBudget adds to a budget until its day or month ends.
func (a Accounts) RaiseBudget(ctx context.Context, in api.RaiseBudget) (api.PeriodBudget, error) {
	return ask[api.PeriodBudget](ctx, a.c, request{method: http.MethodPost, path: "/v1/budgets/raise", body: in})
}
