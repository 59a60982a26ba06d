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
	"mailroom/entry"
	"mailroom/internal/digest"
)

// finish lets all runs end and checks the result: nothing is left unfinished, every log reads as before, a second
// server on the folder is refused, and doctor finds nothing.
func (t *torture) finish(ctx context.Context, s *process) error {
	at := t.target(s)
	defer at.http.CloseIdleConnections()
	p := plan{kind: atPoint, seed: t.seed}
	h := t.newUser(at, p, 1000)
	for o := t.journal.unansweredSubmit(true); o != nil; o = t.journal.unansweredSubmit(true) {
		h.retryUnanswered(o)
	}
	working, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { t.newUser(at, p, 1001).decideLoop(working, true) })
	for _, r := range t.steady {
		wg.Go(func() { r.followAll(working, at) })
	}
	err := t.waitIdle(ctx, h.client)
	end()
	wg.Wait()
	if err != nil {
		return err
	}
	for range 2 { // the second check covers what the first has collected
		if err := t.check(ctx, s); err != nil {
			return err
		}
	}
	for _, l := range t.allLogs() {
		if l.isIncomplete() {
			continue
		}
		l.inspect(func(s *threadState) {
			for _, what := range s.unfinished() {
				t.violation(l.thread, "after all runs ended: %s", what)
			}
		})
	}
	for _, o := range t.journal.since(1) {
		if (o.Kind == "submit" || o.Kind == "repeat") && o.Outcome == done && isOnce(o.Text) && t.texts[o.Text] != 1 &&
			!t.log(o.Thread).isIncomplete() {
			t.violation(o.Thread, "operation %d was answered, but its message occurs %d times", o.N, t.texts[o.Text])
		}
	}
	t.judgeDelivery()
	t.judgeSchedules()
	if err := t.readAgain(ctx, h.client); err != nil {
		return err
	}
	if err := t.checkSecondServer(ctx, t.plain); err != nil {
		t.violation("", "%v", err)
	}
	t.runDoctor(ctx, "live")
	return context.Cause(ctx)
}

// waitIdle waits until no run is queued, running or waiting.
func (t *torture) waitIdle(ctx context.Context, c *client.Client) error {
	for end := time.Now().Add(2 * waitTimeout); ; {
		stats, err := c.Stats(ctx)
		if err != nil {
			return fmt.Errorf("wait for all runs to end: %w", err)
		}
		left := stats.Runs[mailroom.StatusQueued] + stats.Runs[mailroom.StatusRunning] + stats.Runs[mailroom.StatusWaiting]
		if left == 0 {
			return nil
		}
		if time.Now().After(end) {
			t.violation("", "%d runs did not end: %v", left, stats.Runs)
			return errors.New("some runs did not end")
		}
		pause(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// readAgain reads every log again, from its first entry.
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
				t.violation(l.thread, "thread %s has no entry after %d, but its row says that the last is %d", l.thread, after,
					row.LastSeq)
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

// runDoctor runs doctor on the store.
func (t *torture) runDoctor(ctx context.Context, state string) {
	for _, program := range []string{t.plain, t.old} {
		if program == "" {
			continue
		}
		if err := t.doctor(ctx, program, ""); err != nil {
			if ctx.Err() == nil {
				t.violation("", "the %s store: %v", state, err)
			}
			return
		}
		t.counts.examined.Add(1)
	}
}

// checkCopy makes a consistent copy of the store while the server works, and runs doctor on the copy.
func (t *torture) checkCopy(ctx context.Context) {
	backup := filepath.Join(t.dir, fmt.Sprintf("backup-%d.db", t.counts.cycles.Load()))
	if err := t.doctor(ctx, t.plain, backup); err != nil {
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

// judgeDelivery checks that each message of a thread with deliver_to is in the target thread once, and likewise each
// end of a run without a message.
func (t *torture) judgeDelivery() {
	from, to := t.log(t.threads.delivers), t.log(t.threads.delivered)
	if from.isIncomplete() || to.isIncomplete() {
		return
	}
	entries, _ := from.entriesFrom(1)
	maybe := map[string]bool{}
	to.inspect(func(s *threadState) {
		for _, e := range entries {
			id := digest.ID("deliver", e.Run, fmt.Sprint(e.Seq))
			maybe[id] = true
			var m mailroom.Message
			if e.Kind != entry.KindMessage || e.Attempt == 0 || e.Seq <= t.delivers {
				continue
			}
			if err := e.Decode(&m); err != nil {
				t.violation(from.thread, "%v", err)
				continue
			}
			if delivered := s.log.Runs[id] != nil; delivered == m.Partial {
				t.violation(from.thread, "entry %d, a message (partial: %t): delivered %t", e.Seq, m.Partial, delivered)
			}
			t.counts.sends.Add(1)
		}
		for id := range s.log.Runs {
			if !maybe[id] {
				t.violation(to.thread, "the end of run %s of thread %s was not delivered", id, to.thread)
			}
		}
	})
}
