package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// meter is a row that the batch has locked, with its changes so far. A meter that says nothing at the end of the batch
// is dropped, so that a key costs no row while nothing counts for it.
type meter struct {
	store.Meter
	was store.Meter
}

// loadMeters locks and reads meters that the batch does not have yet, in one step.
func (r *rows) loadMeters(keys ...string) error {
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return r.meters[key] != nil })
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return r.load(store.Need{Meters: slices.Compact(missing)})
}

// meter returns a meter to read and change. It was named by the operation, or loaded with loadMeters.
func (r *rows) meter(key string) *meter { return r.meters[key] }

func (r *rows) addMeters(list []store.Meter) {
	for _, m := range list {
		if r.meters[m.Key] == nil {
			r.meters[m.Key] = &meter{m, m}
		}
	}
}

// collectMeters adds the changed meters to the changes of the batch.
func collectMeters(tx *transaction, all *store.Changes) {
	for _, key := range slices.Sorted(maps.Keys(tx.rows.meters)) {
		m := tx.rows.meters[key]
		switch {
		case m.Meter == m.was:
		case isSpent(tx, m.Meter):
			all.DropMeters = append(all.DropMeters, key)
		default:
			all.Meters = append(all.Meters, m.Meter)
		}
	}
}

// isSpent reports whether a meter says nothing from now on: a rate that is used up until a time in the past says as
// much as a missing row.
func isSpent(tx *transaction, m store.Meter) bool {
	if strings.HasPrefix(m.Key, thread.MeterPrefix) && !m.At.After(tx.now()) {
		m.At = time.Time{}
	}
	return m.Blank()
}

// counted has the meters that count a thread.
type counted struct {
	places []string // in their Count: the run of the thread is running, or a place is kept for it
	waits  string   // in its Turns: the thread waits at the gate of a key; "": it does not
	paced  string   // in its Tokens: a start of a key is kept for the thread, which has a place too; "": none is
}

func countedOf(t *thread.State) (c counted) {
	c.places, c.waits, c.paced = thread.Counted(&t.Thread)
	return c
}

func (c counted) is(o counted) bool {
	return c.waits == o.waits && c.paced == o.paced && slices.Equal(c.places, o.places)
}

func (c counted) keys() []string {
	if c.waits == "" {
		return c.places
	}
	return append(slices.Clone(c.places), c.waits)
}

// recount brings the meters of limits up to the threads of the batch. It adds the difference between the rows as they
// were locked, or last counted, and as they are: so whatever begins or ends a claim is counted, and a transition that
// forgets to count cannot exist. Freed places of keys go to the threads that wait for them.
func recount(tx *transaction) error {
	if !tx.rows.counts {
		return nil
	}
	var changed []string // threads
	var keys []string
	for id, was := range tx.rows.before {
		if now := countedOf(tx.rows.threads[id]); !was.counted.is(now) {
			changed = append(changed, id)
			keys = append(append(keys, was.counted.keys()...), now.keys()...)
		}
	}
	if len(changed)+len(tx.gates) == 0 {
		return nil
	}
	if err := tx.rows.loadMeters(keys...); err != nil {
		return err
	}
	for _, id := range changed {
		count(tx, tx.rows.threads[id])
	}
	return openGates(tx)
}

// count counts the change of one thread. The meters are loaded.
func count(tx *transaction, t *thread.State) {
	was := tx.rows.before[t.ID]
	for _, key := range was.counted.places {
		tx.rows.meter(key).Count--
		freePlace(tx, key)
	}
	if key := was.counted.waits; key != "" {
		tx.rows.meter(key).Turns--
	}
	if key := was.counted.paced; key != "" {
		tx.rows.meter(key).Tokens--
	}
	now := countedOf(t)
	for _, key := range now.places {
		tx.rows.meter(key).Count++
	}
	if now.waits != "" {
		tx.rows.meter(now.waits).Turns++
	}
	if now.paced != "" {
		tx.rows.meter(now.paced).Tokens++
	}
	was.counted = now
	tx.rows.before[t.ID] = was
}

// freePlace makes those look again who may wait for a place of a limit.
func freePlace(tx *transaction, key string) {
	agent, ofAgent := agentOf(key)
	gate, ofKey := thread.MeterGate(key)
	switch {
	case ofAgent:
		tx.forecast.look(agent, tx.options)
		tx.freed[agent] = true
	case ofKey:
		tx.gates[gate] = true
	case strings.HasPrefix(key, thread.BudgetMeterPrefix): // it only lists a thread
	default:
		clear(tx.forecast.idle) // of an owner, whose runs may be any agent's
	}
}
