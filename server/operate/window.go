package operate

import (
	"context"
	"time"

	"mailroom/server/internal/request"
	"mailroom/store"
)

// createdSlack is how far the order of keys may differ from the order of creation: the transactions
// of servers overlap, and a clock may step back.
const createdSlack = time.Minute

// window is a range of the keys of runs: from low, and below high unless it is 0.
type window struct{ low, high int64 }

// createdWindow returns the keys of the runs that a filter's range of created can match. Keys grow in
// the order of creation, so the range needs no index. For a caller that does not see all threads it looks at its own
// runs only, and for one with a namespace it has all keys: the keys of its runs say nothing about those of others.
func (h *ListHandlers) createdWindow(ctx context.Context, f request.Filter) (w window, err error) {
	who := request.CallerOf(ctx)
	from, before := f.Span("created")
	if from.IsZero() && before.IsZero() || !who.SeesAll() && who.Namespace != "" {
		return window{}, nil
	}
	err = h.find.View(ctx, func(rd store.Reader) (err error) {
		w, err = readWindow(rd, request.OwnerOfAll(who), from, before)
		return err
	})
	return w, err
}

// readWindow returns the keys of the runs of an owner ("" means all owners) that were created at or after from and
// before the time before; a zero time is no bound. It may also return keys of runs created up to createdSlack and
// nearby outside of this range.
func readWindow(rd store.Reader, owner string, from, before time.Time) (w window, err error) {
	if !from.IsZero() {
		w.low, _, err = keysAt(rd, owner, from.Add(-createdSlack))
	}
	if err == nil && !before.IsZero() {
		_, w.high, err = keysAt(rd, owner, before.Add(createdSlack))
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

// nearby is how close in time two runs are between which keysAt looks no further.
const nearby = 5 * time.Second

// keysAt returns two keys of the runs of an owner ("" means all owners) around a time; both are at least 1. The runs
// below low were created before the time, the runs from high on were not, and the runs from low up to high were
// created within nearby of it. It reads the newest and the oldest run and, for a time between them, bisects the keys:
// each step reads one run. If the order of keys differs from that of creation, the result is inexact by as much, so a
// caller adds createdSlack.
func keysAt(rd store.Reader, owner string, at time.Time) (low, high int64, err error) {
	return keysAround(func(from int64, oldest bool) (row made, err error) {
		rows, err := rd.Runs(store.RunQuery{Owner: owner, From: from, Oldest: oldest, Limit: 1})
		for _, r := range rows {
			row = made{r.Key, r.CreatedAt}
		}
		return row, err
	}, at)
}

// made is when the row with a key was created. The zero value is no row.
type made struct {
	key int64
	at  time.Time
}

// ticketAt reads one ticket for keysAround.
func ticketAt(rd store.Reader, owner string) func(from int64, oldest bool) (made, error) {
	return func(from int64, oldest bool) (row made, err error) {
		rows, err := rd.Tickets(store.TicketQuery{Owner: owner, From: from, Oldest: oldest, Limit: 1})
		for _, k := range rows {
			row = made{k.Key, k.OpenedAt}
		}
		return row, err
	}
}

// keysAround is keysAt for the rows that read returns: the first one behind a key, or below it unless oldest is set.
func keysAround(read func(from int64, oldest bool) (made, error), at time.Time) (low, high int64, err error) {
	late, err := read(0, false)
	if err != nil || late.key == 0 {
		return 1, 1, err
	}
	if late.at.Before(at) {
		return late.key + 1, late.key + 1, nil
	}
	early, err := read(0, true)
	if err != nil || early.key == 0 || !early.at.Before(at) {
		return 1, 1, err
	}
	// early was created before at. late was not, and no row has a key from end up to that of late.
	end := late.key
	for end-early.key > 1 && late.at.Sub(early.at) > nearby {
		middle := early.key + (end-early.key)/2
		next, err := read(middle-1, true)
		switch {
		case err != nil:
			return 0, 0, err
		case next.key == 0 || next.key >= end: // no row lies between middle and end
			end = middle
		case next.at.Before(at):
			early = next
		default:
			late, end = next, middle
		}
	}
	return early.key + 1, end, nil
}
