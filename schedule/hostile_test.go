package schedule_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/store/storetest"
	"mailroom/thread"
)

func (h *fixture) wantCode(what string, err error, code mailroom.Code) {
	h.t.Helper()
	if mailroom.CodeOf(err) != code {
		h.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// tick returns the run that waits for the next time of the schedule nightly.
func (h *fixture) tick() (found *mailroom.Run) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Thread: nightly, Statuses: []mailroom.Status{mailroom.StatusQueued}})
		if len(rows) > 0 {
			found = rows[0]
		}
		return err
	}))
	if found == nil {
		h.t.Fatal("no run waits for the next time")
	}
	return found
}

// TestAScheduleSendsWithTheRightsOfItsOwner lets a token name threads that it may not create.
func TestAScheduleSendsWithTheRightsOfItsOwner(t *testing.T) {
	withFixture(t, func(h *fixture) {
		row, err := h.ledger.Accounts().CreateToken(h.t.Context(), auth.Token{Name: "bob", Sum: "5e",
			Scopes: []auth.Permission{auth.PermissionSubmit}, CreatedAt: time.Now()})
		h.must(err)
		for i, to := range []string{"issue:7", "project:x", "schedule:bob:zz", "alert:phone:bob", "audit:log"} {
			id := reserved.ScheduleID("bob", string(rune('a'+i)))
			h.must(h.command(id, plan.Command{Op: plan.OpSet, By: "bob", Source: row.ID(),
				Spec: h.spec(func(s *plan.Spec) { s.Thread = to })}))
			h.rest(time.Minute)
			if got := h.story(id); !strings.Contains(got, " refused") || strings.Contains(got, " sent") {
				t.Errorf("to %s: %s", to, got)
			}
		}
	})
}

// TestNothingEndsAScheduleWithoutAWord tries what stops its timer or changes its commands.
func TestNothingEndsAScheduleWithoutAWord(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(*plan.Spec) {})
		run := h.tick()
		_, err := h.ledger.Cancel(h.t.Context(), run.ID, "admin")
		h.wantCode("a cancel", err, mailroom.CodeConflict)
		_, err = h.ledger.Edit(h.t.Context(), nightly, run.Inputs[0].Message, mailroom.Text("x"))
		h.wantCode("an edit", err, mailroom.CodeForbidden)
		h.wantCode("a retraction", h.ledger.Retract(h.t.Context(), nightly, run.Inputs[0].Message), mailroom.CodeForbidden)
		_, err = h.ledger.PatchThread(h.t.Context(), nightly, thread.Patch{By: h.operator, DropSession: true})
		h.wantCode("a dropped session", err, mailroom.CodeForbidden)
		if run.MaxCrashes() < mailroom.MaxLost {
			t.Errorf("%d crashes end the schedule", run.MaxCrashes())
		}
		h.rest(2 * time.Minute)
		if got := h.state(nightly).Sent; got != 2 {
			t.Errorf("%d were sent, want 2", got)
		}
	})
}

func TestTheEndOfARunMakesNoDeletedScheduleAgain(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.worker = func(ctx context.Context, _ mailroom.Session) error { return sleep(ctx, time.Minute) }
		h.set(func(*plan.Spec) {})
		h.rest(time.Minute)
		_, err := h.ledger.Cancel(h.t.Context(), h.tick().ID, reserved.Scheduler)
		h.must(err)
		h.must(h.ledger.DeleteThread(h.t.Context(), nightly, nil))
		h.rest(5 * time.Minute)
		h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{nightly}})
			if len(rows) != 0 {
				t.Errorf("the thread exists again: %+v", rows[0])
			}
			return err
		}))
	})
}

func TestJitterIsNotLate(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(s *plan.Spec) { s.Every, s.Jitter, s.Window = 20*time.Minute, 9*time.Minute, time.Minute })
		h.rest(2 * time.Hour)
		if s := h.state(nightly); s.Sent < 5 || s.Skipped > 0 {
			t.Errorf("%d were sent, %d skipped: %s", s.Sent, s.Skipped, h.story(nightly))
		}
	})
}

func TestARepeatedChangeDoesNotPutAnIntervalOff(t *testing.T) {
	withFixture(t, func(h *fixture) {
		for range 6 {
			h.set(func(s *plan.Spec) { s.Every = 3 * time.Minute })
			h.rest(59 * time.Second)
		}
		if got := h.state(nightly).Sent; got != 1 && got != 2 {
			t.Errorf("%d were sent in six minutes, want one each three", got)
		}
	})
}

func TestAStateThatIsLongInJSONIsCut(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.worker = func(context.Context, mailroom.Session) error {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New(strings.Repeat("<", 500))}
		}
		h.set(func(s *plan.Spec) { s.Text = strings.Repeat("x", 7800) })
		h.rest(15 * time.Minute)
		if got := h.state(nightly).Sent; got != 15 {
			t.Errorf("%d were sent, want 15", got)
		}
	})
}

// TestARareScheduleLetsItsLogBePurged: a run that waits keeps the entries behind it.
func TestARareScheduleLetsItsLogBePurged(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(s *plan.Spec) { s.Every, s.Cron = 0, "0 0 31 12 *" })
		if wait := time.Until(h.tick().NotBefore); wait > 24*time.Hour {
			t.Errorf("the next message of the schedule to itself comes in %s", wait)
		}
	})
}

// TestWhatIsDueIsNotSentAfterItsRightsEnd kills the server at each write, and replaces the operator's token before the
// next server begins.
func TestWhatIsDueIsNotSentAfterItsRightsEnd(t *testing.T) {
	for n := 1; ; n++ {
		survived := false
		withFixture(t, func(h *fixture) {
			h.set(func(*plan.Spec) {})
			h.stop()
			h.rest(90 * time.Second)
			m := &storetest.Killable{Store: h.store, N: n, After: true}
			h.serve(m)
			h.rest(10 * time.Second)
			if survived = !m.IsDead(); survived {
				return
			}
			h.stop()
			before := h.received("work")
			h.operator = auth.NewOperator("another secret")
			h.serve(h.store)
			h.rest(5 * time.Minute)
			if got := h.received("work"); got != before {
				t.Errorf("a kill after write %d: sent %q, and after the end of the rights %q", n, before, got)
			}
		})
		if survived {
			if n < 3 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}
