package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/entry"
)

// threadState is the state of a thread after the entries read so far: the state of package fold, and what only
// torture compares with its clients. It checks further rules that hold in torture and not in every log: the clock
// never goes back, each lost claim counts as a crash, and the agents name their steps.
type threadState struct {
	log     *fold.Log
	runs    map[string]*runState
	texts   map[string]string                 // texts of submitted messages by id
	sent    map[string]time.Time              // when they were submitted
	edits   map[string][]string               // texts of edits by message
	decided map[string][]entry.TicketDecision // decisions by ticket; a retry can reopen a ticket

	said   map[string]bool // complete and partial messages of agents
	queue  map[string]*runState
	judged map[string]int // decisions on children that were checked, by ticket
	found  []string
}

// runState is the part of a run's state that the fold does not keep.
type runState struct {
	id       string
	agent    string
	priority int
	place    int64     // seq of the entry that gave it its place: of its first message, or of a retry
	placedAt time.Time // time of that entry
	held     time.Time // time before which it has no place
	crashes  int       // crashes in a row without a durable step
	reply    *string   // last complete message of the run
	effects  map[string]*effectState
	sends    []entry.Sent
	judged   int // sends that were checked
	stops    int // stop requests
	retries  int // retries by a user
	ends     int
}

func newThreadState(thread string) *threadState {
	return &threadState{
		log: fold.New(thread, 1), runs: map[string]*runState{}, texts: map[string]string{}, sent: map[string]time.Time{},
		edits:   map[string][]string{},
		decided: map[string][]entry.TicketDecision{}, said: map[string]bool{}, queue: map[string]*runState{},
		judged: map[string]int{},
	}
}

// run returns the state of the run with this id, and creates an empty one at the first call.
func (s *threadState) run(id string) *runState {
	r := s.runs[id]
	if r == nil {
		r = &runState{id: id, effects: map[string]*effectState{}}
		s.runs[id] = r
	}
	return r
}

func (s *threadState) bad(e mailroom.Entry, format string, args ...any) {
	s.found = append(s.found, fmt.Sprintf("thread %s, entry %d (%s of run %s, attempt %d): ", s.log.Thread, e.Seq, e.Kind,
		e.Run, e.Attempt)+
		fmt.Sprintf(format, args...))
}

// decode reads a body. The fold does not read all bodies, so an unreadable one is a violation here.
func decode[T any](s *threadState, e mailroom.Entry) T {
	var body T
	if err := e.Decode(&body); err != nil {
		s.bad(e, "is unreadable: %v", err)
	}
	return body
}

// add folds the next entry and returns the violations that it shows.
func (s *threadState) add(e mailroom.Entry) []string {
	s.found = nil
	s.apply(e) // compares the entry with the state before it
	for _, v := range s.log.Add(e) {
		s.found = append(s.found, fmt.Sprintf("thread %s: %s", s.log.Thread, v.Text))
	}
	return s.found
}

func (s *threadState) apply(e mailroom.Entry) {
	r := s.run(e.Run)
	switch e.Kind {
	case entry.KindMessage:
		s.message(e, r)
	case entry.KindQueued:
		s.queued(e, r)
	case entry.KindStarted:
		s.started(e, r)
	case entry.KindWaiting:
		decode[entry.RunWaiting](s, e)
	case entry.KindRescheduled:
		s.rescheduled(e, r)
	case entry.KindStop:
		r.stops++
	case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		s.ended(e, r)
	case entry.KindRetried:
		s.retried(e, r)
	case entry.KindEdited:
		edit := decode[entry.Edited](s, e)
		s.edits[edit.Message] = append(s.edits[edit.Message], edit.Text)
	case entry.KindTicketDecided:
		d := decode[entry.TicketDecision](s, e)
		s.decided[d.Ticket] = append(s.decided[d.Ticket], d)
	case entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown:
		s.effect(e, r)
	case entry.KindSend:
		r.sends = append(r.sends, decode[entry.Sent](s, e))
	case "x.by":
		if by := decode[struct{ Attempt int }](s, e).Attempt; by != e.Attempt {
			s.bad(e, "attempt %d wrote this", by)
		}
	}
	if progress(e.Kind) {
		r.crashes = 0
	}
}

