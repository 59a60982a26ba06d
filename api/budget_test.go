package api_test

import (
	"math"
	"testing"

	"mailroom"
	"mailroom/api"
)

func TestABudgetOnTheWireKeepsItsBounds(t *testing.T) {
	limit := mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: 1, Tokens: 200}}
	got, err := api.FormatBudget(limit).Read("body.budget")
	if err != nil || got != limit {
		t.Errorf("got %+v, %v, want %+v", got, err, limit)
	}
	left := api.FormatLeft(limit, &mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: -5}})
	if *left.USD != -0.000005 || *left.Tokens != 0 || left.Turns != nil || left.Until != nil {
		t.Errorf("left is %+v", left)
	}
	if (*api.Left)(nil).Read() != nil || left.Read().MicroUSD != -5 {
		t.Errorf("left reads as %+v", left.Read())
	}
	for _, bad := range []api.Budget{{}, {USD: math.NaN()}, {USD: 1e300}, {USD: 1e-9}, {Tokens: -1}} {
		if _, err := bad.Read("body.budget"); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%+v: got error %v", bad, err)
		}
	}
}
