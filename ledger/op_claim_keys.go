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
)

// boundsOf returns the limits that bound a run, by its agent, its owner and its concurrency key.
func (o *Options) boundsOf(r *mailroom.Run, t *mailroom.Thread) []keyedLimit {
	all := o.limitsOf(r.Agent, t.Owner)
	gate := thread.KeyGate(r.Agent, t.Owner, r.LimitKey)
	if o.Limits == nil || gate == "" || t.Gate == gate && t.Kept {
		return all
	}
	if most := o.Limits(r.Agent).Key; most > 0 {
		all = append(all, keyedLimit{fmt.Sprintf("agent %s with key %q", r.Agent, r.LimitKey),
			thread.GateMeter(gate), thread.Limit{Running: most}, r.LimitKey})
	}
	return all
}

// keyDoor decides for the claims of a round whether runs with a concurrency key may start.
type keyDoor struct {
	err error // of the store
}

// admitKeys makes a claim admit the runs of an agent by the places of their keys.
func admitKeys(tx *transaction, r *round, by *thread.Claimant, agent string) *keyDoor {
	d := &keyDoor{}
	most := tx.options.Limits(agent).Key
	if most == 0 {
		return d
	}
	by.Admit = func(gate string, kept bool) (meter string, ok bool) {
		meter = thread.GateMeter(gate)
		if d.err = tx.rows.loadMeters(meter); d.err != nil {
			return "", false
		}
		if kept || tx.rows.meter(meter).Count < int64(most) {
			return meter, true
		}
		r.gated++
		tx.rows.counts = true
		return "", false
	}
	return d
}

// loadKeyMeters locks the meters of the keys of threads that may start, in one step.
func loadKeyMeters(tx *transaction, due []*thread.State) error {
	var keys []string
	for _, t := range due {
		keys = append(keys, countedOf(t).keys()...) // a kept place
		agent, _ := thread.ParseDueAgent(t.Due.Agent)
		if tx.options.Limits(agent).Key == 0 {
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

// room returns how many threads may leave a gate, whose meter this is. A key that is bounded no more lets all out.
func (o *Options) room(gate string, m store.Meter) int {
	n := int64(maxLetOut)
	if agent, _ := thread.GateAgent(gate); o.Limits(agent).Key > 0 {
		n = int64(o.Limits(agent).Key) - m.Count
	}
	return int(max(0, min(n, m.Turns, maxLetOut)))
}

// openGates gives the places that became free to the threads that wait for them. Their meters are loaded.
func openGates(tx *transaction) error {
	for _, gate := range slices.Sorted(maps.Keys(tx.gates)) {
		delete(tx.gates, gate)
		m := tx.rows.meter(thread.GateMeter(gate))
		n := tx.options.room(gate, m.Meter)
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
		if thread.LeaveGate(t, gate, tx.now()) {
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
