// Package doctor checks the invariants of a store, live or stopped. It reads
// whatever implements the seam, recomputes what can be derived, and says in
// plain words what does not agree. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"time"

	"mailroom"
)

// Viewer is what Check reads: a store, or a ledger over one.
type Viewer interface {
	View(ctx context.Context, f func(mailroom.Reader) error) error
}

// checkPage is how many threads are checked on one snapshot.
const checkPage = 50

// Report is what a check found. Without findings all invariants hold.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Finding is one violation of an invariant. Thread, Run and Ticket are ids, ""
// where it is not about one.
type Finding struct {
	Thread string `json:"thread,omitempty"`
	Text   string `json:"text"` // what is wrong and what it should be
}

func (f Finding) String() string {
	if f.Thread == "" {
		return f.Text
	}
	return fmt.Sprintf("thread %q: %s", f.Thread, f.Text)
}

// Check verifies the invariants of every thread in a store, live or stopped. It
// changes nothing.
func Check(ctx context.Context, v Viewer) (Report, error) {
	c := &checker{workers: map[string]*mailroom.Worker{}}
	for from := int64(0); ; {
		n := 0
		err := v.View(ctx, func(r mailroom.Reader) error {
			c.r, c.now = r, time.Now().UTC()
			if err := c.loadWorkers(); err != nil {
				return err
			}
			rows, err := r.Threads(mailroom.ThreadQuery{From: from, Oldest: true, Limit: checkPage})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if err := c.thread(row); err != nil {
					return fmt.Errorf("check thread %q: %w", row.ID, err)
				}
				from = row.Key
			}
			n = len(rows)
			return nil
		})
		if err != nil {
			return c.report, err
		}
		if n < checkPage {
			return c.report, nil
		}
	}
}

type checker struct {
	r       mailroom.Reader
	now     time.Time
	workers map[string]*mailroom.Worker
	report  Report
}

func (c *checker) loadWorkers() error {
	rows, err := c.r.Workers()
	clear(c.workers)
	for _, w := range rows {
		c.workers[w.ID] = w
	}
	return err
}

func (c *checker) bad(t *mailroom.Thread, format string, args ...any) {
	c.report.Findings = append(c.report.Findings, Finding{Thread: t.ID, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) thread(t *mailroom.Thread) error {
	runs, err := c.r.Runs(mailroom.RunQuery{Thread: t.ID})
	if err != nil {
		return err
	}
	byID := map[string]*mailroom.Run{}
	for _, r := range runs {
		byID[r.ID] = r
		if err := c.run(t, r); err != nil {
			return err
		}
	}
	c.current(t, byID[t.Current])
	tickets, err := c.tickets(t, byID)
	if err != nil {
		return err
	}
	if err := c.due(t, runs, tickets); err != nil {
		return err
	}
	if err := c.keys(t, runs); err != nil {
		return err
	}
	return c.log(t, byID)
}

// current: at most one run is in the works, and the thread row says which.
func (c *checker) current(t *mailroom.Thread, r *mailroom.Run) {
	switch {
	case t.Current == "" && t.Worker != "":
		c.bad(t, "worker %s is set without a current run", t.Worker)
	case t.Current == "":
	case r == nil:
		c.bad(t, "current run %s does not exist", t.Current)
	case (t.Worker != "") != (r.Status == mailroom.Running):
		c.bad(t, "worker %q is set while its current run %s is %s", t.Worker, r.ID, r.Status)
	case t.Worker != "" && c.workers[t.Worker] == nil:
		c.bad(t, "run %s is held by worker %s, which does not exist", r.ID, t.Worker)
	}
}

func (c *checker) run(t *mailroom.Thread, r *mailroom.Run) error {
	started := !r.StartedAt.IsZero() && !r.Status.Finished()
	if (started || r.Status == mailroom.Running) && t.Current != r.ID {
		c.bad(t, "run %s is %s and has started, but the current run is %q", r.ID, r.Status, t.Current)
	}
	if r.Status != mailroom.Failed && (r.Failures >= r.MaxAttempts || r.Crashes >= mailroom.MaxCrashes || r.Lost >= mailroom.MaxLost) {
		c.bad(t, "run %s is %s with %d failures and %d crashes", r.ID, r.Status, r.Failures, r.Crashes)
	}
	if r.Status == mailroom.Failed && r.Error == nil {
		c.bad(t, "run %s failed without an error", r.ID)
	}
	if r.FirstSeq < t.FirstSeq {
		c.bad(t, "run %s begins at %d, before the first entry kept, %d", r.ID, r.FirstSeq, t.FirstSeq)
	}
	for _, s := range r.Steers {
		if !s.Read && !s.Retracted && r.ID != t.Current {
			c.bad(t, "steered message %s is unread and its run %s is not current", s.Message, r.ID)
		}
	}
	return c.partials(t, r)
}

// partials: only a running run has flushed text, in pieces that abut.
func (c *checker) partials(t *mailroom.Thread, r *mailroom.Run) error {
	pieces, err := c.r.Partials(r.ID)
	if err != nil {
		return err
	}
	if len(pieces) > 0 && r.Status != mailroom.Running {
		c.bad(t, "run %s is %s and has flushed text", r.ID, r.Status)
	}
	offset := 0
	for _, p := range pieces {
		if p.Offset != offset {
			c.bad(t, "flushed text of run %s has a piece at %d, expected at %d", r.ID, p.Offset, offset)
		}
		offset += len(p.Text)
	}
	return nil
}

// due recomputes the scheduling columns.
func (c *checker) due(t *mailroom.Thread, runs []*mailroom.Run, tickets []*mailroom.Ticket) error {
	loaded := mailroom.Load(t)
	for _, k := range tickets {
		loaded.AdoptTicket(k)
	}
	var queue, held []*mailroom.Run
	for _, r := range runs {
		loaded.Adopt(r)
		if r.NeverStarted() && r.Held {
			held = append(held, r)
		} else if r.NeverStarted() {
			queue = append(queue, r)
		}
	}
	loaded.Fill(mailroom.QueueRuns, queue, true)
	loaded.Fill(mailroom.HeldRuns, held, true)
	if t.Current != "" && loaded.Run(t.Current) == nil {
		return nil // reported already
	}
	want, heldAt := loaded.Expected(c.now)
	if !t.HeldAt.Equal(heldAt) {
		c.bad(t, "held_at is %v, the runs say %v", t.HeldAt, heldAt)
	}
	got := t.Due
	timed := t.Current != "" || len(queue) == 0 // else any time since the queue began is right
	if got.At.IsZero() != want.At.IsZero() || got.Agent != want.Agent || got.Priority != want.Priority ||
		got.Alone != want.Alone || timed && !got.At.Equal(want.At) || got.At.After(c.now) && !timed {
		c.bad(t, "due is %+v, the runs say %+v", got, want)
	}
	return nil
}

// keys: a submit key names a run of its thread that knows it.
func (c *checker) keys(t *mailroom.Thread, runs []*mailroom.Run) error {
	seen := map[string]string{}
	for _, r := range runs {
		if r.SubmitKey == "" {
			continue
		}
		if first := seen[r.SubmitKey]; first != "" {
			c.bad(t, "key %q made two runs, %s and %s", r.SubmitKey, first, r.ID)
		}
		seen[r.SubmitKey] = r.ID
		rows, err := c.r.Keys(t.ID, []string{r.SubmitKey})
		if err != nil {
			return err
		}
		if len(rows) != 1 {
			c.bad(t, "key %q of run %s is not remembered", r.SubmitKey, r.ID)
		}
	}
	return nil
}
