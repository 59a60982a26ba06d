package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

const (
	// maxGateLooks bounds how often one claim looks for due threads behind those that it sends to the gates of their
	// keys. The next batch goes on.
	maxGateLooks = 8
	// gateLook is how many threads such a look asks for at least.
	gateLook = 32
	// maxLetOut bounds the threads that one commit lets out of a gate. Each of them keeps a place, whose end lets out
	// the next ones.
	maxLetOut = 64
	// maxPace is how long a thread waits for its start at most without another look, so that a rate that was raised or
	// removed does not keep it for longer.
	maxPace = 5 * time.Minute
)

// boundsOf returns the limits that bound a run, by its agent, its owner and its concurrency key.
func (o *Options) boundsOf(r *mailroom.Run, t *mailroom.Thread) []keyedLimit {
	all := o.limitsOf(r.Agent, t.Owner)
	gate := thread.KeyGate(r.Agent, t.Owner, r.LimitKey)
	if o.Limits == nil || gate == "" {
		return all
	}
	if of := o.Limits(r.Agent).Key; of.Any() {
		all = append(all, keyedLimit{of: fmt.Sprintf("agent %s with key %q", r.Agent, r.LimitKey),
			key: thread.GateMeter(gate), limit: of, named: r.LimitKey, kept: t.Gate == gate && t.Kept})
	}
	return all
}

// keyDoor decides for a claim whether a run with a concurrency key may start.
type keyDoor struct {
	limit   thread.Limit
	meter   string // of the key of the run that it has admitted; "": it has no key
	refused bool   // the run
	err     error  // of the store
}

// admitKeys makes a claim admit a run of an agent by the limit of its key.
func admitKeys(tx *transaction, r *round, by *thread.Claimant, agent string) *keyDoor {
	d := &keyDoor{limit: tx.options.Limits(agent).Key}
	if !d.limit.Any() {
		return d
	}
	by.Admit = func(gate string, kept bool) (a thread.Admission) {
		key := thread.GateMeter(gate)
		if d.err = tx.rows.loadMeters(key); d.err != nil {
			return a
		}
		if a = admit(d.limit, tx.rows.meter(key).Meter, kept, tx.now()); a.OK {
			d.meter = key
			return a
		}
		r.gated++
		d.refused, tx.rows.counts = true, true
		if d.limit.Rate.N > 0 { // a start may have become due since the gate was opened last
			tx.gates[gate] = true
		}
		return a
	}
	return d
}

// admit applies the limit of a key, which has this meter, to a run. kept says that a place is kept for its thread.
func admit(l thread.Limit, m store.Meter, kept bool, now time.Time) (a thread.Admission) {
	cause, next := thread.Admit(l, m, kept, now)
	switch a.OK = cause == ""; {
	case a.OK && l.Running > 0:
		a.Meter = m.Key
	case cause == thread.CauseRate && (kept || m.Tokens == 0 && m.Turns == 0):
		a.At = nextLook(next, now)
	}
	return a
}

// take takes a start from the rate of the key that the door has admitted.
func (d *keyDoor) take(tx *transaction) {
	if d.meter != "" {
		m := tx.rows.meter(d.meter)
		m.At = d.limit.Rate.Take(m.At, tx.now())
	}
}

// nextLook returns when a thread is due whose start is due at next: then, or after maxPace, in whole microseconds.
func nextLook(next, now time.Time) time.Time {
	if latest := now.Add(maxPace); next.After(latest) {
		next = latest
	}
	return next.Add(time.Microsecond - 1).Truncate(time.Microsecond)
}

// loadKeyMeters locks the meters of the keys of threads that may start, in one step.
func loadKeyMeters(tx *transaction, due []*thread.State) error {
	var keys []string
	for _, t := range due {
		keys = append(keys, countedOf(t).keys()...) // a kept place
		agent, _ := thread.ParseDueAgent(t.Due.Agent)
		if !tx.options.Limits(agent).Key.Any() {
			continue
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return err
		}
		if gate := thread.NextGate(t); gate != "" {
			keys = append(keys, thread.GateMeter(gate))
		}
	}
	return tx.rows.loadMeters(keys...)
}