// progress reports whether an entry of this kind shows that a step was committed. A message does not, because it may
// also come with the end of an attempt.
func progress(kind string) bool {
	switch kind {
	case entry.KindStep, entry.KindSend, entry.KindEffectSettled, entry.KindToolStarted, entry.KindToolDone:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

func (s *threadState) message(e mailroom.Entry, r *runState) {
	body := decode[mailroom.Message](s, e)
	if e.Attempt == 0 {
		s.texts[body.ID], s.sent[body.ID] = body.Text, e.At
		return
	}
	if s.said[body.ID] {
		s.bad(e, "message %s occurs twice", body.ID)
	}
	s.said[body.ID] = true
	// The id names the attempt that wrote the message; the entry has the attempt that committed it.
	if by, _, _ := strings.Cut(strings.TrimPrefix(body.ID, e.Run+"."), "-"); by != strconv.Itoa(e.Attempt) {
		s.bad(e, "message %s was written by another attempt", body.ID)
	}
	if !body.Partial {
		r.reply = &body.Text
	}
}

func (s *threadState) queued(e mailroom.Entry, r *runState) {
	body := decode[entry.RunQueued](s, e)
	r.agent, r.priority, r.place, r.placedAt = body.Agent, body.Priority, e.Seq, e.At
	if len(body.Messages) > 0 { // steered messages keep the place of their submit
		if _, seq := fold.SplitID(body.Messages[0]); seq > 0 {
			r.place, r.placedAt = seq, s.sent[body.Messages[0]]
		}
	}
	if body.AvailableAt.After(e.At) {
		r.held = body.AvailableAt
	}
	s.queue[r.id] = r
}

// started checks the place of scheduled runs: a run gets its place when its time comes. The fold
// checks the order of the others.
func (s *threadState) started(e mailroom.Entry, r *runState) {
	if s.queue[r.id] != nil {
		if r.held.After(e.At) {
			s.bad(e, "starts before its time, %s", r.held)
		}
		for _, other := range s.queue {
			if other != r && !other.held.After(e.At) && before(other, r) {
				s.bad(e, "starts before run %s (priority %d, place of entry %d; its own: %d, %d)",
					other.id, other.priority, other.place, r.priority, r.place)
			}
		}
	}
	delete(s.queue, r.id)
}

// before reports whether a is ahead of b in the queue, where at least one of them is scheduled. The place of a
// scheduled run is before all runs that were submitted at its time or later.
func before(a, b *runState) bool {
	switch {
	case a.held.IsZero() && b.held.IsZero():
		return false
	case a.priority != b.priority:
		return a.priority < b.priority
	case a.held.Equal(b.held):
		return a.place < b.place
	case a.held.IsZero():
		return a.placedAt.Before(b.held)
	case b.held.IsZero():
		return !b.placedAt.Before(a.held)
	}
	return a.held.Before(b.held)
}

func (s *threadState) rescheduled(e mailroom.Entry, r *runState) {
	body := decode[entry.RunRescheduled](s, e)
	if body.Error != nil && !strings.Contains(body.Error.Message, "the first attempt fails") {
		s.bad(e, "unexpected agent error %q", body.Error.Message)
	}
	if body.Reason != entry.RescheduledLost {
		return
	}
	r.crashes++
	if lost := s.lost(r) + 1; r.crashes >= mailroom.MaxCrashes || lost >= mailroom.MaxLost {
		s.bad(e, "continues after %d lost claims in a row, %d in total", r.crashes, lost)
	}
}

// lost returns the number of lost claims before the entry that is folded.
func (s *threadState) lost(r *runState) int {
	if logged := s.log.Runs[r.id]; logged != nil {
		return logged.Lost
	}
	return 0
}

func (s *threadState) ended(e mailroom.Entry, r *runState) {
	delete(s.queue, r.id)
	r.ends++
	switch e.Kind {
	case entry.KindCompleted:
		if body := decode[entry.RunCompleted](s, e); show(body.Reply) != show(r.reply) {
			s.bad(e, "its reply is %s, its last message %s", show(body.Reply), show(r.reply))
		}
	case entry.KindFailed:
		body := decode[entry.RunFailed](s, e)
		if body.Error.Class != mailroom.ClassCrashed {
			return
		}
		r.crashes++
		logged, lost := s.log.Runs[r.id], s.lost(r)+1
		if logged == nil || logged.State != fold.StateRunning || body.Crashes != r.crashes ||
			r.crashes < mailroom.MaxCrashes && lost < mailroom.MaxLost {
			s.bad(e, "failed after %d lost claims in a row, %d in total; the entry says %d", r.crashes, lost, body.Crashes)
		}
	}
}

func show(text *string) string {
	if text == nil {
		return "none"
	}
	return fmt.Sprintf("%.60q", *text)
}

// retried puts a failed or cancelled run at the end of the queue.
func (s *threadState) retried(e mailroom.Entry, r *runState) {
	r.place, r.placedAt, r.held = e.Seq, e.At, time.Time{}
	r.crashes, r.reply = 0, nil
	r.retries++
	s.queue[r.id] = r
	if decode[entry.RunRetried](s, e).Fresh {
		for _, f := range r.effects {
			f.reset()
		}
	}
}

// unfinished describes everything that is still open and must not be after all runs have ended.
func (s *threadState) unfinished() []string {
	var found []string
	for _, r := range s.log.Runs {
		if !r.State.Ended() {
			found = append(found, fmt.Sprintf("thread %s: run %s is %s and never ended", s.log.Thread, r.ID, r.State))
		}
	}
	for id := range s.log.Unread {
		found = append(found, fmt.Sprintf("thread %s: steered message %s was neither read nor became a run",
			s.log.Thread, id))
	}
	return found
}
