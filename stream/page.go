package stream

import (
	"context"
	"slices"

	"mailroom"
)

// A page is what is read in one view. A view is never held while a reader takes
// its events, so the size of a page bounds what a slow reader holds in memory.
const (
	pageSize  = 100
	pageBytes = 64 << 10 // of entries
)

// page is what one view gave a reader.
type page struct {
	thread  *mailroom.Thread
	gap     *Gap
	after   int64 // the cursor, moved into what is kept
	entries []mailroom.Entry
	last    bool // entries reach the end of the log: what follows is set, as of then

	claim    claim              // who writes, if the reader does not know
	partials []mailroom.Partial // what was flushed of it, if text was asked for
	done     bool               // the Until condition holds
}

// readPage takes the next page of the log in one view.
func (f *follower) readPage(ctx context.Context, text bool) (*page, error) {
	var p *page
	err := f.view.View(ctx, func(r mailroom.Reader) error {
		t, err := f.findThread(r)
		if err != nil {
			return err
		}
		p = &page{thread: t, after: f.seq}
		if p.gap = gap(t, f.seq); p.gap != nil {
			p.after = max(t.FirstSeq-1, min(f.seq, t.LastSeq))
		}
		if p.after < t.LastSeq {
			p.entries, err = r.Entries(mailroom.EntryQuery{
				Thread: t.ID, After: p.after, Run: f.q.Run, Limit: pageSize, Bytes: pageBytes,
			})
			if err != nil {
				return err
			}
		}
		n, cut := mailroom.FirstEntries(p.entries, pageBytes)
		p.last = len(p.entries) < pageSize && !cut
		if len(n) < len(p.entries) {
			p.entries = slices.Clone(n) // so that the last one is not held
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

// readText adds who writes now, if the reader must be told, and with text what
// is flushed of it.
func (f *follower) readText(r mailroom.Reader, p *page, text bool) error {
	t := p.thread
	if t.Worker == "" || f.q.Run != "" && f.q.Run != t.Current {
		return nil // nobody writes what is asked for
	}
	if p.gap != nil || !f.knowsClaim {
		run, err := findRun(r, t.Current)
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

// findThread returns the row of the thread that is followed. Before the first
// page it also makes sure that the run is one of its runs.
func (f *follower) findThread(r mailroom.Reader) (*mailroom.Thread, error) {
	if f.key == 0 {
		return findTarget(r, f.q)
	}
	t, err := findThread(r, f.q.Thread)
	if err == nil && t.Key != f.key {
		return nil, unknownThread(t.ID) // deleted, and made anew under its id
	}
	return t, err
}

// findTarget returns the thread of a query whose run, if it names one, is of that
// thread.
func findTarget(r mailroom.Reader, q Query) (*mailroom.Thread, error) {
	t, err := findThread(r, q.Thread)
	if err == nil && q.Key != 0 && t.Key != q.Key {
		return nil, unknownThread(t.ID)
	}
	if err != nil || q.Run == "" {
		return t, err
	}
	run, err := findRun(r, q.Run)
	if err != nil {
		return nil, err
	}
	if run == nil || run.Thread != t.ID {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q in thread %q", q.Run, t.ID)
	}
	return t, nil
}

func findThread(r mailroom.Reader, id string) (*mailroom.Thread, error) {
	threads, err := r.Threads(mailroom.ThreadQuery{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(threads) == 0 {
		return nil, unknownThread(id)
	}
	return threads[0], nil
}

// findRun returns nil for an unknown run.
func findRun(r mailroom.Reader, id string) (*mailroom.Run, error) {
	runs, err := r.Runs(mailroom.RunQuery{IDs: []string{id}})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return runs[0], nil
}

func unknownThread(id string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
}

// gap is nil for a cursor from which nothing is missing.
func gap(t *mailroom.Thread, after int64) *Gap {
	if after >= t.FirstSeq-1 && after <= t.LastSeq {
		return nil
	}
	return &Gap{After: after, Oldest: t.FirstSeq, Last: t.LastSeq}
}

// satisfied says whether the Until condition holds as of this view. It cannot
// change without an entry.
func satisfied(r mailroom.Reader, q Query, t *mailroom.Thread) (bool, error) {
	id := q.Run
	switch {
	case q.Until == UntilForever:
		return false, nil
	case id != "": // its own status tells
	case t.Current == "":
		return t.Due.At.IsZero(), nil // else a run is queued, for now or later
	case q.Until == UntilSettled || t.Worker != "":
		return false, nil
	default:
		id = t.Current
	}
	run, err := findRun(r, id)
	if err != nil || run == nil {
		return false, err
	}
	return run.Status.Finished() || q.Until == UntilWaiting && run.Status == mailroom.StatusWaiting, nil
}
