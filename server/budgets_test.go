package server_test

import (
	"encoding/json"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/ledger"
)

// budgets gives the agent codex a budget.
func budgets() ledger.Budgets {
	usd := func(n float64, tokens int64) mailroom.Budget {
		a := mailroom.Dollars(n)
		a.Tokens = tokens
		return mailroom.Budget{Amounts: a}
	}
	return ledger.Budgets{Agent: map[string]budget.Limits{"codex": {Day: usd(5, 0), Month: usd(100, 2_000_000)}}}
}

func TestBudgetsAreSeenByWhomTheyConcern(t *testing.T) {
	f := start(t)
	var all api.Page[api.PeriodBudget]
	if err := json.Unmarshal([]byte(f.call("GET /v1/budgets", "").body), &all); err != nil || len(all.Items) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	if left := f.metricOf(`mailroom_budget_left{agent="codex",bound="usd",period="month"}`); left != "100" {
		t.Errorf("the metric says that %q are left", left)
	}
	b := all.Items[1]
	want := api.PeriodBudget{Kind: "agent", Name: "codex", Period: "month", Begin: b.Begin, End: b.End, Zone: "UTC",
		Budget: api.Amounts{USD: 100, Tokens: 2_000_000}, Left: api.Amounts{USD: 100, Tokens: 2_000_000},
		State: "open", Text: "100.00 usd, 2m tokens a month"}
	if b != want {
		t.Errorf("got %+v, want %+v", b, want)
	}
	alice := f.withToken(f.createToken("alice", "", auth.PermissionRead))
	if got := alice.call("GET /v1/budgets", "").body; got != `{"items":[],"next":null}`+"\n" {
		t.Errorf("a token sees %s", got)
	}
}

func TestABudgetIsRaisedByHand(t *testing.T) {
	f := start(t)
	raise := func(body string) response { return f.call("POST /v1/budgets/raise", body) }
	for body, want := range map[string]int{
		`{"kind":"agent","name":"other","period":"day","by":"1usd"}`:                            404,
		`{"kind":"agent","name":"codex","period":"day","by":"1m tokens"}`:                       422, // it bounds no tokens
		`{"kind":"agent","name":"codex","period":"day","by":"1"}`:                               422,
		`{"kind":"agent","name":"codex","period":"week","by":"1usd"}`:                           422,
		`{"kind":"agent","name":"codex","period":"day","by":"1usd until 2100-01-01T00:00:00Z"}`: 422,
	} {
		if got := raise(body); got.status != want {
			t.Errorf("%s: got %d %s, want %d", body, got.status, got.body, want)
		}
	}
	for n := 1; n <= 2; n++ {
		var b api.PeriodBudget
		got := raise(`{"kind":"agent","name":"codex","period":"day","by":"2.50usd"}`)
		err := json.Unmarshal([]byte(got.body), &b)
		if err != nil || b.Raised.USD != 2.5*float64(n) || b.Left.USD != 5+2.5*float64(n) {
			t.Errorf("got %s, %v", got.body, err)
		}
	}
}

// TestOnlyAnOwnerSetsTheBudgetOfItsThread has the owner of a thread, a limited token of it, which its run may have,
// another token, and the operator.
func TestOnlyAnOwnerSetsTheBudgetOfItsThread(t *testing.T) {
	f := start(t)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	mustCall[map[string]any](ann, "POST /v1/messages", `{"thread":"trip","text":"hello"}`)
	const day, twice = `{"budget":{"day":"1usd"}}`, `{"budget":{"day":"2usd","life":"5usd, 2m tokens"}}`
	f.wantCode("of a limited token", ann.limited(`"read","submit"`).call("PATCH /v1/threads/trip", day), 403,
		mailroom.CodeForbidden)
	ben := f.withToken(f.createToken("ben", "", auth.PermissionRead, auth.PermissionSubmit))
	f.wantCode("of another token", ben.call("PATCH /v1/threads/trip", day), 404, mailroom.CodeNotFound)
	mustCall[api.Thread](ann, "PATCH /v1/threads/trip", day)
	listed := mustCall[api.Page[api.PeriodBudget]](ann, "GET /v1/budgets", "").Items
	if len(listed) != 1 || listed[0].Kind != "thread" || listed[0].Name != "trip" || listed[0].Text != "1.00 usd a day" {
		t.Errorf("listed: %+v", listed)
	}
	if seen := mustCall[api.Page[api.PeriodBudget]](ben, "GET /v1/budgets", "").Items; len(seen) != 0 {
		t.Errorf("another token sees %+v", seen)
	}
	f.wantCode("raise by the owner", ann.call("POST /v1/budgets/raise",
		`{"kind":"thread","name":"trip","period":"day","by":"1usd"}`), 403, mailroom.CodeForbidden)
	mustCall[api.Thread](f, "PATCH /v1/threads/trip", twice)
	mustCall[api.PeriodBudget](f, "POST /v1/budgets/raise", `{"kind":"thread","name":"trip","period":"day","by":"1usd"}`)
	listed = mustCall[api.Page[api.PeriodBudget]](f, "GET /v1/budgets", "").Items[2:] // after the agent
	if len(listed) != 2 || listed[0].Left.USD != 3 || listed[1].Period != "life" {
		t.Errorf("listed: %+v", listed)
	}
	refused := ann.call("PATCH /v1/threads/trip", `{"budget":{"day":"1 eur"}}`)
	f.wantCode("euros", refused, 422, mailroom.CodeInvalid)
	mustCall[api.Thread](ann, "PATCH /v1/threads/trip", `{"budget":{"day":"","life":""}}`)
	if all := mustCall[api.Page[api.PeriodBudget]](f, "GET /v1/budgets", "").Items; len(all) != 2 {
		t.Errorf("listed: %+v", all)
	}
}