// room returns how many threads may leave a gate, whose meter this is. A key that is bounded no more lets all out. Of a
// rate, the starts that are due may leave that are not kept for others; the next start is kept for one thread.
func (o *Options) room(m store.Meter, now time.Time) int {
	l, n := o.limitOf(m.Key), int64(maxLetOut)
	if l.Running > 0 {
		n = int64(l.Running) - m.Count
	}
	if l.Rate.N > 0 {
		starts, _ := l.Rate.Starts(m.At, now, maxLetOut)
		n = min(n, max(int64(starts), 1)-m.Tokens)
	}
	return int(max(0, min(n, m.Turns, maxLetOut)))
}

// turn returns when a thread may start that leaves a gate, see [thread.LeaveGate].
func (o *Options) turn(m store.Meter, now time.Time) time.Time {
	rate := o.limitOf(m.Key).Rate
	if rate.N == 0 {
		return time.Time{}
	}
	if n, next := rate.Starts(m.At, now, 1); n == 0 {
		return nextLook(next, now)
	}
	return now
}

// openGates gives the places and starts that became free to the threads that wait for them. Their meters are loaded.
func openGates(tx *transaction) error {
	for _, gate := range slices.Sorted(maps.Keys(tx.gates)) {
		delete(tx.gates, gate)
		m := tx.rows.meter(thread.GateMeter(gate))
		n := tx.options.room(m.Meter, tx.now())
		if n == 0 {
			continue
		}
		out, err := letOut(tx, gate, n)
		if err != nil {
			return err
		}
		if out < n {
			tx.missed[gate] = tx.tried[gate] + 1
		}
	}
	return nil
}

// letOut lets the first n threads out of a gate, in the order in which they would be claimed. It returns fewer if
// another server has locked some of them.
func letOut(tx *transaction, gate string, n int) (out int, err error) {
	var first []*thread.State
	for _, t := range tx.rows.order {
		if t.Due.Agent == gate {
			first = append(first, t)
		}
	}
	for _, last := range []bool{true, false} {
		stored, _, err := tx.rows.loadDue(tx.now(), store.Capacity{Agent: gate, Slots: n, LastAttempt: last})
		if err != nil {
			return 0, err
		}
		first = append(first, stored...)
	}
	slices.SortStableFunc(first, byDue)
	var keys []string
	for _, t := range first {
		keys = append(keys, countedOf(t).keys()...)
	}
	if err := tx.rows.loadMeters(keys...); err != nil {
		return 0, err
	}
	for _, t := range first {
		if out == n {
			break
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return out, err
		}
		at := tx.options.turn(tx.rows.meter(thread.GateMeter(gate)).Meter, tx.now())
		if thread.LeaveGate(t, gate, at, tx.now()) {
			out++
			agent, _ := thread.GateAgent(gate)
			tx.freed[agent] = true
		}
		count(tx, t)
	}
	return out, nil
}

// maxMissed bounds how often a gate is tried again whose threads another server has locked. After that, the next sweep
// of all gates opens it.
const maxMissed = 50

// tryMissed tries the gates again that the batch could not open, once their threads are no longer locked.
func tryMissed(c *committer, tx *transaction) {
	again := map[string]int{}
	for gate, tries := range tx.missed {
		if tries <= maxMissed {
			again[gate] = tries
		}
	}
	if len(again) == 0 {
		return
	}
	o := &op{name: "open_gates", rank: rankPlain, retryAt: time.Now().Add(lockRetry), done: make(chan error, 1)}
	o.apply = func(tx *transaction) error { return openAgain(tx, again) }
	_ = c.enqueue(o) // a closed ledger leaves it to others
}

// openAgain opens gates that have been tried so often.
func openAgain(tx *transaction, tried map[string]int) error {
	var keys []string
	for gate, tries := range tried {
		keys = append(keys, thread.GateMeter(gate))
		tx.gates[gate], tx.tried[gate] = true, tries
	}
	if err := tx.rows.loadMeters(keys...); err != nil {
		return err
	}
	return openGates(tx)
}
