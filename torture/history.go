package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"mailroom"
	"mailroom/api"
)

// fact is one thing that happens to a thread: a change that its log has, or what
// somebody was told about it.
type fact struct {
	kind  string // queued, start, end, put back, or read
	run   string
	order order
	row   *api.Thread
}

// order is a run's position. One whose position the log does not tell starts
// whenever it likes.
type order struct {
	priority int
	place    int64
	loose    bool
}

// row is the state of a thread in the model: a queue with one current run.
type row struct {
	queue   map[string]order
	current string
}

func (r row) with(f func(*row)) row {
	next := row{queue: maps.Clone(r.queue), current: r.current}
	f(&next)
	return next
}

// step is the whole model: whether a fact is possible in a state, and what the
// state is then.
func (r row) step(f fact) (bool, row) {
	_, queued := r.queue[f.run]
	switch f.kind {
	case "queued":
		return !queued && r.current != f.run && r.last(f.order), r.with(func(n *row) { n.queue[f.run] = f.order })
	case "start":
		return r.current == "" && queued && r.isHead(f.run) || r.current == f.run, r.with(func(n *row) {
			delete(n.queue, f.run)
			n.current = f.run
		})
	case "end":
		return queued || r.current == f.run, r.with(func(n *row) {
			delete(n.queue, f.run)
			if n.current == f.run {
				n.current = ""
			}
		})
	}
	current := ""
	for _, id := range []*string{f.row.ActiveRun, f.row.WaitingRun} {
		if id != nil {
			current = *id
		}
	}
	return current == r.current && f.row.Queued == len(r.queue), r
}

// last: what is submitted later has a later place.
func (r row) last(o order) bool {
	for _, other := range r.queue {
		if !o.loose && !other.loose && other.place >= o.place {
			return false
		}
	}
	return true
}

func (r row) isHead(run string) bool {
	me := r.queue[run]
	for id, o := range r.queue {
		if id != run && !me.loose && !o.loose && (o.priority < me.priority || o.priority == me.priority && o.place < me.place) {
			return false
		}
	}
	return true
}

func (r row) String() string {
	return fmt.Sprintf("current %q, queued %v", r.current, slices.Sorted(maps.Keys(r.queue)))
}

// judgeHistories checks for each thread that what its log and its readers were
// told since the last check can have happened in one order, which the times of
// calls and answers allow.
func (t *torture) judgeHistories(ops []*operation) {
	calls := map[string]*operation{} // submits that made a run of their own
	reads := map[string][]*operation{}
	for _, o := range ops {
		switch {
		case o.Kind == "read" && o.Outcome == done && o.Called.After(t.since):
			reads[o.Thread] = append(reads[o.Thread], o)
		case o.Submit != nil && o.Outcome == done && o.Submitted.Disposition == mailroom.DispositionQueued:
			calls[o.Run] = o
		}
	}
	for _, l := range t.allLogs() {
		if l.isBlind() || strings.HasPrefix(l.thread, "gone-") {
			continue
		}
		h := t.histories[l.thread]
		if h == nil {
			h = &history{start: row{queue: map[string]order{}}, next: 1}
			t.histories[l.thread] = h
		}
		entries, seen := l.entriesFrom(h.next)
		var list []porcupine.Operation
		for i, e := range entries {
			if f, ok := h.fact(e, calls); ok {
				call, end := e.At, seen[i]
				if o := calls[e.Run]; o != nil && e.Kind == mailroom.KindQueued {
					call = o.Called
					if o.Returned.Before(end) {
						end = o.Returned
					}
				}
				list = append(list, operationOf(f, call, end))
				_, h.start = h.start.step(f)
			}
		}
		begin := h.before
		h.before, h.next = h.start, h.next+int64(len(entries))
		for _, o := range reads[l.thread] {
			list = append(list, operationOf(fact{kind: "read", row: o.Row}, o.Called, o.Returned))
		}
		t.linear(l, begin, list)
	}
}

// history is how far a thread's log was turned into facts.
type history struct {
	start  row // after the facts so far
	before row // as of the last check
	next   int64
}

func operationOf(f fact, call, end time.Time) porcupine.Operation {
	return porcupine.Operation{Input: f, Call: call.UnixNano(), Return: max(end.UnixNano(), call.UnixNano()+1)}
}

// fact is what an entry means in the model.
func (h *history) fact(e mailroom.Entry, calls map[string]*operation) (fact, bool) {
	f := fact{run: e.Run}
	switch e.Kind {
	case mailroom.KindQueued:
		var body mailroom.RunQueued
		if err := e.Decode(&body); err != nil {
			return f, false // the story says so
		}
		f.kind, f.order = "queued", order{priority: body.Priority, loose: true}
		if o := calls[e.Run]; o != nil && !body.AvailableAt.After(e.At) {
			f.order.place, f.order.loose = o.Submitted.Place, false
		}
	case mailroom.KindRetried:
		f.kind, f.order.loose = "queued", true
	case mailroom.KindStarted, mailroom.KindResumed:
		f.kind = "start"
	case mailroom.KindCompleted, mailroom.KindFailed, mailroom.KindCancelled:
		f.kind = "end"
		if _, queued := h.start.queue[e.Run]; !queued && h.start.current != e.Run {
			return f, false // what a steered message would have become
		}
	default:
		return f, false
	}
	return f, true
}

// linear asks porcupine.
func (t *torture) linear(l *threadLog, begin row, list []porcupine.Operation) {
	if len(list) == 0 {
		return
	}
	if begin.queue == nil {
		begin.queue = map[string]order{}
	}
	model := porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, input, _ any) (bool, any) { return state.(row).step(input.(fact)) },
		Equal: func(a, b any) bool {
			return a.(row).current == b.(row).current && maps.Equal(a.(row).queue, b.(row).queue)
		},
	}
	t.counts.histories.Add(1)
	t.counts.facts.Add(int64(len(list)))
	switch porcupine.CheckOperationsTimeout(model, list, 5*time.Second) {
	case porcupine.Illegal:
		t.violation(l.thread, "no order explains what happened to thread %s since the last check, from %s on:\n%s", l.thread, begin, told(list))
	case porcupine.Unknown:
		t.counts.undecided.Add(1)
	}
}

// told writes a history down, one line per fact.
func told(list []porcupine.Operation) string {
	slices.SortFunc(list, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range list {
		f := o.Input.(fact)
		fmt.Fprintf(&b, "  %s to %s: %s", clock(o.Call), clock(o.Return), f.kind)
		if f.row != nil {
			fmt.Fprintf(&b, " %s, %d queued\n", row{current: deref(f.row.ActiveRun) + deref(f.row.WaitingRun)}, f.row.Queued)
		} else {
			fmt.Fprintf(&b, " run %s %+v\n", f.run, f.order)
		}
	}
	return b.String()
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000000") }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
