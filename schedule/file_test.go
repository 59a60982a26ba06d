package schedule_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/doctor"
	"mailroom/internal/reserved"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/store/storetest"
)

// file returns the file of a server alone, with schedules that send each minute to a thread of their name.
func (h *fixture) file(names ...string) *schedule.File {
	h.t.Helper()
	f := &schedule.File{Specs: map[string]plan.Spec{}, Changed: time.Now()}
	for _, name := range names {
		f.Specs[name] = *h.spec(func(s *plan.Spec) { s.Thread = name })
	}
	return f
}

func (h *fixture) apply(f *schedule.File) (log string) {
	h.t.Helper()
	var out strings.Builder
	h.must(f.Apply(h.t.Context(), h.ledger, h.operator, slog.New(slog.NewTextHandler(&out, nil))))
	return out.String()
}

// is describes a schedule of the operator: "file", "people", and whether it is paused.
func (h *fixture) is(name string) string {
	h.t.Helper()
	s := h.state(reserved.ScheduleID(auth.Operator, name))
	switch {
	case s == nil:
		return "none"
	case s.Paused != nil:
		return "paused: " + s.Paused.Note
	case s.FromFile():
		return "file"
	}
	return "people"
}

func (h *fixture) wantIs(when, name, want string) {
	h.t.Helper()
	if got := h.is(name); got != want {
		h.t.Errorf("%s: %s is %q, want %q", when, name, got, want)
	}
}

// commits returns the position of the last entry of a schedule's log.
func (h *fixture) commits(id string) (last int64) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{id}})
		for _, t := range rows {
			last = t.LastSeq
		}
		return err
	}))
	return last
}

// remove deletes the thread of a schedule as the server does.
func (h *fixture) remove(id string) {
	h.t.Helper()
	h.cancel(id)
	h.must(h.ledger.DeleteThread(h.t.Context(), id, nil))
}

// cancel cancels the messages of a schedule to itself, as only the server can.
func (h *fixture) cancel(id string) {
	h.t.Helper()
	var open []*mailroom.Run
	h.must(h.store.View(h.t.Context(), func(r store.Reader) (err error) {
		open, err = r.Runs(store.RunQuery{Thread: id, Statuses: []mailroom.Status{mailroom.StatusQueued}})
		return err
	}))
	for _, run := range open {
		_, err := h.ledger.Cancel(h.t.Context(), run.ID, reserved.Scheduler)
		h.must(err)
	}
}

const removed = "paused: mailroom.toml does not have it any more: delete it, or resume it to keep it"

func TestTheConfigurationMakesChangesAndRemovesSchedules(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.apply(h.file("nightly", "other"))
		h.wantIs("made", "nightly", "file")
		h.rest(time.Minute)
		if got := h.received("nightly"); got != "00:01" {
			t.Errorf("sent at %q", got)
		}
		before := h.commits(nightly)
		h.apply(h.file("nightly", "other"))
		if got := h.commits(nightly); got != before {
			t.Errorf("a start with the same file wrote %d entries", got-before)
		}
		h.do(plan.Command{Op: plan.OpSet, Spec: h.spec(func(s *plan.Spec) { s.Text = "mine" })})
		if got := h.state(nightly).Spec.Text; got != "go" {
			t.Errorf("a command changed a schedule of the file: it sends %q", got)
		}
		h.do(plan.Command{Op: plan.OpPause, Note: "holidays"})
		h.apply(h.file("nightly", "other"))
		h.wantIs("after a start while it was paused", "nightly", "paused: holidays")
		h.do(plan.Command{Op: plan.OpResume})
		h.wantIs("resumed", "nightly", "file")

		changed := h.file("nightly")
		spec := changed.Specs["nightly"]
		spec.Text = "again"
		changed.Specs["nightly"] = spec
		h.apply(changed)
		if got := h.state(nightly).Spec.Text; got != "again" {
			t.Errorf("after a change of the file it sends %q", got)
		}
		h.wantIs("removed", "other", removed)
		h.rest(3 * time.Minute)
		if got := h.received("other"); got != "00:01" {
			t.Errorf("the removed one sent at %s", got)
		}
		h.apply(h.file("nightly", "other"))
		h.wantIs("back in the file", "other", "file")
	})
}

func TestARemovedScheduleIsKeptByWhoResumesIt(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.apply(h.file("nightly"))
		h.apply(h.file())
		h.wantIs("removed", "nightly", removed)
		h.do(plan.Command{Op: plan.OpResume})
		h.wantIs("resumed", "nightly", "people")
		h.apply(h.file())
		h.wantIs("after the next start", "nightly", "people")
		if log := h.apply(h.file("nightly")); !strings.Contains(log, "takes over a schedule") {
			t.Errorf("the log has %s", log)
		}
		h.wantIs("back in the file", "nightly", "file")
		h.remove(nightly)
		h.apply(h.file("nightly"))
		h.wantIs("after its thread was deleted", "nightly", "file")
	})
}

