package sqlite

import (
	"cmp"
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// A thread has at most one entry in the index thread_due, and one in thread_due_owner if an agent's run is due:
//
//   - a thread that a worker holds has due_agent = claimPrefix + the worker, due_at = the end of the claim in
//     microseconds, or noEnd, and due_priority = due_alone = 0. Its due_owner is NULL. So one entry answers which
//     threads a worker holds and which claims have outlived their end;
//   - a thread that waits has the columns of its Due, and its owner in due_owner if Due has an agent;
//   - any other thread has NULL in all of them.
//
// The column worker, which had an index of its own up to version 29 of the tables, is NULL. A claim and its end would
// each write a page of that index.
const (
	// claimPrefix begins the due_agent of claimed threads. No agent has such a name: each comes after
	// [store.AfterGates].
	claimPrefix = "!"
	noEnd       = math.MaxInt64
)

const (
	// nextClaims reads the claim of the next worker that ends first.
	nextClaims = `SELECT due_agent, due_at FROM thread WHERE due_at IS NOT NULL AND due_agent > ? AND due_agent < '"'
		ORDER BY due_agent, due_alone, due_priority, due_at LIMIT 1`

	claimsOf = `SELECT key FROM thread WHERE due_at IS NOT NULL AND due_agent = ?`

	// claimedThreads has the threads with a running run, at most one for each slot of a worker.
	claimedThreads = `SELECT t.key, t.body FROM thread t
		WHERE t.due_at IS NOT NULL AND t.due_agent > '!' AND t.due_agent < '"'`
)

// endOfClaim returns the value of due_at of a claimed thread.
func endOfClaim(t *mailroom.Thread) int64 {
	if t.Due.At.IsZero() {
		return noEnd
	}
	return t.Due.At.UnixMicro()
}

// overdueClaims reads the claims that have outlived their end.
type overdueClaims struct{ tx *tx }

// find is dueOf for threads that are due without an agent: those whose claim has outlived its end. It steps from
// worker to worker; each step is a seek in the index, and reads no claim that has not ended.
func (o overdueClaims) find(now time.Time, want store.Capacity) (ready []dueThread, later time.Time, err error) {
	t := o.tx
	ready, later, err = t.dueOf(now, want)
	if err != nil || want.LastAttempt {
		return ready, later, err
	}
	for worker, found := claimPrefix, true; ; {
		var ends time.Time
		found = false
		err := t.session.query(t.ctx, nextClaims, []any{worker}, func(c *columns) (bool, error) {
			worker, ends, found = c.Text(), c.Time(), true
			return false, nil
		})
		if err != nil || !found {
			return firstDue(ready, want.Slots), later, err
		}
		if !ends.After(now) {
			var own []dueThread
			if own, ends, err = t.dueAmong(now, want.Slots, dueBehind, worker, bit(false)); err != nil {
				return nil, time.Time{}, err
			}
			ready = append(ready, own...)
		}
		if ends.UnixMicro() != noEnd && !ends.IsZero() && (later.IsZero() || ends.Before(later)) {
			later = ends
		}
	}
}

// threadsOfWorker reads the threads that a worker holds.
func threadsOfWorker(r reader, q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var keys []int64
	err := r.query("read claims", claimsOf, []any{claimPrefix + q.Worker}, func(c *columns) (bool, error) {
		keys = append(keys, c.Int64())
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(keys, func(a, b int64) int {
		if q.Oldest {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	})
	var found []*mailroom.Thread
	g, more := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}, true
	for i := 0; more && i < len(keys); i++ {
		err := r.query("read threads", threadByKey, []any{keys[i]}, func(c *columns) (bool, error) {
			t, err := scanThread(c)
			if err == nil && selects(q, t) {
				found = append(found, t)
				more = g.Add(c.size)
			}
			return false, err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
