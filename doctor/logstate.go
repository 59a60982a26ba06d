package doctor

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
)

// logState is the state of a run by the log.
type logState int

const (
	stateUnqueued    logState = iota // only its messages were logged
	stateQueued                      // before its first start, or that of a retry
	stateRunning                     // in an attempt
	stateRescheduled                 // between two attempts
	stateWaiting                     // parked, or about to resume
	stateCompleted                   // ended, as are the two below
	stateFailed
	stateCancelled
	statePurged // began before the first entry kept
)

func (s logState) String() string {
	return [...]string{
		"not queued yet", "queued", "running", "between attempts", "waiting", "completed", "failed", "cancelled", "older than the log",
	}[s]
}

func (s logState) over() bool { return s == stateCompleted || s == stateFailed || s == stateCancelled }

// loggedRun is what the log says about one run.
type loggedRun struct {
	state logState
	begun bool // the log has all of it
	seen  bool // its row was looked up
	gone  bool // it has no row
	read  bool // its first start listed its inputs

	listed   bool // it was queued, so that its priority is known
	ordered  bool // its position is known too: it was not scheduled
	priority int
	pos      int64 // grows with the places of the thread
	attempt  int
	failures int  // since it was queued, retried or last resumed
	parked   bool // cancelled in a wait, or between a wait and its next attempt
	lost     int  // lost claims since it was queued or retried
	asked    int
	bytes    int64  // of the entries with its messages
	inputs   uint64 // hash of the seqs that its first start lists
	end      uint64 // hash of its reply, error or reason

	// Microseconds since 1970; 0: not yet.
	started   int64
	ended     int64
	available int64 // when the last rescheduled entry makes it available

	stop    mailroom.Reason
	tickets []*loggedTicket
}

// transition moves a run to its next state and checks that the current one is in from.
func (s *fold) transition(e mailroom.Entry, t *loggedRun, to logState, from ...logState) {
	if t.state != statePurged && !slices.Contains(from, t.state) {
		s.badRun(Log, e.Run, "entry %d, %s of run %s, comes while the run is %s", e.Seq, e.Kind, e.Run, t.state)
	}
	if t.state != statePurged || to.over() {
		t.state = to
	}
}

// micros returns a time in the precision of stores.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// completion returns the contents of a completion for comparison, as failure does for a failure.
func completion(reply *string, steps int) string {
	if reply == nil {
		return fmt.Sprint(steps)
	}
	return fmt.Sprint(steps, " ", *reply)
}

func failure(e *mailroom.RunError, failures, crashes int) string {
	return strings.Join([]string{string(e.Class), e.Message, fmt.Sprint(failures, crashes)}, "\n")
}

// turn is a run's position in the queue of its thread.
type turn struct {
	priority int
	pos      int64
	run      string
}

// queue is a heap of the runs before their first start. A run that leaves it in another way is
// removed when it reaches the head.
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
func (q *queue) first(runs map[string]*loggedRun) string {
	for len(*q) > 0 {
		head := (*q)[0]
		if t := runs[head.run]; t.state == stateQueued && t.pos == head.pos {
			return head.run
		}
		heap.Pop(q)
	}
	return ""
}
