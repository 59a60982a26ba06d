package thread

import (
	"slices"
	"time"

	"mailroom"
)

// Scope is how much of a thread's queue a transition reads.
type Scope int

const (
	ScopeRow  Scope = iota // the thread's row and the current run
	ScopeHead              // loads also the next run of the queue
	ScopeJoin              // as ScopeHead, and the run that waits for more messages, if there is one
	ScopeAll               // loads also every run that never started
)

const firstPage, allRows = 3, 1 << 40

// queue is the loaded part of a thread's runs that never started.
type queue struct {
	ready     window // runs that only wait for their turn, ordered by (Priority, Place)
	scheduled window // runs that enter the queue at a time, ordered by (NotBefore, Place)
	// head describes the first run of the queue as the thread's row has it, so a submit need not load that run. Its
	// Agent names no server. head is zero once the first run is unknown.
	head mailroom.Due
	// newHead is the run that head describes, if it is not the one of the row.
	newHead *mailroom.Run
}

// newQueue returns the queue of a thread with this row. No run is loaded.
func newQueue(row *mailroom.Thread) queue {
	idle := isIdle(row)
	q := queue{
		ready:     window{whole: idle, less: byPlace, contains: isReady},
		scheduled: window{whole: idle || row.HeldAt.IsZero(), less: byNotBefore, contains: isScheduled},
	}
	if row.Current == "" && row.HeldAt.IsZero() {
		q.head = row.Due
		q.head.Agent, _ = ParseDueAgent(row.Due.Agent)
		if row.Kept && row.Paced && row.UpdatedAt.Before(q.head.At) {
			q.head.At = row.UpdatedAt // Due.At is the time of its start, see paced
		}
	}
	return q
}

// rowsNeeded is [State.RowsNeeded] for a thread whose row has this HeldAt.
func (q *queue) rowsNeeded(s Scope, heldAt, now time.Time) (ready, scheduled int) {
	// Scheduled runs that are due enter the queue first.
	if !q.scheduled.loaded(2) || s == ScopeAll && !q.scheduled.whole {
		due := !heldAt.After(now)
		if due || s != ScopeRow {
			scheduled = q.scheduled.nextPage(s)
		}
	} else if n := len(q.scheduled.runs); !q.scheduled.whole && !q.scheduled.runs[n-1].NotBefore.After(now) {
		scheduled = q.scheduled.nextPage(s)
	} else if s == ScopeJoin && !q.hasJoin(now) {
		scheduled = q.scheduled.nextPage(s)
	}
	if s == ScopeAll && !q.ready.whole || (s == ScopeHead || s == ScopeJoin) && !q.ready.loaded(2) {
		ready = q.ready.nextPage(s)
	}
	return ready, scheduled
}

// place moves a new or changed run to its position.
func (q *queue) place(r *mailroom.Run) {
	q.ready.place(r)
	q.scheduled.place(r)
	switch { // a new run precedes a head that is not loaded only by priority
	case r.Key != 0 || !isReady(r):
		q.head, q.newHead = mailroom.Due{}, nil
	case !q.head.At.IsZero() && r.Priority < q.head.Priority:
		q.head, q.newHead = dueOf(r, q.head.At), r
	}
}

// due returns the Due of a thread without a current run, and the gate of the run that a claim would start. Its Agent
// names no server, see withNode. row has the previous Due, whose time is kept while runs are queued.
func (q *queue) due(row *mailroom.Thread, now time.Time) (due mailroom.Due, gate string) {
	if r := q.ready.first(); r != nil {
		at := now
		if row.Due.Agent != "" && row.Due.At.Before(now) {
			at = row.Due.At // keep the time, so that threads with a backlog take turns
		}
		return dueOf(r, at), gateOf(row, r)
	}
	if !q.ready.whole && !q.head.At.IsZero() {
		if q.newHead != nil {
			return q.head, gateOf(row, q.newHead)
		}
		return q.head, row.Gate
	}
	if !q.ready.whole {
		panic("mailroom: the queue of thread " + row.ID + " is not loaded")
	}
	if r := q.scheduled.first(); r != nil {
		return dueOf(r, r.NotBefore), ""
	}
	return mailroom.Due{}, ""
}

// heldAt returns the earliest NotBefore of the loaded scheduled runs, or zero.
func (q *queue) heldAt() time.Time {
	if r := q.scheduled.first(); r != nil {
		return r.NotBefore
	}
	return time.Time{}
}

// joining returns the loaded run that waits for more messages, or nil. A thread has at most one.
func (q *queue) joining() *mailroom.Run {
	if i := slices.IndexFunc(q.scheduled.runs, func(r *mailroom.Run) bool { return r.Joins }); i >= 0 {
		return q.scheduled.runs[i]
	}
	return nil
}

// hasJoin reports whether enough runs are loaded to know the run that waits for more messages: that run and a run
// behind it, or so many that there is no such run. The run waits no longer than mailroom.MaxJoin, so few runs are
// before it.
func (q *queue) hasJoin(now time.Time) bool {
	w := &q.scheduled
	if w.whole || len(w.runs) == 0 {
		return w.whole
	}
	last, r := w.runs[len(w.runs)-1], q.joining()
	return last.NotBefore.After(now.Add(mailroom.MaxJoin)) || r != nil && r != last
}

