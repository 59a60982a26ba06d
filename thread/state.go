// Package thread is the state machine of a thread: each rule is a pure transition, which is a method of
// [State]. The package does no I/O, reads no clock and makes no ids: its callers pass the time and the ids. Package
// ledger runs the transitions in transactions.
//
// A decision that several transitions share is a value that a transition applies: the route of the
// messages of a submit, the followUp of an attempt, and the ending of a run.
package thread

import (
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// State is a thread with the rows that its transitions read: the thread, its current run, the
// first runs of its queue, and the runs that an operation names. A transition changes the loaded
// values and collects the entries to append, or returns a [mailroom.Error] and changes nothing.
// [State.Collect] returns what must be written.
//
// Keep one State per thread and transaction, so that a transition sees the changes of earlier ones. The
// loader must load the current run, and before each transition the rows that
// [State.RowsNeeded] asks for.
type State struct {
	mailroom.Thread

	// Rows that were loaded, with the changes of this transaction.
	Runs     Runs
	Tickets  Tickets
	Keys     Keys
	Partials Partials
	Blobs    Blobs

	// ServedSince is when this server read its store for the first time. A run that waited for more messages before
	// then waits again, see [State.promote].
	ServedSince time.Time
	// Label returns the store.LabelKey for which an end of a run with this metadata is counted, or "". Nil: no label
	// is set.
	Label func(metadata map[string]string) string
	// Zone is where the periods of budgets begin. Nil: UTC.
	Zone *time.Location

	// Rows that this transaction adds.
	Outbox   Outbox
	Attempts Attempts
	entries  []mailroom.Entry
	ends     []store.Summary // ends of the thread's runs
	touched  bool
	known    messages
}

// NewState returns the state of a row that a transaction locked.
func NewState(row *mailroom.Thread) *State {
	return &State{Thread: *row, Runs: Runs{byID: map[string]*mailroom.Run{}, queue: newQueue(row)}}
}

// RowsNeeded returns how many rows of the queue and of the scheduled runs must be loaded, with
// [Runs.SetQueue], before a transition of this scope at now. Zero means none. Call it again after
// SetQueue.
func (t *State) RowsNeeded(s Scope, now time.Time) (ready, scheduled int) {
	return t.Runs.queue.rowsNeeded(s, t.HeldAt, now)
}

// Run returns a loaded or new run, or nil.
func (t *State) Run(id string) *mailroom.Run { return t.Runs.byID[id] }

// Entries returns the entries collected so far.
func (t *State) Entries() []mailroom.Entry { return t.entries }

// Changed reports whether a transition changed anything.
func (t *State) Changed() bool { return t.touched }

// Collect adds the changes of the transitions to c.
func (t *State) Collect(c *store.Changes) {
	if !t.touched {
		return
	}
	c.Threads = append(c.Threads, &t.Thread)
	c.Runs = append(c.Runs, t.Runs.changed...)
	if len(t.entries) > 0 {
		c.Entries = append(c.Entries, t.entries)
	}
	c.Summaries = append(c.Summaries, t.ends...)
	c.Keys = append(c.Keys, t.Keys.added...)
	for _, id := range t.Tickets.changed {
		c.Tickets = append(c.Tickets, t.Tickets.byID[id])
	}
	c.DropPartials = append(c.DropPartials, t.Partials.dropped...)
	c.Partials = append(c.Partials, t.Partials.added...)
	t.Blobs.collect(c)
}

// Trim prepares t for reuse by a later transaction, after its changes were written: it drops the
// changes and keeps the current run and the head of the queue. It returns false if t is not worth
// caching or would be incomplete.
func (t *State) Trim() bool {
	if len(t.Tickets.byID) > 0 || isIdle(&t.Thread) {
		return false // the loader loads tickets together with their run
	}
	t.touched, t.entries, t.ends, t.known = false, nil, nil, nil
	t.Attempts = Attempts{}
	t.Keys, t.Partials, t.Outbox, t.Blobs = Keys{}, Partials{}, Outbox{}, Blobs{}
	return t.Runs.trim(t.current())
}

// isIdle reports whether a thread has no current run and nothing due.
func isIdle(row *mailroom.Thread) bool { return row.Current == "" && row.Due.At.IsZero() }

// current returns the current run, or nil.
func (t *State) current() *mailroom.Run {
	if t.Current == "" {
		return nil
	}
	r := t.Run(t.Current)
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
	t.Runs.touch(r)
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

// promote moves the scheduled runs that are due to the end of the queue. A run that waited for more messages of its
// sender keeps the place that its first message took. It waits again if the server could not receive messages
// during the wait.
func (t *State) promote(now time.Time) {
	for {
		r := t.Runs.queue.scheduled.first()
		if r == nil || r.NotBefore.After(now) {
			return
		}
		if resumeJoin(t, r, now) {
			continue
		}
		r.Scheduled = false
		if !r.Joins {
			r.Place = takePlace(&t.Thread)
		}
		r.Joins = false
		t.touchRun(r)
	}
}

// takePlace returns the next place of a thread's queue.
func takePlace(row *mailroom.Thread) int64 {
	row.NextPlace = max(row.NextPlace, 1) + 1
	return row.NextPlace - 1
}

// schedule ends every transition. It is the only function that sets the due columns.
func (t *State) schedule(now time.Time) {
	t.Touch()
	if w := &t.Runs.queue.scheduled; w.whole || len(w.runs) > 0 {
		t.HeldAt = t.Runs.queue.heldAt()
	}
	due, gate := t.nextDue(now)
	rests := asleep(t, due)
	if rests != due {
		askAboutBudgets(t)
	}
	settleGate(t, gate, rests.At, now)
	t.Due = withPlace(&t.Thread, paced(&t.Thread, rests))
}

// nextDue returns the scheduling columns as if the thread could start anywhere, and the gate of the run that a claim
// would start.
func (t *State) nextDue(now time.Time) (due mailroom.Due, gate string) {
	c := t.current()
	if c == nil {
		return t.Runs.queue.due(&t.Thread, now)
	}
	at := c.AvailableAt
	switch c.Status {
	case mailroom.StatusRunning:
		return mailroom.Due{At: c.ClaimEnds}, "" // due for the ledger, which ends the claim
	case mailroom.StatusWaiting:
		at = t.Tickets.expiry(c.ID)
	default:
		gate = gateOf(&t.Thread, c)
	}
	if at.IsZero() {
		return mailroom.Due{}, ""
	}
	return dueOf(c, at), gate
}

// ExpectedDue computes the scheduling columns at now, for consistency checks. All runs that never
// started must be loaded. The time of a queued thread is not derivable: it keeps the one of the
// row.
func (t *State) ExpectedDue(now time.Time) (due mailroom.Due, heldAt time.Time) {
	due, gate := t.nextDue(now)
	due = asleep(t, due)
	if t.Gate != gate {
		due = withNode(&t.Thread, due)
	} else {
		due = withPlace(&t.Thread, paced(&t.Thread, due))
	}
	return due, t.Runs.queue.heldAt()
}
