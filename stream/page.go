package stream

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// A page is read in one view, which is closed before its events are emitted. Its size bounds the
// memory of a slow reader.
const (
	pageSize  = 100
	pageBytes = 64 << 10 // bytes of entries in one page
)

// page is the result of one view.
type page struct {
	thread  *mailroom.Thread
	gap     *Gap
	after   int64 // the cursor, moved into the kept range
	entries []mailroom.Entry
	last    bool // entries reach the end of the log; only then the fields below are set

	claim    claim           // the current claim, if the reader does not know it
	partials []store.Partial // flushed text of the current run, if requested
	done     bool            // the Until condition holds
}

// readPage reads the next page of the log in one view.
func (f *follower) readPage(ctx context.Context, text bool) (*page, error) {
	var p *page
	err := f.view.View(ctx, func(rd store.Reader) error {
		r := &runReader{Reader: rd}
		t, err := f.findThread(r)
		if err != nil {
			return err
		}
		p = &page{thread: t, after: f.seq}
		if p.gap = gap(t, f.seq); p.gap != nil {
			p.after = max(t.FirstSeq-1, min(f.seq, t.LastSeq))
		}
		if p.after < t.LastSeq {
			p.entries, err = r.Entries(store.EntryQuery{
				Thread: t.ID, After: p.after, Run: f.q.Run, Limit: pageSize, Bytes: pageBytes,
			})
			if err != nil {
				return err
			}
		}
		n, cut := entry.First(p.entries, pageBytes)
		p.last = len(p.entries) < pageSize && !cut
		if len(n) < len(p.entries) {
			p.entries = slices.Clone(n) // release the memory of the last entry
		}
		if !p.last {
			return nil
		}
		if f.key == 0 || f.judgedAt != t.LastSeq {
			if p.done, err = satisfied(r, f.q, t); err != nil {
				return err
			}
		}
		return f.readText(r, p, text)
	})
	return p, err
}

// readText adds the current claim if the reader does not know it, and with text its flushed text.
func (f *follower) readText(r *runReader, p *page, text bool) error {
	t := p.thread
	if f.q.NoText || t.Worker == "" || f.q.Run != "" && f.q.Run != t.Current {
		return nil // no run that the query selects writes a message
	}
	if p.gap != nil || !f.knowsClaim {
		run, err := r.findRun(t.Current)
		if err != nil {
			return err
		}
		if run != nil {
			p.claim = claim{run: run.ID, attempt: run.Attempt}
		}
	}
	var err error
	if text {
		p.partials, err = r.Partials(t.Current)
	}
	return err
}

// findThread returns the row of the followed thread. Before the first page it also checks the
// query's run.
func (f *follower) findThread(r *runReader) (*mailroom.Thread, error) {
	if f.key == 0 {
		return findTarget(r, f.q)
	}
	t, err := findThread(r, f.q.Thread)
	if err == nil && t.Key != f.key {
		return nil, unknownThread(t.ID) // deleted and recreated under the same id
	}
	return t, err
}

// findTarget returns the thread of a query and checks that its run, if any, belongs to the thread.
func findTarget(r *runReader, q Query) (*mailroom.Thread, error) {
	t, err := findThread(r, q.Thread)
	if err == nil && q.Key != 0 && t.Key != q.Key {
		return nil, unknownThread(t.ID)
	}
	if err != nil || q.Run == "" {
		return t, err
	}
	run, err := r.findRun(q.Run)
	if err != nil {
		return nil, err
	}
	if run == nil || run.Thread != t.ID {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q in thread %q", q.Run, t.ID)
	}
	return t, nil
}

func findThread(r store.Reader, id string) (*mailroom.Thread, error) {
	threads, err := r.Threads(store.ThreadQuery{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(threads) == 0 {
		return nil, unknownThread(id)
	}
	return threads[0], nil
}

// runReader reads one snapshot. It keeps the last run, because the run that a query selects is mostly the current one.
type runReader struct {
	store.Reader
	run *mailroom.Run // nil: none was found
}

// findRun returns nil for an unknown run.
func (r *runReader) findRun(id string) (*mailroom.Run, error) {
	if r.run != nil && r.run.ID == id {
		return r.run, nil
	}
	runs, err := r.Runs(store.RunQuery{IDs: []string{id}})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	r.run = runs[0]
	return r.run, nil
}

func unknownThread(id string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
}

// gap returns nil if no entry after the cursor is missing.
func gap(t *mailroom.Thread, after int64) *Gap {
	if after >= t.FirstSeq-1 && after <= t.LastSeq {
		return nil
	}
	return &Gap{After: after, Oldest: t.FirstSeq, Last: t.LastSeq}
}

// satisfied reports whether the Until condition holds in this view. It can only change with a new
// entry.
func satisfied(r *runReader, q Query, t *mailroom.Thread) (bool, error) {
	id := q.Run
	switch {
	case q.Until == UntilForever:
		return false, nil
	case id != "": // the query selects this run: its status decides
	case t.Current == "":
		return t.Due.At.IsZero(), nil // false if a run is queued or scheduled
	case q.Until == UntilSettled || t.Worker != "":
		return false, nil
	default:
		id = t.Current
	}
	run, err := r.findRun(id)
	if err != nil || run == nil {
		return false, err
	}
	return run.Status.Finished() || q.Until == UntilWaiting && run.Status == mailroom.StatusWaiting, nil
}
