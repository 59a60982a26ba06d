package fold

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
)

// State is the state of a run that the log shows.
type State int

const (
	StateUnqueued    State = iota // only messages of the run were logged
	StateQueued                   // the run waits for its first start, or for the start of a retry
	StateRunning                  // an attempt of the run is in progress
	StateRescheduled              // between two attempts
	StateWaiting                  // parked, or about to resume
	StateCompleted                // ended, like the two below
	StateFailed
	StateCancelled
	StatePurged // began before the first entry kept
)

func (s State) String() string {
	return [...]string{
		"not queued yet", "queued", "running", "between attempts", "waiting", "completed", "failed", "cancelled",
		"older than the log",
	}[s]
}

// Ended reports whether the run has ended.
func (s State) Ended() bool { return s == StateCompleted || s == StateFailed || s == StateCancelled }

// Run is what the log says about one run.
type Run struct {
	ID    string
	State State
	Whole bool // the log has all entries of the run
	Read  bool // the first start of the run listed its inputs

	Seen bool // the caller looked up its row
	Gone bool // the caller found no row

	Pos      int64 // grows with the places of the thread
	Priority int
	Attempt  int
	Failures int  // since it was queued, retried or last resumed
	Parked   bool // cancelled in a wait, or between a wait and its next attempt
	Lost     int  // lost claims since it was queued or retried
	Asked    int  // opened tickets
	Bytes    int64
	Inputs   uint64 // hash of the seqs that its first start lists
	End      uint64 // hash of its reply, error or reason: see Completion and Failure
	Stop     mailroom.Reason

	// Times in microseconds since 1970; 0 if the event has not happened yet.
	Started   int64
	Ended     int64
	Available int64 // when the last rescheduled entry makes it available

	LastError uint64 // hash of the error in that entry: see Retry; 0: none

	listed   bool    // the log has the queued entry, so that the priority is known
	ordered  bool    // its position is known too: it was not scheduled
	messages []int64 // seqs of its messages until they are read
	tickets  []*Ticket
}

// Micros returns a time in microseconds since 1970, which is the precision of stores.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Completion returns the text from which the hash of a completion is computed. [Failure] does so for a failure.
func Completion(reply *string, steps int) string {
	if reply == nil {
		return fmt.Sprint(steps)
	}
	return fmt.Sprint(steps, " ", *reply)
}

// Failure returns the text from which the hash of a failure is computed.
func Failure(e *mailroom.RunError, failures, crashes int) string {
	return strings.Join([]string{string(e.Class), e.Message, fmt.Sprint(failures, crashes)}, "\n")
}

// Retry returns the text from which the hash of the error of a retried attempt is computed.
func Retry(e *mailroom.RunError) string { return string(e.Class) + "\n" + e.Message }

// newRun adds a run that no earlier entry names. In a purged log the run may have begun before the
// first entry.
func (l *Log) newRun(id string) *Run {
	r := &Run{ID: id, Whole: true}
	if l.First > 1 {
		r.Whole, r.State = false, StatePurged
	}
	l.Runs[id] = r
	return r
}

// run returns the state of the run that an entry names, and checks that the entry has the run's
// attempt.
func (l *Log) run(e mailroom.Entry) *Run {
	r := l.Runs[e.Run]
	if r == nil {
		r = l.newRun(e.Run)
	}
	want := r.Attempt
	if e.Kind == entry.KindStarted || e.Kind == entry.KindResumed {
		want++
	}
	if e.Attempt != want && r.State != StatePurged {
		l.bad(RuleAttempt, e.Run, "entry %d, %s of run %s, has attempt %d, which should be %d", e.Seq, e.Kind, e.Run,
			e.Attempt, want)
	}
	r.Attempt = e.Attempt
	return r
}

