package server

import (
	"context"
	"time"

	"mailroom/internal/filter"
	"mailroom/store"
)

// createdSlack is how far the order of keys may differ from that of creation: the transactions of
// servers overlap, and a clock may step back.
const createdSlack = time.Minute

// window is a range of the keys of runs: from low, and below high unless it is 0.
type window struct{ low, high int64 }

// createdWindow returns the keys of the runs that a filter's range of created can match. Keys grow in
// the order of creation, so the range needs no index.
func (h *runHandlers) createdWindow(ctx context.Context, f filter.Filter) (w window, err error) {
	from, before := f.Span("created")
	if from.IsZero() && before.IsZero() {
		return window{}, nil
	}
	err = h.find.view(ctx, func(rd store.Reader) (err error) {
		w, err = readWindow(rd, from, before)
		return err
	})
	return w, err
}

// readWindow returns the keys of the runs that were created from a time until before another one; zero
// is no bound.
func readWindow(rd store.Reader, from, before time.Time) (w window, err error) {
	if !from.IsZero() {
		w.low, err = keyAt(rd, from.Add(-createdSlack))
	}
	if err == nil && !before.IsZero() {
		w.high, err = keyAt(rd, before.Add(createdSlack))
	}
	return w, err
}

// start returns where a query of the window begins.
func (w window) start(oldest bool) int64 {
	if oldest {
		return max(w.low-1, 0)
	}
	return w.high
}

func (w window) contains(key int64) bool {
	return key >= w.low && (w.high == 0 || key < w.high)
}

// keyAt returns the lowest key, at least 1, so that the runs from it on were created at or after a
// time. It reads the newest and the oldest run and, for a time between them, bisects the keys: each step
// reads one run. If the order of keys differs from that of creation, the result is inexact by as much, so a
// caller adds createdSlack.
func keyAt(rd store.Reader, at time.Time) (int64, error) {
	newest, err := rd.Runs(store.RunQuery{Limit: 1})
	if err != nil || len(newest) == 0 {
		return 1, err
	}
	if newest[0].CreatedAt.Before(at) {
		return newest[0].Key + 1, nil
	}
	oldest, err := rd.Runs(store.RunQuery{Oldest: true, Limit: 1})
	if err != nil || len(oldest) == 0 || !oldest[0].CreatedAt.Before(at) {
		return 1, err
	}
	// The next run above early was created before at, the next one above late was not or does not exist.
	early, late := oldest[0].Key-1, newest[0].Key
	for late-early > 1 {
		middle := early + (late-early)/2
		next, err := rd.Runs(store.RunQuery{From: middle, Oldest: true, Limit: 1})
		switch {
		case err != nil:
			return 0, err
		case len(next) == 0 || !next[0].CreatedAt.Before(at):
			late = middle
		default:
			early = next[0].Key - 1
		}
	}
	return late + 1, nil
}