// TestTheNewestConfigurationWins has two servers; the one with the older file starts again later.
func TestTheNewestConfigurationWins(t *testing.T) {
	withFixture(t, func(h *fixture) {
		older := h.file("nightly", "other")
		h.rest(time.Second)
		newer := h.file("nightly", "third")
		older.Shared, newer.Shared = true, true
		spec := newer.Specs["nightly"]
		spec.Text = "again"
		newer.Specs["nightly"] = spec
		h.apply(older)
		h.apply(newer)
		before := h.commits(nightly)
		if log := h.apply(older); !strings.Contains(log, "another server had a newer file") {
			t.Errorf("the log has %s", log)
		}
		h.apply(newer)
		if got := h.commits(nightly); got != before || h.state(nightly).Spec.Text != "again" {
			t.Errorf("the two servers changed it again: %d entries, %q", got-before, h.state(nightly).Spec.Text)
		}
		h.wantIs("of the newer file alone", "third", "file")
		h.wantIs("of the older file alone", "other", removed)
		h.remove(reserved.ScheduleID(auth.Operator, "other"))
		h.apply(older)
		h.wantIs("deleted, and the older file has it", "other", "none")

		silent := h.file()
		silent.Shared, silent.Silent = true, true
		h.apply(silent)
		h.wantIs("a newer file without schedules", "third", "file")
		silent.Silent = false
		h.apply(silent)
		h.wantIs("a newer file with an empty table", "third", removed)
	})
}

func TestAScheduleOfTheConfigurationHasTheRightsOfThePresentOperator(t *testing.T) {
	for _, tick := range []bool{false, true} {
		t.Run(fmt.Sprint(tick), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				h.apply(h.file("nightly"))
				h.rest(time.Minute)
				h.stop()
				h.operator = auth.NewOperator("another secret")
				h.serve(h.store)
				if tick { // before the file is applied
					h.rest(time.Minute)
					if got := h.is("nightly"); !strings.Contains(got, "was replaced") {
						t.Errorf("it is %s", got)
					}
				}
				h.apply(h.file("nightly"))
				h.rest(2 * time.Minute)
				h.wantIs("with the new token", "nightly", "file")
				if got := h.received("nightly"); !strings.Contains(got, "00:03") {
					t.Errorf("sent at %s", got)
				}
			})
		})
	}
}

func TestATimeOfTheConfigurationThatHasPassedStopsNothing(t *testing.T) {
	withFixture(t, func(h *fixture) {
		f := h.file("nightly")
		f.Specs["nightly"] = *h.spec(func(s *plan.Spec) { s.Every, s.At = 0, time.Now().Add(time.Minute) })
		h.apply(f)
		h.rest(5 * time.Minute)
		h.apply(f)
		if s := h.state(nightly); s.Sent != 1 || s.Paused != nil {
			t.Errorf("the state is %+v", s)
		}
		h.remove(nightly)
		if log := h.apply(f); !strings.Contains(log, "never fires from now on") {
			t.Errorf("the log has %s", log)
		}
		h.wantIs("deleted after its time", "nightly", "none")
	})
}

// TestAKillWhileTheConfigurationIsAppliedLosesNothing kills the server before and after each of its writes.
func TestAKillWhileTheConfigurationIsAppliedLosesNothing(t *testing.T) {
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.apply(h.file("nightly", "other"))
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					f := h.file("nightly", "third")
					f.Specs["nightly"] = *h.spec(func(s *plan.Spec) { s.Text = "again" })
					err := f.Apply(h.t.Context(), h.ledger, h.operator, slog.New(slog.DiscardHandler))
					if survived = !m.IsDead(); !survived {
						h.stop()
						h.serve(h.store)
						h.apply(f)
					} else {
						h.must(err)
					}
					h.wantIs("changed", "nightly", "file")
					h.wantIs("removed", "other", removed)
					h.wantIs("made", "third", "file")
					if got := h.state(nightly).Spec.Text; got != "again" {
						t.Errorf("it sends %q", got)
					}
				})
			})
		}
		if survived {
			if n < 4 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}

func TestDoctorNamesAScheduleThatNothingWakes(t *testing.T) {
	withFixture(t, func(h *fixture) {
		check := func(when string, want int) {
			h.t.Helper()
			report, err := doctor.Check(h.t.Context(), h.ledger)
			h.must(err)
			if len(report.Findings) != want {
				h.t.Errorf("%s: %v, want %d findings", when, report.Findings, want)
			}
			for _, f := range report.Findings {
				if f.Invariant != doctor.Schedule || !strings.Contains(f.Text, "mailroom schedule resume nightly") {
					h.t.Errorf("%s: %v", when, f)
				}
			}
		}
		h.set(func(*plan.Spec) {})
		check("while it waits", 0)
		h.cancel(nightly)
		check("without its message", 1)
		h.do(plan.Command{Op: plan.OpResume})
		check("resumed", 0)
		h.do(plan.Command{Op: plan.OpPause})
		h.cancel(nightly)
		check("paused", 0)
		h.do(plan.Command{Op: plan.OpResume})
		h.rest(time.Minute)
		if got := h.state(nightly).Sent; got != 1 {
			t.Errorf("%d were sent after the repair", got)
		}
	})
}
