package ledger

import "mailroom"

// threadCache are threads as the last transaction left them: those with a current
// run or a queue, which the next one would have to load again. They are hints:
// one is used only if the locked row still has its revision. A batch takes them
// out, and puts them back once it is committed.
//
// It has two generations. What was not used while a new one filled is forgotten.
type threadCache struct {
	young, old map[string]*mailroom.ThreadState
}

// maxCachedThreads bounds each generation.
const maxCachedThreads = 2048

func newThreadCache() threadCache {
	return threadCache{young: map[string]*mailroom.ThreadState{}, old: map[string]*mailroom.ThreadState{}}
}

// pop returns the thread of a locked row, resting or new.
func (r *threadCache) pop(row *mailroom.Thread) *mailroom.ThreadState {
	t, ok := r.young[row.ID]
	if !ok {
		t = r.old[row.ID]
	}
	delete(r.young, row.ID)
	delete(r.old, row.ID)
	if t == nil || t.Key != row.Key || t.Revision != row.Revision {
		return mailroom.NewThreadState(row)
	}
	return t
}

func (r *threadCache) put(t *mailroom.ThreadState) {
	if !t.Trim() {
		return
	}
	if len(r.young) >= maxCachedThreads {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
	r.young[t.ID] = t
}

// revision is a state of a thread's row: what belongs to the thread is written with
// it, so whoever has seen a revision has what the store has while the row keeps it.
type revision struct{ key, number int64 }

func revisionOf(row *mailroom.Thread) revision { return revision{row.Key, row.Revision} }

// reservationCache are the reservations of projects as the last transaction left them, by
// thread. They are hints like those of resting.
type reservationCache map[string]struct {
	at   revision
	held *mailroom.ReservationIndex
}

// Bounds of what is kept: the reservations of two full projects.
const (
	maxCachedReservations = 2 * mailroom.MaxReservations
	maxCachedProjects     = 256 // projects
)

// pop returns the reservations of a thread that is at this revision, or nil.
func (h reservationCache) pop(thread string, at revision) *mailroom.ReservationIndex {
	kept, ok := h[thread]
	delete(h, thread)
	if !ok || kept.at != at {
		return nil
	}
	return kept.held
}

func (h reservationCache) put(p *mailroom.Project) {
	if p.Key == 0 {
		return
	}
	kept := h[p.ID]
	kept.at, kept.held = revisionOf(&p.Thread), p.Reservations()
	h[p.ID] = kept
	n := 0
	for _, k := range h {
		n += 1 + k.held.Len()
	}
	if n > maxCachedReservations || len(h) > maxCachedProjects {
		clear(h)
	}
}