// newest returns the loaded run with the highest place that match accepts, or nil.
func (q *queue) newest(match func(*mailroom.Run) bool) *mailroom.Run {
	var newest *mailroom.Run
	for _, w := range []*window{&q.ready, &q.scheduled} {
		for _, r := range w.runs {
			if match(r) && (newest == nil || r.Place > newest.Place) {
				newest = r
			}
		}
	}
	return newest
}

// remove removes the loaded runs that match accepts and returns them.
func (q *queue) remove(match func(*mailroom.Run) bool) []*mailroom.Run {
	var removed []*mailroom.Run
	for _, w := range []*window{&q.ready, &q.scheduled} {
		var kept []*mailroom.Run // rebuilt in one pass: removing one by one is quadratic
		for _, r := range w.runs {
			if match(r) {
				removed = append(removed, r)
			} else {
				kept = append(kept, r)
			}
		}
		w.runs = kept
	}
	return removed
}

// Bounds of the runs that each window of a cached thread keeps: minKept, or up to maxAhead that were read ahead.
const (
	minKept      = 4
	maxAhead     = 16
	maxAheadSize = 32 << 10 // bytes of options of runs beyond minKept
)

// trim drops the loaded runs behind the start of each window, and returns the runs that stay.
func (q *queue) trim() []*mailroom.Run {
	q.head, q.newHead = mailroom.Due{}, nil
	q.ready.trim()
	q.scheduled.trim()
	return slices.Concat(q.ready.runs, q.scheduled.runs)
}

// dueOf returns the scheduling columns for a run that is due at at, without its server.
func dueOf(r *mailroom.Run, at time.Time) mailroom.Due {
	return mailroom.Due{At: at, Agent: r.Agent, Priority: r.Priority, LastAttempt: r.OnLastAttempt()}
}

// window is the loaded first part of an ordered set of runs, such as the runs of a thread that wait for their turn.
// The store may have thousands of them, and most transitions need one or two.
//
// The thread's row is locked, so the loaded part stays consistent with the stored set: a run that is added or moved
// is placed within the loaded part, or belongs behind it and stays unloaded. Loading the whole queue would make
// each commit as slow as the queue is long. Loading only the first run would cost one query for each run that
// starts. So each page of a thread that stays cached is twice as large as the page before it, see trim.
type window struct {
	runs     []*mailroom.Run
	whole    bool // runs is the whole set
	asked    int  // rows of the last page, or the part of the page that a cached thread keeps
	less     func(a, b *mailroom.Run) bool
	contains func(*mailroom.Run) bool
}

// trim keeps the start of the set. The next page is twice as large as the last one, up to maxAhead,
// because a thread that stays cached until its loaded runs have started has a long queue.
func (w *window) trim() {
	n, size, most := 0, 0, min(max(2*w.asked, minKept), maxAhead)
	for n < min(len(w.runs), most) && (n < minKept || size <= maxAheadSize) {
		size += len(w.runs[n].Options)
		n++
	}
	w.asked = min(w.asked, maxAhead/2)
	if size > maxAheadSize {
		w.asked = min(w.asked, n/2)
	}
	if n < len(w.runs) {
		w.runs, w.whole = slices.Clone(w.runs[:n]), false
	}
}

func (w *window) loaded(n int) bool { return w.whole || len(w.runs) >= n }

func (w *window) nextPage(s Scope) int {
	if s == ScopeAll {
		return allRows
	}
	w.asked = max(firstPage, 2*w.asked)
	return w.asked
}

// first returns the first loaded run, or nil.
func (w *window) first() *mailroom.Run {
	if len(w.runs) == 0 {
		return nil
	}
	return w.runs[0]
}

func (w *window) compare(a, b *mailroom.Run) int {
	if w.less(a, b) {
		return -1
	}
	return 1
}

// place inserts r, removes it, or moves it to its new position. A run behind the loaded part stays
// out until the next SetQueue, because unloaded rows may precede it.
func (w *window) place(r *mailroom.Run) {
	if i := slices.Index(w.runs, r); i >= 0 {
		w.runs = slices.Delete(w.runs, i, i+1)
	}
	n := len(w.runs)
	if !w.contains(r) || !w.whole && (n == 0 || w.less(w.runs[n-1], r)) {
		return
	}
	i, _ := slices.BinarySearchFunc(w.runs, r, w.compare)
	w.runs = slices.Insert(w.runs, i, r)
}

func isReady(r *mailroom.Run) bool     { return r.NeverStarted() && !r.Scheduled }
func isScheduled(r *mailroom.Run) bool { return r.NeverStarted() && r.Scheduled }

func byPlace(a, b *mailroom.Run) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.Place < b.Place
}

func byNotBefore(a, b *mailroom.Run) bool {
	if !a.NotBefore.Equal(b.NotBefore) {
		return a.NotBefore.Before(b.NotBefore)
	}
	return a.Place < b.Place
}
