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
	"mailroom/entry"
	"mailroom/store"
)

// fact is one event of a thread: a change that its log shows, or a reading of its row by a client.
type fact struct {
	kind  string // queued, start, end, put back, or read
	run   string
	order order
	row   *api.Thread
}

// order is a run's position. A run whose position is not in the log may start at any time.
type order struct {
	priority int
	place    int64
	loose    bool
}

// modelState is the state of a thread in the model: a queue with one current run.
type modelState struct {
	queue   map[string]order
	current string
}

func (r modelState) with(f func(*modelState)) modelState {
	next := modelState{queue: maps.Clone(r.queue), current: r.current}
	f(&next)
	return next
}

// step is the whole model: it reports whether a fact is possible in state r, and returns the next
// state.
func (r modelState) step(f fact) (bool, modelState) {
	_, queued := r.queue[f.run]
	switch f.kind {
	case "queued":
		return !queued && r.current != f.run && r.last(f.order), r.with(func(n *modelState) { n.queue[f.run] = f.order })
	case "start":
		return r.current == "" && queued && r.isHead(f.run) || r.current == f.run, r.with(func(n *modelState) {
			delete(n.queue, f.run)
			n.current = f.run
		})
	case "end":
		return queued || r.current == f.run, r.with(func(n *modelState) {
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

// last reports whether the position o is behind all queued runs, as that of a later submit must be.
func (r modelState) last(o order) bool {
	for _, other := range r.queue {
		if !o.loose && !other.loose && other.place >= o.place {
			return false
		}
	}
	return true
}

func (r modelState) isHead(run string) bool {
	me := r.queue[run]
	for id, o := range r.queue {
		if id != run && !me.loose && !o.loose && (o.priority < me.priority ||
			o.priority == me.priority && o.place < me.place) {
			return false
		}
	}
	return true
}

func (r modelState) String() string {
	return fmt.Sprintf("current %q, queued %v", r.current, slices.Sorted(maps.Keys(r.queue)))
}

// judgeHistories checks for each thread that its log and the readings since the last check can have
// happened in one order that the times of calls and answers allow.
func (t *torture) judgeHistories(ops []*operation) {
	calls := map[string]*operation{} // submits that made a run of their own
	reads := map[string][]*operation{}
	for _, o := range ops {
		switch {
		case o.Kind == "read" && o.Outcome == done && o.Called.After(t.since):
			reads[o.Thread] = append(reads[o.Thread], o)
		case o.Submit != nil && o.Outcome == done && o.Submitted.Disposition == store.DispositionQueued:
			calls[o.Run] = o
		}
	}
	for _, l := range t.allLogs() {
		if l.isIncomplete() || strings.HasPrefix(l.thread, "gone-") {
			continue
		}
		h := t.histories[l.thread]
		if h == nil {
			h = &history{start: modelState{queue: map[string]order{}}, next: 1}
			t.histories[l.thread] = h
		}
		entries, seen := l.entriesFrom(h.next)
		var list []porcupine.Operation
		for i, e := range entries {
			if f, ok := h.fact(e, calls); ok {
				call, end := e.At, seen[i]
				if o := calls[e.Run]; o != nil && e.Kind == entry.KindQueued {
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
		t.checkLinearizable(l, begin, list)
	}
}

// history is the state of the conversion of a thread's log into facts.
type history struct {
	start  modelState // state of the model after all facts that were converted
	before modelState // state at the last check
	next   int64
}

func operationOf(f fact, call, end time.Time) porcupine.Operation {
	return porcupine.Operation{Input: f, Call: call.UnixNano(), Return: max(end.UnixNano(), call.UnixNano()+1)}
}

// fact returns what an entry means in the model. ok is false for an entry that the model does not have.
func (h *history) fact(e mailroom.Entry, calls map[string]*operation) (fact, bool) {
	f := fact{run: e.Run}
	switch e.Kind {
	case entry.KindQueued:
		var body entry.RunQueued
		if err := e.Decode(&body); err != nil {
			return f, false // the fold reports it
		}
		f.kind, f.order = "queued", order{priority: body.Priority, loose: true}
		if o := calls[e.Run]; o != nil && !body.AvailableAt.After(e.At) {
			f.order.place, f.order.loose = o.Submitted.Place, false
		}
	case entry.KindRetried:
		f.kind, f.order.loose = "queued", true
	case entry.KindStarted, entry.KindResumed:
		f.kind = "start"
	case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		f.kind = "end"
		if _, queued := h.start.queue[e.Run]; !queued && h.start.current != e.Run {
			return f, false // the run that an unread steered message would have become
		}
	default:
		return f, false
	}
	return f, true
}

// checkLinearizable checks with porcupine that a history is linearizable.
func (t *torture) checkLinearizable(l *threadLog, begin modelState, list []porcupine.Operation) {
	if len(list) == 0 {
		return
	}
	if begin.queue == nil {
		begin.queue = map[string]order{}
	}
	model := porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, input, _ any) (bool, any) { return state.(modelState).step(input.(fact)) },
		Equal: func(a, b any) bool {
			return a.(modelState).current == b.(modelState).current && maps.Equal(a.(modelState).queue, b.(modelState).queue)
		},
	}
	t.counts.histories.Add(1)
	t.counts.facts.Add(int64(len(list)))
	switch porcupine.CheckOperationsTimeout(model, list, 5*time.Second) {
	case porcupine.Illegal:
		t.violation(l.thread, "history of thread %s since the last check is not linearizable from state %s:\n%s", l.thread,
			begin, formatHistory(list))
	case porcupine.Unknown:
		t.counts.undecided.Add(1)
	}
}

// formatHistory formats a history, one fact per line.
func formatHistory(list []porcupine.Operation) string {
	slices.SortFunc(list, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range list {
		f := o.Input.(fact)
		fmt.Fprintf(&b, "  %s to %s: %s", clock(o.Call), clock(o.Return), f.kind)
		if f.row != nil {
			fmt.Fprintf(&b, " %s, %d queued\n", modelState{current: deref(f.row.ActiveRun) + deref(f.row.WaitingRun)},
				f.row.Queued)
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
