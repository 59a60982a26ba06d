package doctor

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
)

// state is where the log leaves a run.
type state int

const (
	told      state = iota // nothing was said of it yet but messages
	queued                 // waits for its first start, or for that of a retry
	running                // an attempt
	back                   // between two attempts
	waiting                // parked, or about to go on after that
	completed              // ended
	failed
	cancelled
	earlier // it began before the first entry kept
)

func (s state) String() string {
	return [...]string{
		"not queued yet", "queued", "running", "between attempts", "waiting", "completed", "failed", "cancelled", "older than the log",
	}[s]
}

func (s state) over() bool { return s == completed || s == failed || s == cancelled }

// tale is what the log tells of one run.
type tale struct {
	state state
	begun bool // all of it is in the log
	seen  bool // its row was looked for
	gone  bool // and is not there
	read  bool // its first start listed what it reads

	listed   bool // it was queued, so that its priority is known
	ordered  bool // its position is known too: it was not put off
	priority int
	pos      int64 // grows with the places of the thread
	attempt  int
	failures int  // since it was queued, retried or last resumed
	parked   bool // it was cancelled in a wait, or after it before its next attempt
	lost     int  // claims, since it was queued or retried
	asked    int
	bytes    int64  // of the entries with its messages
	inputs   uint64 // hash of the seqs that its first start lists
	end      uint64 // hash of what its end says

	// Microseconds since 1970, 0: not yet.
	started   int64
	ended     int64
	available int64 // of the last time that it was put back

	stop mailroom.Reason
	asks []*asked
}

// moves takes a run to its next state, which must follow from one of those given.
func (s *story) moves(e mailroom.Entry, t *tale, to state, from ...state) {
	if t.state != earlier && !slices.Contains(from, t.state) {
		s.badRun(Log, e.Run, "entry %d, %s of run %s, comes while the run is %s", e.Seq, e.Kind, e.Run, t.state)
	}
	if t.state != earlier || to.over() {
		t.state = to
	}
}

// micros is a time as stores keep it.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// completion, failure and a reason are what an end says, in the log and by the
// row.
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

// queue orders the runs that wait for their first start. Those that left it
// otherwise stay in it until they are at its head.
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

// first is the run whose turn it is, or "".
func (q *queue) first(runs map[string]*tale) string {
	for len(*q) > 0 {
		head := (*q)[0]
		if t := runs[head.run]; t.state == queued && t.pos == head.pos {
			return head.run
		}
		heap.Pop(q)
	}
	return ""
}