// transition moves a run to the state to, and checks that its state before is one of from.
func (l *Log) transition(e mailroom.Entry, r *Run, to State, from ...State) {
	if r.State != StatePurged && !slices.Contains(from, r.State) {
		l.bad(RuleTransition, e.Run, "entry %d, %s of run %s, comes while the run is %s", e.Seq, e.Kind, e.Run, r.State)
	}
	if r.State != StatePurged || to.Ended() {
		r.State = to
	}
}

func (l *Log) queued(e mailroom.Entry, r *Run) {
	var body entry.RunQueued
	l.decode(e, &body)
	if r.State == StatePurged {
		r.State = StateUnqueued // the log has only messages of the run so far
	}
	l.transition(e, r, StateQueued, StateUnqueued)
	r.Priority, r.listed, r.ordered, r.Pos = body.Priority, true, !body.AvailableAt.After(e.At), e.Seq
	for _, id := range body.Messages {
		if _, seq := SplitID(id); seq > 0 {
			r.Pos = min(r.Pos, seq)
		}
	}
	r.Whole = r.Pos >= l.First
	l.queuedMessages(e, r, body.Messages)
	l.enqueue(r)
}

// started checks that the run is the first in the queue, and that no other run is current.
func (l *Log) started(e mailroom.Entry, r *Run) {
	var body entry.RunStarted
	l.decode(e, &body)
	if l.Current != "" && l.Current != e.Run {
		l.bad(RuleCurrent, e.Run, "entry %d starts run %s before the end of run %s", e.Seq, e.Run, l.Current)
	}
	l.Current = e.Run
	resumes := e.Kind == entry.KindResumed
	if resumes || r.Read {
		l.readSeqs(e, r, body.Messages)
	} else {
		l.lists(e, r, body.Messages)
	}
	if resumes {
		l.transition(e, r, StateRunning, StateWaiting)
		r.Failures = 0
		return
	}
	if first := l.queue.first(l.Runs); r.State == StateQueued && r.ordered && first != "" && first != e.Run {
		l.bad(RuleOrder, e.Run, "entry %d starts run %s before run %s, which was next", e.Seq, e.Run, first)
	}
	if r.Started == 0 {
		r.Started = Micros(e.At)
	}
	l.transition(e, r, StateRunning, StateQueued, StateRescheduled)
}

func (l *Log) rescheduled(e mailroom.Entry, r *Run) {
	var body entry.RunRescheduled
	l.decode(e, &body)
	if r.Stop == mailroom.ReasonBudget {
		r.Stop = "" // the next claim asks for a raise
	}
	if r.Stop != "" {
		l.bad(RuleTransition, e.Run, "entry %d reschedules run %s, which was asked to stop", e.Seq, e.Run)
	}
	if body.Behind != "" {
		l.gaveWay(e, r, body.Behind)
		return
	}
	l.transition(e, r, StateRescheduled, StateRunning)
	r.Available, r.LastError = Micros(body.AvailableAt), 0
	if body.Error != nil {
		r.LastError = l.Hash(Retry(body.Error))
	}
	switch {
	case body.Reason == entry.RescheduledLost:
		r.Lost++
	case body.Error != nil && body.Error.Class == mailroom.ClassTransient:
		r.Failures++
	}
}

// gaveWay folds the return of a started run to its place in the queue, because the run with the id behind passes it.
// The priority of that other run grows, so that it starts first.
func (l *Log) gaveWay(e mailroom.Entry, r *Run, behind string) {
	l.transition(e, r, StateQueued, StateRunning)
	if r.State != StateQueued { // the run began before the start of the log
		r.Whole, r.State = false, StateQueued
	}
	l.Current, r.Started, r.LastError = "", 0, 0
	r.ordered = r.listed
	l.enqueue(r)
	other := l.Runs[behind]
	switch {
	case other == nil || other.State == StatePurged:
	case other.State != StateQueued:
		l.bad(RuleTransition, e.Run, "entry %d lets run %s pass, which is %s", e.Seq, behind, other.State)
	case r.listed:
		other.Priority = min(other.Priority, r.Priority-1)
		l.enqueue(other)
	}
}

