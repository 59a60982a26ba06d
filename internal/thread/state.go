// Package thread is the state machine of a thread: one pure transition per rule, as methods of
// [State]. It does no I/O, reads no clock and makes no ids: they come in. Package ledger runs the
// transitions in transactions.
package thread

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// State is a thread with the rows that its transitions read: the thread, its current run, the
// first runs of its queue, and the runs that an operation names. A transition changes the loaded
// values and collects the entries to append, or returns an [Error] and changes nothing.
// [State.Collect] returns what must be written.
//
// Keep one State per thread and transaction, so that a transition sees the earlier ones. The
// loader must load the current run, and before each transition the rows that
// [State.RowsNeeded] asks for.
type State struct {
	mailroom.Thread

	runs      map[string]*mailroom.Run // loaded and new runs, one value per run
	queue     window                   // runs that never started and are not scheduled, by (Priority, Place)
	scheduled window                   // scheduled runs, by (NotBefore, Place)
	known     map[string]store.SubmitKey
	tickets   map[string]*mailroom.Ticket // of the current run, and those that an operation names

	submitted []mailroom.Message // messages submitted in this transaction
	head      mailroom.Due       // head of the queue according to the row; zero once that is unknown

	touched bool
	dirty   []*mailroom.Run // changed runs, in order of their first change
	isDirty map[string]bool
	entries []mailroom.Entry
	keys    []store.SubmitKey
	dropped []string        // runs whose flushed text is dropped
	pieces  []store.Partial // flushed after dropped was set

	dirtyTickets []string // ids, in order of their first change
	outgoing     []Submit // to other threads, see Outgoing
	ended        []ChildEnd
}

// NewState returns the state of a row that a transaction locked.
func NewState(row *mailroom.Thread) *State {
	t := &State{
		Thread:    *row,
		runs:      map[string]*mailroom.Run{},
		known:     map[string]store.SubmitKey{},
		tickets:   map[string]*mailroom.Ticket{},
		isDirty:   map[string]bool{},
		queue:     window{less: byPlace, contains: inQueue},
		scheduled: window{less: byNotBefore, contains: isScheduled},
	}
	if t.Current == "" && t.HeldAt.IsZero() {
		t.head = t.Due
	}
	idle := t.Current == "" && t.Due.At.IsZero()
	t.queue.whole = idle
	t.scheduled.whole = idle || t.HeldAt.IsZero()
	return t
}

// Scope is how much of a thread's queue a transition reads.
type Scope int

const (
	ScopeRow  Scope = iota // the row and the current run
	ScopeHead              // and the next run
	ScopeAll               // and every run that never started
)

const firstPage, allRows = 3, 1 << 40

// RowsNeeded returns how many rows of the queue and of the scheduled runs must be loaded, with
// SetQueue, before a transition of this scope at now. Zero means none. Call it again after
// SetQueue.
func (t *State) RowsNeeded(s Scope, now time.Time) (queue, held int) {
	// Scheduled runs that are due enter the queue first.
	if !t.scheduled.loaded(2) || s == ScopeAll && !t.scheduled.whole {
		due := !t.HeldAt.After(now)
		if due || s != ScopeRow {
			held = t.scheduled.nextPage(s)
		}
	} else if n := len(t.scheduled.runs); !t.scheduled.whole && !t.scheduled.runs[n-1].NotBefore.After(now) {
		held = t.scheduled.nextPage(s)
	}
	if s == ScopeAll && !t.queue.whole || s == ScopeHead && !t.queue.loaded(2) {
		queue = t.queue.nextPage(s)
	}
	return queue, held
}

// SetQueue sets the first rows of set, as the store returned them. whole reports that there are no
// more.
func (t *State) SetQueue(set store.RunSet, rows []*mailroom.Run, whole bool) {
	w := &t.queue
	if set == store.RunsScheduled {
		w = &t.scheduled
	}
	w.whole, w.runs = whole, w.runs[:0]
	var last *mailroom.Run
	for _, row := range rows {
		last = row
		t.AddRun(row)
	}
	for _, r := range t.runs {
		if w.contains(r) && (whole || last != nil && !w.less(last, r)) {
			w.runs = append(w.runs, r)
		}
	}
	slices.SortFunc(w.runs, w.compare)
}

