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

// recount brings the meters of running runs up to the claims of the batch's threads. It adds the difference between the
// rows as they were locked, or last counted, and as they are: so whatever begins or ends a claim is counted, and a
// transition that forgets to count cannot exist.
func recount(tx *transaction) error {
	if !tx.rows.counts {
		return nil
	}
	var changed []string // threads
	var keys []string
	for id, was := range tx.rows.before {
		if now := tx.rows.threads[id].Meters; !slices.Equal(was.holds, now) {
			changed = append(changed, id)
			keys = append(append(keys, was.holds...), now...)
		}
	}
	if err := tx.rows.loadMeters(keys...); err != nil {
		return err
	}
	for _, id := range changed {
		countHolds(tx, tx.rows.threads[id])
	}
	return nil
}

// countHolds counts the change of what one thread holds. The meters are loaded.
func countHolds(tx *transaction, t *thread.State) {
	was := tx.rows.before[t.ID]
	for _, key := range was.holds {
		tx.rows.meter(key).Count--
		if agent, ok := agentOf(key); ok {
			tx.forecast.look(agent, tx.options)
			tx.freed[agent] = true
		} else {
			clear(tx.forecast.idle) // of an owner, whose runs may be any agent's
		}
	}
	for _, key := range t.Meters {
		tx.rows.meter(key).Count++
	}
	was.holds = t.Meters
	tx.rows.before[t.ID] = was
}
