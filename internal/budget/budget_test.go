package budget

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"mailroom"
)

// TestARaiseSufficesUpToItsBound draws budgets and usages up to the bounds of integers.
func TestARaiseSufficesUpToItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{100, 1e12, math.MaxInt64}).Draw(t, "most")
		p := Pool{Scope: Scope{Thread, "t"}, Period: Life}
		p.Budget.Tokens = rapid.Int64Range(1, 1e15).Draw(t, "budget")
		p.Raised = mailroom.Amounts{Tokens: rapid.Int64Range(0, most).Draw(t, "raised")}.Plus(p.Raised)
		p.Used = mailroom.Amounts{Tokens: rapid.Int64Range(0, most).Draw(t, "used")}.Plus(p.Used)
		by := p.Raise()
		over := p.Used.Tokens - p.Limit().Tokens
		switch {
		case p.State() != Spent && by != (mailroom.Amounts{}):
			t.Fatalf("an open budget is raised by %v", by)
		case p.State() == Spent && (by.Tokens <= 0 || by.Tokens > MaxRaise):
			t.Fatalf("a spent budget is raised by %v", by)
		case p.State() == Spent && by.Tokens < MaxRaise && (by.Tokens <= over || by.Tokens%p.Budget.Tokens != 0):
			t.Fatalf("%d beyond the budget of %v is raised by %v", over, p.Budget, by)
		}
	})
}