// ended folds the end of a run, which voids its open tickets.
func (l *Log) ended(e mailroom.Entry, r *Run) {
	switch e.Kind {
	case entry.KindCompleted:
		var body entry.RunCompleted
		l.decode(e, &body)
		from := []State{StateRunning}
		if body.Reason == mailroom.ReasonBudget { // its budget was not raised
			from = []State{StateWaiting}
		}
		r.Parked = r.State == StateWaiting
		l.transition(e, r, StateCompleted, from...)
		r.End = l.Hash(Completion(body.Reply, body.Steps))
	case entry.KindFailed:
		var body entry.RunFailed
		l.decode(e, &body)
		l.transition(e, r, StateFailed, StateQueued, StateRunning, StateRescheduled, StateWaiting)
		r.End = l.Hash(Failure(&body.Error, body.Failures, body.Crashes))
		if body.Error.Class == mailroom.ClassCrashed {
			r.Lost++
		}
	case entry.KindCancelled:
		l.cancelled(e, r)
	}
	r.Ended = Micros(e.At)
	if l.Current == e.Run {
		l.Current = ""
	}
	for _, k := range r.tickets {
		if k.State == mailroom.TicketOpen {
			k.State = mailroom.TicketVoid
		}
	}
}

// cancelled folds the end of a run that no worker holds, or that was asked to stop. This entry may be the first of
// its run: if a steered message was superseded before it was read, its own run ends without a start.
func (l *Log) cancelled(e mailroom.Entry, r *Run) {
	var body entry.RunStop
	l.decode(e, &body)
	if r.State == StateUnqueued || r.State == StatePurged {
		superseded := false
		for id, m := range l.Unread {
			if m.Own == e.Run {
				m.Fate, superseded = FateSuperseded, true
				delete(l.Unread, id)
			}
		}
		if r.State == StateUnqueued && !superseded {
			l.bad(RuleTransition, e.Run, "entry %d cancels run %s, which was never queued", e.Seq, e.Run)
		}
	}
	if r.State == StateRunning && r.Stop == "" {
		l.bad(RuleTransition, e.Run, "entry %d cancels run %s, which a worker holds, without a request to stop", e.Seq, e.Run)
	}
	r.Parked = r.State == StateWaiting
	l.transition(e, r, StateCancelled, StateUnqueued, StateQueued, StateRunning, StateRescheduled, StateWaiting)
	r.End = l.Hash(string(body.Reason))
}

func (l *Log) retried(e mailroom.Entry, r *Run) {
	var body entry.RunRetried
	l.decode(e, &body)
	l.transition(e, r, StateQueued, StateFailed, StateCancelled)
	r.Failures, r.Lost, r.Started, r.Ended, r.End, r.Stop = 0, 0, 0, 0, 0, ""
	r.Parked = false
	r.Pos = e.Seq // a retry gives a new place
	r.ordered = r.listed
	if body.Fresh {
		for _, k := range r.tickets {
			k.State = mailroom.TicketVoid
		}
	}
	l.enqueue(r)
}

// turn is a run's position in the queue of its thread.
type turn struct {
	priority int
	pos      int64
	run      string
}

// queue is a heap of the runs that have not started yet. A run that leaves the queue without a start is removed when
// it reaches the head.
type queue []turn

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].priority != q[j].priority {
		return q[i].priority < q[j].priority
	}
	return q[i].pos < q[j].pos
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(turn)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// first returns the next run to start, or "".
func (q *queue) first(runs map[string]*Run) string {
	for len(*q) > 0 {
		head := (*q)[0]
		if r := runs[head.run]; r.State == StateQueued && r.Pos == head.pos {
			return head.run
		}
		heap.Pop(q)
	}
	return ""
}

func (l *Log) enqueue(r *Run) {
	if r.ordered {
		heap.Push(&l.queue, turn{r.Priority, r.Pos, r.ID})
	}
}
