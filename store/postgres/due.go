package postgres

import (
	"errors"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
)

const (
	// The first argument is a time, NULL for the one that setClock has read.
	dueAt         = "coalesce($1::bigint, current_setting('mailroom.now')::bigint)"
	lockDue       = "SELECT n, later FROM lock_due(" + dueAt + ", $2, $3, $4, $5::text[])"
	lockDueShared = "SELECT n, later FROM lock_due_shared(" + dueAt +
		", $2, $3, $4, $5::text[], $6, $7::text[], $8::bigint[])"

	resetDue   = "SELECT set_config('mailroom.due', '', true)"
	dueFrom    = " FROM unnest(due_keys()) WITH ORDINALITY u (key, n) JOIN thread t ON t.key = u.key"
	dueThreads = "SELECT t.key, t.id, t.owner, t.revision, t.body" + dueFrom + " ORDER BY u.n"
	dueRuns    = "WITH runs AS MATERIALIZED (SELECT r.key, r.body FROM (SELECT DISTINCT t.current_run" + dueFrom +
		") t JOIN run r ON r.id = t.current_run) " + withTickets
	dueHeads = "SELECT t.id, r.pile, r.key, r.body FROM (SELECT DISTINCT t.key, t.id, t.current_run, t.due_at" +
		dueFrom + ") t" + headsOf
)

// dueRows are due threads that a transaction has locked, with what belongs to them. The rows stay
// encoded, because each answer gets values of its own.
type dueRows struct {
	at          *time.Time // the transaction's, or one of the caller
	wants       []lockedWant
	runs, heads [][][]byte
}

// lockedWant is a want with the threads that were locked for it, in order.
type lockedWant struct {
	store.Capacity
	threads []encodedThread
	found   int
	later   time.Time // the earliest later due time, unless Slots cut the want off
}

type encodedThread struct {
	id, owner string
	row       [][]byte // for loading.thread
}

func newDueRows(wants []store.Capacity, at *time.Time) *dueRows {
	d := &dueRows{at: at}
	for _, want := range wants {
		d.wants = append(d.wants, lockedWant{Capacity: want})
	}
	return d
}

// add appends to q the statements that lock and read the due threads, except the threads in skip. clock says that an
// earlier statement of the trip reads the time.
func (d *dueRows) add(q *trip, skip []string, clock bool) {
	var at any
	if !clock {
		at = d.at.UnixMicro()
	}
	q.add(nil, resetDue)
	for i := range d.wants {
		want := &d.wants[i]
		each := func(c *columns) error {
			want.found, want.later = c.Int(), c.Time()
			return nil
		}
		if want.Share == nil {
			q.add(each, lockDue, at, want.Agent, want.LastAttempt, int64(want.Slots), skip)
			continue
		}
		owners, held := []string{}, []int64{}
		for owner, n := range want.Share.Held {
			owners, held = append(owners, owner), append(held, int64(n))
		}
		q.add(each, lockDueShared, at, want.Agent, want.LastAttempt, int64(want.Slots), skip,
			int64(want.Share.Most), owners, held)
	}
	q.add(d.thread, dueThreads)
	q.add(keepRows(&d.runs), dueRuns)
	q.add(keepRows(&d.heads), dueHeads)
}

// thread adds a row to the first want that misses one: the rows are in the order of the wants.
func (d *dueRows) thread(c *columns) error {
	row := cloneRow(c.row)
	id, owner := string(row[1]), string(row[2])
	i := slices.IndexFunc(d.wants, func(w lockedWant) bool { return len(w.threads) < w.found })
	if i < 0 {
		return errors.New("more due threads were read than locked")
	}
	d.wants[i].threads = append(d.wants[i].threads, encodedThread{id, owner, slices.Delete(row, 2, 3)})
	return nil
}

// keepRows returns a function that appends copies of rows.
func keepRows(rows *[][][]byte) func(*columns) error {
	return func(c *columns) error {
		*rows = append(*rows, cloneRow(c.row))
		return nil
	}
}

// cloneRow copies a row, whose memory the connection uses again.
func cloneRow(row [][]byte) [][]byte {
	clone := make([][]byte, len(row))
	for i, v := range row {
		clone[i] = slices.Clone(v)
	}
	return clone
}

