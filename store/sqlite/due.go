package sqlite

import (
	"cmp"
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	// dueBehind reads only the index, in its order. After a thread with a later due time, all other threads of the
	// same priority are due later too, so Due continues with the next priority.
	dueBehind = `SELECT key, due_at, due_priority FROM thread
		WHERE due_at IS NOT NULL AND due_agent = ? AND due_alone = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key`

	// These statements do the same for the threads of one owner, and step from owner to owner. Each statement is a
	// seek in an index, whatever the number of due threads.
	dueOfOwner = `SELECT key, due_at, due_priority FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner = ? AND due_priority > ?
		ORDER BY due_priority, due_at, key`
	dueFirstOwner = `SELECT due_owner FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner IS NOT NULL ORDER BY due_owner LIMIT 1`
	dueNextOwner = `SELECT due_owner FROM thread
		WHERE due_agent = ? AND due_alone = ? AND due_owner > ? ORDER BY due_owner LIMIT 1`
)

// dueAgentFrom reads the next agent in the index of due threads.
const dueAgentFrom = `SELECT t.key, t.body FROM thread t WHERE t.due_at IS NOT NULL AND t.due_agent >= ?
	ORDER BY t.due_agent LIMIT 1`

// Due implements [store.Tx].
func (t *tx) Due(
	now time.Time, wants []store.Capacity, known store.Known,
) (_ *store.Loaded, next time.Time, err error) {
	var keys []int64
	for _, want := range wants {
		of := t.dueOf
		switch {
		case want.Agent == "":
			of = overdueClaims{t}.find
		case want.Share != nil:
			of = t.dueShared
		}
		ready, later, err := of(now, want)
		if err != nil {
			return nil, time.Time{}, t.fail("find due threads", err)
		}
		for _, d := range ready {
			keys = append(keys, d.key)
		}
		if len(ready) < want.Slots && !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
	}
	var due store.Loaded
	if due.Threads, err = t.withKeys(keys, known); err != nil {
		return nil, time.Time{}, t.fail("read due threads", err)
	}
	n := store.Need{Known: known}
	for _, row := range due.Threads {
		n.Queues = append(n.Queues, row.ID)
	}
	return &due, next, due.Complete(t, n)
}

// dueThread is a row of an index of due threads.
type dueThread struct {
	key      int64
	at       time.Time
	priority int64
}

// dueOf returns the due threads for want, and the earliest later due time among the
// priorities that it read.
func (t *tx) dueOf(now time.Time, want store.Capacity) ([]dueThread, time.Time, error) {
	return t.dueAmong(now, want.Slots, dueBehind, want.Agent, bit(want.LastAttempt))
}

// dueAmong does what dueOf does, for the threads that the statement text selects with args and a priority.
func (t *tx) dueAmong(
	now time.Time, most int, text string, args ...any,
) (ready []dueThread, later time.Time, err error) {
	behind := int64(math.MinInt64)
	for len(ready) < most {
		met := false
		of := append(args[:len(args):len(args)], behind)
		err := t.session.query(t.ctx, text, of, func(c *columns) (bool, error) {
			d := dueThread{key: c.Int64(), at: c.Time(), priority: c.Int64()}
			if !d.at.After(now) {
				if _, ok := t.store.seen[d.key]; !ok {
					ready = append(ready, d)
				}
				return len(ready) < most, nil
			}
			if later.IsZero() || d.at.Before(later) {
				later = d.at
			}
			behind, met = d.priority, true
			return false, nil
		})
		if err != nil || !met {
			return ready, later, err
		}
	}
	return ready, later, nil
}

// dueShared is dueOf under a Share: it reads the owners one after the other, each up to
// its share, and merges their threads in order.
func (t *tx) dueShared(now time.Time, want store.Capacity) (ready []dueThread, _ time.Time, err error) {
	text, args := dueFirstOwner, []any{want.Agent, bit(want.LastAttempt)}
	for {
		owner, found := "", false
		err := t.session.query(t.ctx, text, args, func(c *columns) (bool, error) {
			owner, found = c.Text(), true
			return false, nil
		})
		if err != nil {
			return nil, time.Time{}, err
		}
		if !found {
			break
		}
		text, args = dueNextOwner, []any{want.Agent, bit(want.LastAttempt), owner}
		own, _, err := t.dueAmong(now, min(want.Slots, want.Share.Left(owner)), dueOfOwner, args...)
		if err != nil {
			return nil, time.Time{}, err
		}
		ready = append(ready, own...)
	}
	return firstDue(ready, want.Slots), time.Time{}, nil
}

// firstDue sorts due threads, and returns at most most of them.
func firstDue(ready []dueThread, most int) []dueThread {
	slices.SortFunc(ready, func(a, b dueThread) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), a.at.Compare(b.at), cmp.Compare(a.key, b.key))
	})
	return ready[:min(len(ready), most)]
}

// withKeys returns the threads of the keys, in their order.
func (t *tx) withKeys(keys []int64, known store.Known) ([]*mailroom.Thread, error) {
	found := make(map[int64]*mailroom.Thread, len(keys))
	var unknown []int64
	for _, key := range keys {
		if row, ok := t.known(key, known); ok {
			found[key] = row
		} else {
			unknown = append(unknown, key)
		}
	}
	for args := range inLists(unknown) {
		err := t.session.query(t.ctx, threadsWith+"t.key "+in(args), args, func(c *columns) (bool, error) {
			thread, err := scanThread(c)
			if err == nil {
				found[thread.Key] = thread
				t.note(thread, logEnd{c.Int64(), c.Int64()})
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	threads := make([]*mailroom.Thread, len(keys))
	for i, key := range keys {
		threads[i] = found[key]
	}
	return threads, nil
}

// dueEach returns one thread with a due time for each agent. It steps from agent to agent in the index, so its cost
// does not depend on the number of threads. Gates and claims have the names before AfterGates.
func (r reader) dueEach() ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	for from := store.AfterGates; ; {
		n := len(found)
		err := r.query("read due agents", dueAgentFrom, []any{from}, func(c *columns) (bool, error) {
			t, err := scanThread(c)
			found = append(found, t)
			return false, err
		})
		if err != nil || len(found) == n {
			return found, err
		}
		from = found[n].Due.Agent + "\x00" // the smallest name after this agent's
	}
}
