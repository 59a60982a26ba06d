package ledger

import (
	"context"
	"slices"
	"sync"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// limitsWalk is a walk over the meters of limits, a part in each sweep, which begins again every walkEvery, and after a
// step back of the clock. It does what no commit of a run can do:
//
//   - It opens the gates whose key has more places than before, or is bounded no longer: the configuration has changed
//     at a restart. It also opens those that a server has passed by which knows no gates: of an older version.
//   - It drops the meters of rates that are used up until a time in the past, of owners, agents and keys that start
//     nothing any more.
//   - It cuts the times of rates that a slower rate has written, or a clock that has stepped back since. A claim must
//     not: its time may be older than the last start, by the time for which its process stood still.
type limitsWalk struct {
	mu    sync.Mutex
	after string    // guarded by mu; key of the last meter of the walk
	next  time.Time // guarded by mu; no part before it
}

const (
	walkEvery = time.Minute
	walkPage  = 1000 // meters in one sweep
)

// sweepLimits takes the next part of the walk over the meters of limits, if it is its time.
func (ws Workers) sweepLimits(ctx context.Context, now time.Time) error {
	walk := ws.ledger.limitsWalk
	walk.mu.Lock()
	defer walk.mu.Unlock()
	if now.Before(walk.next) && !walk.next.After(now.Add(walkEvery)) {
		return nil
	}
	q := store.MeterQuery{Prefix: thread.MeterPrefix, After: walk.after, Limit: walkPage}
	var rows []store.Meter
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		found, err := r.Count(store.CountQuery{Meters: &q})
		rows = found.Meters
		return err
	})
	if err != nil {
		return err
	}
	if err := ws.settleMeters(ctx, rows, now); err != nil {
		return err
	}
	if walk.after = ""; len(rows) == walkPage {
		walk.after = rows[walkPage-1].Key
	} else {
		walk.next = now.Add(walkEvery)
	}
	return nil
}

// settleMeters opens the gates of these meters that have room, and drops the meters that say nothing.
func (ws Workers) settleMeters(ctx context.Context, rows []store.Meter, now time.Time) error {
	var changes []string
	for _, m := range rows {
		o := &ws.ledger.options
		_, ofKey := thread.MeterGate(m.Key)
		spent := m.Count == 0 && m.Turns == 0 && !m.At.After(now)
		if ofKey && o.room(m, now) > 0 || spent || !o.cut(m, now).Equal(m.At) {
			changes = append(changes, m.Key)
		}
	}
	for part := range slices.Chunk(changes, expireBatch) {
		o := op{name: "sweep_limits", rank: rankPlain}
		if err := perform(ctx, ws.ledger, o, func(tx *transaction) error { return settleMeters(tx, part) }); err != nil {
			return err
		}
	}
	return nil
}

// cut returns the time of a meter, or the latest one that its rate can have written.
func (o *Options) cut(m store.Meter, now time.Time) time.Time {
	if at := o.limitOf(m.Key).Rate.Cut(m.At, now); m.At.After(at.Add(thread.ClockSlack)) {
		return at
	}
	return m.At
}

func settleMeters(tx *transaction, keys []string) error {
	if err := tx.rows.loadMeters(keys...); err != nil {
		return err
	}
	for _, key := range keys {
		m := tx.rows.meter(key)
		m.At = tx.options.cut(m.Meter, tx.now())
		if gate, ofKey := thread.MeterGate(key); ofKey {
			tx.gates[gate] = true
		}
		if isSpent(tx, m.Meter) {
			m.At = time.Time{} // changed, so that collectMeters drops the row
		}
	}
	return openGates(tx)
}