// answer returns the due threads for want, without the threads in given. ok is false if the locked threads do not
// suffice.
func (w *lockedWant) answer(want store.Capacity, given map[string]bool) (threads []encodedThread, ok bool) {
	if w.Agent != want.Agent || w.LastAttempt != want.LastAttempt {
		return nil, false
	}
	got := map[string]int{}
	for _, t := range w.threads {
		if given[t.id] || len(threads) == want.Slots || want.Share != nil && got[t.owner] >= want.Share.Left(t.owner) {
			continue
		}
		got[t.owner]++
		threads = append(threads, t)
	}
	whole := len(w.threads) < w.Slots // there are no others for w
	switch {
	case w.Share == nil && want.Share == nil:
		ok = whole || len(threads) == want.Slots
	case w.Share == nil:
		ok = whole
	case want.Share != nil:
		ok = whole && w.covers(want.Share, given)
	}
	return threads, ok
}

// covers reports whether the locked threads, without those in given, have all that each owner may get
// by share.
func (w *lockedWant) covers(share *store.Share, given map[string]bool) bool {
	left := map[string]int{} // how many more of an owner's threads may be among the locked ones
	for _, held := range []map[string]int{w.Share.Held, share.Held} {
		for owner := range held {
			left[owner] = w.Share.Left(owner)
		}
	}
	all := map[string]int{}
	for _, t := range w.threads {
		if _, ok := left[t.owner]; !ok {
			left[t.owner] = w.Share.Left(t.owner)
		}
		all[t.owner]++
		if given[t.id] {
			left[t.owner]--
		}
	}
	for owner, n := range left {
		if share.Left(owner) > max(n, 0) && all[owner] >= w.Share.Left(owner) {
			return false
		}
	}
	return share.Most <= w.Share.Most
}

// answer returns the due threads for wants at a time, without the threads in given. ok is false if the locked rows do
// not suffice.
func (d *dueRows) answer(
	at time.Time, wants []store.Capacity, known store.Known, given map[string]bool,
) (l *loading, next time.Time, ok bool, err error) {
	if d == nil || !at.Equal(*d.at) {
		return nil, next, false, nil
	}
	answers := make([]lockedWant, 0, len(wants))
	for _, want := range wants {
		ok = false
		for i := range d.wants {
			w := &d.wants[i]
			var threads []encodedThread
			if threads, ok = w.answer(want, given); ok {
				answers = append(answers, lockedWant{Capacity: want, threads: threads, later: w.later})
				break
			}
		}
		if !ok {
			return nil, next, false, nil
		}
	}
	l, next, err = d.decode(answers, known)
	return l, next, true, err
}

// decode returns the threads of wants, with what belongs to them.
func (d *dueRows) decode(wants []lockedWant, known store.Known) (l *loading, next time.Time, err error) {
	l = newLoading(known)
	for _, w := range wants {
		if len(w.threads) < w.Slots && w.Share == nil && !w.later.IsZero() && (next.IsZero() || w.later.Before(next)) {
			next = w.later
		}
		for _, t := range w.threads {
			if err := l.thread(&columns{row: t.row}); err != nil {
				return nil, next, err
			}
		}
	}
	current := map[string]bool{}
	for _, row := range l.Threads {
		l.open(row.ID)
		if row.Current != "" && !l.has(row) {
			current[row.Current] = true
		}
	}
	for _, row := range d.runs {
		if len(current) == 0 {
			break
		}
		if err := l.run(&columns{row: row}); err != nil {
			return nil, next, err
		}
	}
	l.Runs = slices.DeleteFunc(l.Runs, func(r *mailroom.Run) bool { return !current[r.ID] })
	l.Tickets = slices.DeleteFunc(l.Tickets, func(k *mailroom.Ticket) bool { return !current[k.Run] })
	for _, row := range d.heads {
		if t := l.threads[string(row[0])]; t == nil || l.has(t) {
			continue
		}
		if err := l.head(&columns{row: row}); err != nil {
			return nil, next, err
		}
	}
	l.dropKnownHeads()
	return l, next, nil
}

// Due implements [store.Tx] in one round trip, or in none if a Load has locked the threads.
func (t *tx) Due(now time.Time, wants []store.Capacity, known store.Known) (*store.Loaded, time.Time, error) {
	l, next, ok, err := t.ahead.answer(now, wants, known, t.given)
	if !ok && err == nil {
		d := newDueRows(wants, &now)
		var q trip
		d.add(&q, t.skipped(nil), false)
		if t.now.IsZero() {
			q = append(q, t.readClock())
		}
		if err := t.send("find due threads", q); err != nil {
			return nil, time.Time{}, err
		}
		t.locked = true
		l, next, err = d.decode(d.wants, known)
	}
	if err != nil {
		return nil, time.Time{}, t.fail("find due threads", err)
	}
	for _, row := range l.Threads {
		t.given[row.ID] = true
	}
	return &l.Loaded, next, nil
}
