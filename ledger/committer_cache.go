package ledger

import (
	"sync"
	"time"

	"mailroom"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// threadCache keeps the state of threads with a current run or a queue after a transaction, to save
// the next one from loading it. An entry is used only if the locked row still has its revision. A
// batch removes the entries it uses and puts them back after its commit.
//
// The cache has two generations. An entry that is not used while a new generation fills up is
// dropped.
type threadCache struct {
	young, old map[string]*thread.State
	runs       int // number of runs in young
}

// firstRead is when this server read its store for the first time, in the time of the transactions. All lanes share it:
// a lane whose first batch comes late has not started late.
type firstRead struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

// since returns the time of the first read. The first call sets it to the given time.
func (f *firstRead) since(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.IsZero() {
		f.at = now
	}
	return f.at
}

// Bounds of each generation.
const (
	maxCachedThreads = 2048
	maxCachedRuns    = 16384 // of all its threads; those of the last one may exceed it
)

func newThreadCache() threadCache {
	return threadCache{young: map[string]*thread.State{}, old: map[string]*thread.State{}}
}

// version returns the version of a cached thread, zero if it is not cached.
func (r *threadCache) version(id string) store.Version {
	if t := r.get(id); t != nil {
		return store.VersionOf(&t.Thread)
	}
	return store.Version{}
}

// meters returns the meters that count a cached thread.
func (r *threadCache) meters(id string) []string {
	if t := r.get(id); t != nil {
		return countedOf(t).keys()
	}
	return nil
}

func (r *threadCache) get(id string) *thread.State {
	if t, ok := r.young[id]; ok {
		return t
	}
	return r.old[id]
}

// hasRun reports whether a run is cached with its thread.
func (r *threadCache) hasRun(thread, run string) bool {
	t := r.get(thread)
	return t != nil && t.Run(run) != nil
}

// pop removes and returns the cached state of a locked row, or returns a new one.
func (r *threadCache) pop(row *mailroom.Thread) *thread.State {
	t := r.get(row.ID)
	if r.young[row.ID] != nil {
		r.runs -= t.Runs.Len()
	}
	delete(r.young, row.ID)
	delete(r.old, row.ID)
	if t == nil || store.VersionOf(&t.Thread) != store.VersionOf(row) {
		return thread.NewState(row)
	}
	return t
}

func (r *threadCache) put(t *thread.State) {
	if !t.Trim() {
		return
	}
	if len(r.young) >= maxCachedThreads || r.runs >= maxCachedRuns {
		r.young, r.old, r.runs = r.old, r.young, 0
		clear(r.young)
	}
	r.young[t.ID] = t
	r.runs += t.Runs.Len()
}

// reservationCache keeps the reservations of projects after a transaction, by thread. Entries are
// used like those of threadCache.
type reservationCache map[string]struct {
	at   store.Version
	held *project.Index
}

// Bounds of the reservationCache: the reservations of two full projects.
const (
	maxCachedReservations = 2 * project.MaxReservations
	maxCachedProjects     = 256 // projects
)

// pop removes and returns the reservations of a thread at this revision, or nil.
func (h reservationCache) pop(thread string, at store.Version) *project.Index {
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
	kept.at, kept.held = store.VersionOf(&p.Thread.Thread), p.Reservations()
	h[p.Thread.ID] = kept
	n := 0
	for _, k := range h {
		n += 1 + k.held.Len()
	}
	if n > maxCachedReservations || len(h) > maxCachedProjects {
		clear(h)
	}
}
