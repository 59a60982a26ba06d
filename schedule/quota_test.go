package schedule_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/auth"
	"mailroom/schedule/plan"
)

// TestTheQuotasOfTheOwnerBoundWhatAScheduleSends has a schedule that opens a thread each minute.
func TestTheQuotasOfTheOwnerBoundWhatAScheduleSends(t *testing.T) {
	withFixture(t, func(h *fixture) {
		const id = "schedule:bob:x"
		row, err := h.ledger.Accounts().CreateToken(h.t.Context(), auth.Token{Name: "bob", Sum: "5e", CreatedAt: time.Now(),
			Scopes: []auth.Permission{auth.PermissionSubmit}})
		h.must(err)
		_, err = h.ledger.Accounts().SetQuotas(h.t.Context(), "bob", auth.Quotas{auth.QuotaThreads: 3})
		h.must(err)
		h.must(h.command(id, plan.Command{Op: plan.OpSet, By: "bob", Source: row.ID(),
			Spec: h.spec(func(s *plan.Spec) { s.Thread, s.PauseAfter = "", 2 })}))
		h.rest(10 * time.Minute)
		if s := h.state(id); s.Sent > 3 || s.Sent == 0 || s.Paused == nil || !strings.Contains(s.Paused.Note, "thread") {
			t.Errorf("%d were sent; %s", s.Sent, h.story(id))
		}
	})
}