// AddRun adds a loaded run, unless a value for it exists. It returns the value in use.
func (t *State) AddRun(row *mailroom.Run) *mailroom.Run {
	if r, ok := t.runs[row.ID]; ok {
		return r
	}
	t.runs[row.ID] = row
	return row
}

// Run returns a loaded or new run, or nil.
func (t *State) Run(id string) *mailroom.Run { return t.runs[id] }

// AddKey adds the row of a submit key.
func (t *State) AddKey(k store.SubmitKey) {
	if _, ok := t.known[k.Key]; !ok {
		t.known[k.Key] = k
	}
}

// HasKey reports whether the submit key was loaded or used in this transaction.
func (t *State) HasKey(key string) bool {
	_, ok := t.known[key]
	return ok
}

// Entries returns the entries collected so far.
func (t *State) Entries() []mailroom.Entry { return t.entries }

// Changed reports whether a transition changed anything.
func (t *State) Changed() bool { return t.touched }

// NewInQueue counts the runs in the queue that the store does not have yet.
func (t *State) NewInQueue() int {
	n := 0
	for _, r := range t.dirty {
		if r.Key == 0 && r.NeverStarted() {
			n++
		}
	}
	return n
}

// Collect adds the changes of the transitions to c.
func (t *State) Collect(c *store.Changes) {
	if !t.touched {
		return
	}
	c.Threads = append(c.Threads, &t.Thread)
	c.Runs = append(c.Runs, t.dirty...)
	if len(t.entries) > 0 {
		c.Entries = append(c.Entries, t.entries)
	}
	c.Keys = append(c.Keys, t.keys...)
	for _, id := range t.dirtyTickets {
		c.Tickets = append(c.Tickets, t.tickets[id])
	}
	c.DropPartials = append(c.DropPartials, t.dropped...)
	c.Partials = append(c.Partials, t.pieces...)
}

// cachedRuns bounds how many runs of a queue a cached thread keeps.
const cachedRuns = 4

// Trim prepares t for reuse by a later transaction, after its changes were written: it drops the
// changes and keeps the current run and the head of the queue. It returns false if t is not worth
// caching or would be incomplete.
func (t *State) Trim() bool {
	t.touched, t.dirty, t.entries, t.keys = false, nil, nil, nil
	t.dropped, t.pieces, t.dirtyTickets, t.outgoing, t.ended, t.submitted = nil, nil, nil, nil, nil, nil
	t.head = mailroom.Due{}
	clear(t.isDirty)
	clear(t.known)
	if len(t.tickets) > 0 || t.idle() {
		return false // the loader loads tickets together with their run
	}
	t.queue.trim()
	t.scheduled.trim()
	known := slices.Concat(t.queue.runs, t.scheduled.runs)
	if c := t.current(); c != nil {
		known = append(known, c)
	}
	clear(t.runs)
	if len(known) == 0 {
		return false
	}
	for _, r := range known {
		if r.Asked > 0 {
			return false
		}
		t.runs[r.ID] = r
	}
	return true
}

// current returns the current run, or nil.
func (t *State) current() *mailroom.Run {
	if t.Current == "" {
		return nil
	}
	r := t.runs[t.Current]
	if r == nil {
		panic("mailroom: the current run of thread " + t.ID + " is not loaded")
	}
	return r
}

// Touch marks the row as changed. Every change to a thread increments Revision, so a cached
// state is valid as long as the row has the same revision.
func (t *State) Touch() {
	if !t.touched {
		t.touched = true
		t.Revision++
	}
}

// touchRun marks r as changed and moves it to its position in the queue.
func (t *State) touchRun(r *mailroom.Run) {
	t.Touch()
	t.runs[r.ID] = r
	t.queue.place(r)
	t.scheduled.place(r)
	t.updateHead(r)
	if !t.isDirty[r.ID] {
		t.isDirty[r.ID] = true
		t.dirty = append(t.dirty, r)
	}
}

// updateHead updates the head of a queue that is not loaded: a new run precedes the head only by
// priority.
func (t *State) updateHead(r *mailroom.Run) {
	switch {
	case r.Key != 0 || !inQueue(r):
		t.head = mailroom.Due{}
	case !t.head.At.IsZero() && r.Priority < t.head.Priority:
		t.head = mailroom.Due{At: t.head.At, Agent: r.Agent, Priority: r.Priority, LastAttempt: r.OnLastAttempt()}
	}
}

