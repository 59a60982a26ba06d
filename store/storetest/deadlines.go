package storetest

import (
	"testing"

	"mailroom"
	"mailroom/store"
)

// overdueRuns checks that a run is listed from its deadline on while it is open and was not asked to stop.
func overdueRuns(t *testing.T, s *handle) {
	c := &store.Changes{Threads: []*mailroom.Thread{thread("t")}}
	for i, id := range []string{"never", "late", "soon", "waiting", "stopped", "ended"} {
		r := run(id, "t")
		r.Place = int64(i + 1)
		r.Deadline = after(10 - i)
		c.Runs = append(c.Runs, r)
	}
	never, late, soon, waiting, stopped, ended := c.Runs[0], c.Runs[1], c.Runs[2], c.Runs[3], c.Runs[4], c.Runs[5]
	never.Deadline, late.Deadline = never.NotBefore, after(100)
	waiting.Status, waiting.StartedAt = mailroom.StatusWaiting, base()
	stopped.Status, stopped.StartedAt, stopped.Stop = mailroom.StatusRunning, base(), mailroom.ReasonCancelled
	ended.Status, ended.FinishedAt = mailroom.StatusCompleted, base()
	s.write(c)

	type query = store.RunQuery
	s.wantRuns("before the first", query{Overdue: after(6)})
	s.wantRuns("at the first", query{Overdue: waiting.Deadline}, "waiting")
	s.wantRuns("the earliest first", query{Overdue: after(50)}, "waiting", "soon")
	s.wantRuns("a page", query{Overdue: after(50), Limit: 1}, "waiting")
	s.wantRuns("all", query{Overdue: after(100)}, "waiting", "soon", "late")

	change := func(r *mailroom.Run, f func()) {
		f()
		s.write(&store.Changes{Runs: []*mailroom.Run{r}})
	}
	change(late, func() { late.Status, late.StartedAt = mailroom.StatusRunning, base() })
	s.wantRuns("after a start", query{Overdue: after(100)}, "waiting", "soon", "late")
	change(late, func() { late.Stop = mailroom.ReasonDeadline })
	s.wantRuns("after a stop", query{Overdue: after(100)}, "waiting", "soon")
	change(waiting, func() { waiting.Status, waiting.FinishedAt = mailroom.StatusCancelled, base() })
	s.wantRuns("after an end", query{Overdue: after(100)}, "soon")
	change(waiting, func() { // retried by hand
		waiting.Status, waiting.FinishedAt = mailroom.StatusQueued, never.NotBefore
		waiting.RemoveDeadline()
	})
	s.wantRuns("after a retry by hand", query{Overdue: after(100)}, "soon")
	change(soon, func() { // ended, retried by hand and started in one transaction
		soon.Status, soon.StartedAt = mailroom.StatusRunning, base()
		soon.RemoveDeadline()
	})
	s.wantRuns("after all of it at once", query{Overdue: after(100)})
}
