package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mailroom"
	"mailroom/client"
	"mailroom/torture/internal/story"
)

// rest lets everything end that was begun, and checks it as a whole: nothing is
// left over, every log reads as it always did, a second server is refused, and
// the doctor finds nothing, on the live and on the stopped store.
func (t *torture) rest(ctx context.Context) error {
	s, err := t.up(ctx, t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	defer s.kill()
	at := t.target(s)
	defer at.http.CloseIdleConnections()
	p := plan{kind: atPoint, seed: t.seed}
	h := t.hand(at, p, 1000)
	for o := t.journal.unansweredSubmit(true); o != nil; o = t.journal.unansweredSubmit(true) {
		h.repeat(o)
	}
	working, end := context.WithCancel(ctx)
	var crew sync.WaitGroup
	crew.Go(func() { t.hand(at, p, 1001).decider(working, true) })
	for _, r := range t.steady {
		crew.Go(func() { r.steady(working, at) })
	}
	err = t.quiet(ctx, h.client)
	end()
	crew.Wait()
	if err != nil {
		return err
	}
	for range 2 { // the second time for what the first has found out
		if err := t.check(ctx, s); err != nil {
			return err
		}
	}
	for _, l := range t.allLogs() {
		if l.isBlind() {
			continue
		}
		l.look(func(s *story.Story) {
			for _, what := range s.Rest() {
				t.violation(l.thread, "at rest: %s", what)
			}
		})
	}
	for _, o := range t.journal.since(1) {
		if (o.Kind == "submit" || o.Kind == "repeat") && o.Outcome == done && isOnce(o.Text) && t.texts[o.Text] != 1 && !t.log(o.Thread).isBlind() {
			t.violation(o.Thread, "operation %d was answered, and its message is there %d times", o.N, t.texts[o.Text])
		}
	}
	t.judgeDelivery()
	if err := t.readAgain(ctx, h.client); err != nil {
		return err
	}
	if err := t.refused(ctx, t.plain); err != nil {
		t.violation("", "%v", err)
	}
	t.examine(ctx, "live")
	s.kill()
	t.examine(ctx, "stopped")
	return context.Cause(ctx)
}

// quiet waits until nothing is queued, running or waiting.
func (t *torture) quiet(ctx context.Context, c *client.Client) error {
	for end := time.Now().Add(2 * patience); ; {
		stats, err := c.Stats(ctx)
		if err != nil {
			return fmt.Errorf("wait for rest: %w", err)
		}
		left := stats.Runs[mailroom.StatusQueued] + stats.Runs[mailroom.StatusRunning] + stats.Runs[mailroom.StatusWaiting]
		if left == 0 {
			return nil
		}
		if time.Now().After(end) {
			t.violation("", "%d runs did not end: %v", left, stats.Runs)
			return errors.New("not everything came to rest")
		}
		pause(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// readAgain reads every log once more, from its first entry.
func (t *torture) readAgain(ctx context.Context, c *client.Client) error {
	for _, l := range t.allLogs() {
		if l.length() == 0 {
			continue
		}
		row, err := c.Thread(ctx, l.thread)
		if err != nil {
			return fmt.Errorf("read thread %s again: %w", l.thread, err)
		}
		for after := row.OldestSeq - 1; after < row.LastSeq; {
			page, err := c.Entries(ctx, l.thread, client.EntriesQuery{After: after, Limit: 500})
			if err != nil {
				return fmt.Errorf("read thread %s again: %w", l.thread, err)
			}
			if len(page.Items) == 0 {
				t.violation(l.thread, "thread %s has no entry after %d, and says that its last is %d", l.thread, after, row.LastSeq)
				break
			}
			for _, e := range page.Items {
				if e.Seq != after+1 {
					t.violation(l.thread, "entry %d follows entry %d in the list of thread %s", e.Seq, after, l.thread)
				}
				after = e.Seq
				l.add(e, "the list at the end")
			}
		}
	}
	return nil
}

// examine asks the doctor.
func (t *torture) examine(ctx context.Context, state string) {
	if err := t.doctor(ctx, ""); err != nil {
		if ctx.Err() == nil {
			t.violation("", "the %s store: %v", state, err)
		}
		return
	}
	t.counts.examined.Add(1)
}

// copied has a consistent copy made while the server works, and examined.
func (t *torture) copied(ctx context.Context) {
	backup := filepath.Join(t.dir, fmt.Sprintf("backup-%d.db", t.counts.cycles.Load()))
	if err := t.doctor(ctx, backup); err != nil {
		if ctx.Err() == nil {
			t.violation("", "a copy of the live store: %v", err)
		}
		return
	}
	t.counts.copies.Add(1)
	if err := os.Remove(backup); err != nil {
		t.violation("", "%v", err)
	}
}

// judgeDelivery: everything that the thread with a deliver_to said is in the
// other one, once, and so is each end without a word.
func (t *torture) judgeDelivery() {
	from, to := t.log(t.plots.delivers), t.log(t.plots.delivered)
	if from.isBlind() || to.isBlind() {
		return
	}
	entries, _ := from.entriesFrom(1)
	maybe := map[string]bool{}
	to.look(func(s *story.Story) {
		for _, e := range entries {
			id := mailroom.DeriveID("deliver", e.Run, fmt.Sprint(e.Seq))
			maybe[id] = true
			var m mailroom.Message
			if e.Kind != mailroom.KindMessage || e.Attempt == 0 || e.Seq <= t.delivers {
				continue
			}
			if err := e.Decode(&m); err != nil {
				t.violation(from.thread, "%v", err)
				continue
			}
			if delivered := s.Runs[id] != nil; delivered == m.Partial {
				t.violation(from.thread, "entry %d, a message (partial: %t), was delivered: %t", e.Seq, m.Partial, delivered)
			}
			t.counts.sends.Add(1)
		}
		for id := range s.Runs {
			if !maybe[id] {
				t.violation(to.thread, "run %s of thread %s was delivered by nothing", id, to.thread)
			}
		}
	})
}
