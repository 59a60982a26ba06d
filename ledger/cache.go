package ledger

import (
	"mailroom"
	"mailroom/internal/thread"
	"mailroom/project"
)

// threadCache keeps the state of threads with a current run or a queue after a transaction, to save
// the next one from loading it. An entry is used only if the locked row still has its revision. A
// batch removes the entries it uses and puts them back after its commit.
//
// The cache has two generations. An entry that is not used while a new generation fills up is
// dropped.
type threadCache struct {
	young, old map[string]*thread.State
}

// maxCachedThreads bounds each generation.
const maxCachedThreads = 2048

func newThreadCache() threadCache {
	return threadCache{young: map[string]*thread.State{}, old: map[string]*thread.State{}}
}

// pop removes and returns the cached state of a locked row, or returns a new one.
func (r *threadCache) pop(row *mailroom.Thread) *thread.State {
	t, ok := r.young[row.ID]
	if !ok {
		t = r.old[row.ID]
	}
	delete(r.young, row.ID)
	delete(r.old, row.ID)
	if t == nil || t.Key != row.Key || t.Revision != row.Revision {
		return thread.NewState(row)
	}
	return t
}

func (r *threadCache) put(t *thread.State) {
	if !t.Trim() {
		return
	}
	if len(r.young) >= maxCachedThreads {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
	r.young[t.ID] = t
}

// revision identifies a state of a thread. Everything that belongs to a thread is written with its
// row, so cached values are valid while the row has the same revision.
type revision struct{ key, number int64 }

func revisionOf(row *mailroom.Thread) revision { return revision{row.Key, row.Revision} }

// reservationCache keeps the reservations of projects after a transaction, by thread. Entries are
// used like those of threadCache.
type reservationCache map[string]struct {
	at   revision
	held *project.Index
}

// Bounds of the reservationCache: the reservations of two full projects.
const (
	maxCachedReservations = 2 * project.MaxReservations
	maxCachedProjects     = 256 // projects
)

// pop removes and returns the reservations of a thread at this revision, or nil.
func (h reservationCache) pop(thread string, at revision) *project.Index {
	kept, ok := h[thread]
	delete(h, thread)
	if !ok || kept.at != at {
		return nil
	}
	return kept.held
}

func (h reservationCache) put(p *project.State) {
	if p.Thread.Key == 0 {
		return
	}
	kept := h[p.Thread.ID]
	kept.at, kept.held = revisionOf(&p.Thread.Thread), p.Reservations()
	h[p.Thread.ID] = kept
	n := 0
	for _, k := range h {
		n += 1 + k.held.Len()
	}
	if n > maxCachedReservations || len(h) > maxCachedProjects {
		clear(h)
	}
}