// append adds an entry to the log and returns its seq.
func (t *State) append(kind string, r *mailroom.Run, now time.Time, body any) int64 {
	e, err := entry.New(t.ID, t.LastSeq+1, kind, r.ID, r.Attempt, now, body)
	if err != nil {
		panic(err) // bodies are plain structs or checked JSON
	}
	t.LastSeq++
	t.Bytes += int64(len(e.Raw))
	t.UpdatedAt = now
	t.Touch()
	t.entries = append(t.entries, e)
	return t.LastSeq
}

// AppendEntry appends an entry without a run and returns its seq. It creates the thread for owner,
// with agent, if there is none. body is one of the entry bodies, or checked JSON.
func (t *State) AppendEntry(agent, owner, kind string, body any, now time.Time) int64 {
	t.Open(agent, owner, now)
	return t.append(kind, &mailroom.Run{}, now, body)
}

// promote moves the scheduled runs that are due to the end of the queue.
func (t *State) promote(now time.Time) {
	for len(t.scheduled.runs) > 0 && !t.scheduled.runs[0].NotBefore.After(now) {
		r := t.scheduled.runs[0]
		r.Scheduled = false
		r.Place = t.nextPlace()
		t.touchRun(r)
	}
}

func (t *State) nextPlace() int64 {
	if t.NextPlace == 0 {
		t.NextPlace = 1
	}
	t.NextPlace++
	return t.NextPlace - 1
}

// schedule ends every transition. It is the only function that sets the due columns.
func (t *State) schedule(now time.Time) {
	t.Touch()
	if t.scheduled.whole || len(t.scheduled.runs) > 0 {
		t.HeldAt = t.scheduled.first().NotBefore
	}
	t.Due = t.nextDue(now)
}

func (t *State) nextDue(now time.Time) mailroom.Due {
	if c := t.current(); c != nil {
		at := c.AvailableAt
		switch c.Status {
		case mailroom.StatusRunning:
			return mailroom.Due{At: c.ClaimEnds} // due for the ledger, which ends the claim
		case mailroom.StatusWaiting:
			at = t.expiry(c)
		}
		if at.IsZero() {
			return mailroom.Due{}
		}
		return mailroom.Due{At: at, Agent: c.Agent, Priority: c.Priority, LastAttempt: c.OnLastAttempt()}
	}
	if len(t.queue.runs) > 0 {
		at := now
		if t.Due.Agent != "" && t.Due.At.Before(now) {
			at = t.Due.At // keep the time, so that threads with a backlog take turns
		}
		h := t.queue.runs[0]
		return mailroom.Due{At: at, Agent: h.Agent, Priority: h.Priority, LastAttempt: h.OnLastAttempt()}
	}
	if !t.queue.whole && !t.head.At.IsZero() {
		return t.head
	}
	if !t.queue.whole {
		panic("mailroom: the queue of thread " + t.ID + " is not loaded")
	}
	if len(t.scheduled.runs) > 0 {
		h := t.scheduled.runs[0]
		return mailroom.Due{At: h.NotBefore, Agent: h.Agent, Priority: h.Priority, LastAttempt: h.OnLastAttempt()}
	}
	return mailroom.Due{}
}

// window is the loaded start of an ordered set of runs.
type window struct {
	runs     []*mailroom.Run
	whole    bool // runs has the whole set
	asked    int
	less     func(a, b *mailroom.Run) bool
	contains func(*mailroom.Run) bool
}

// trim keeps the first cachedRuns runs.
func (w *window) trim() {
	w.asked = 0
	if len(w.runs) > cachedRuns {
		w.runs, w.whole = slices.Clone(w.runs[:cachedRuns]), false
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

func (w *window) first() *mailroom.Run {
	if len(w.runs) == 0 {
		return &mailroom.Run{}
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

func inQueue(r *mailroom.Run) bool     { return r.NeverStarted() && !r.Scheduled }
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

// ExpectedDue computes the scheduling columns at now, for consistency checks. All runs that never
// started must be loaded. The time of a queued thread is not derivable: it keeps the one of the
// row.
func (t *State) ExpectedDue(now time.Time) (due mailroom.Due, heldAt time.Time) {
	return t.nextDue(now), t.scheduled.first().NotBefore
}
