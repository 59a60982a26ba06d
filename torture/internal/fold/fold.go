// Package fold folds the log of one thread entry by entry and reports violations of Mailroom's
// rules. It implements the rules from their description and shares no code with the transitions
// that wrote the log.
package fold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
)

// Thread is the state of a thread by its log so far.
type Thread struct {
	Thread   string
	Messages map[string]*Message // submitted messages, by id
	Runs     map[string]*Run
	Tickets  map[string]*Ticket
	// Decided has all decisions by ticket id; a retry can reopen a ticket.
	Decided map[string][]entry.TicketDecision
	Said    map[string]string // complete and partial messages of agents, by id
	Last    int64             // seq of the last entry
	Current string            // the run that has started and not ended

	queue map[string]*Run // runs that wait for their start
	// strict reports whether an effect may be repeated only after a decision.
	strict func(effect string) bool
	found  []string
}

// Message is a submitted message.
type Message struct {
	ID, Text, Run string // Run: the one it was for, or was steered into
	Seq           int64
	At            time.Time
	Content       int64 // seq of the entry with its current text
	Edits         []string
	Steered       bool
	Fate          string // "" while unread; read, own run, retracted, superseded
}

// own returns the run that was made with the message, or that it becomes.
func (m *Message) own() string {
	run, _, _ := strings.Cut(m.ID, ".")
	return run
}

// Run is the state of a run by the log.
type Run struct {
	ID        string
	Agent     string
	Priority  int
	Place     int64     // seq of the entry that gave it its place
	PlacedAt  time.Time // time of that entry
	Held      time.Time // time before which it has no place
	Status    mailroom.Status
	Started   bool // since it was submitted or retried
	Listed    bool // a run.started entry listed its messages
	Stopping  bool
	Stops     int // stop requests
	Attempt   int
	Crashes   int // in a row without a durable step
	Lost      int
	Retries   int // retries by a user
	Messages  []string
	Reply     *string
	Error     mailroom.Class
	Reason    mailroom.Reason
	Effects   map[string]*Effect
	Sends     []entry.Sent
	QueuedSeq int64 // seq of run.queued
	Ends      int   // number of ends
	Judged    int   // sends that the caller has checked
}

// Ticket records a ticket being opened. Reopening resets its state.
type Ticket struct {
	mailroom.Ticket
	Decided bool
	Expired bool
	Judged  bool // the caller has checked it
}

// New returns the state of an empty log.
func New(thread string, strict func(effect string) bool) *Thread {
	return &Thread{
		Thread: thread, Messages: map[string]*Message{}, Runs: map[string]*Run{}, Tickets: map[string]*Ticket{},
		Decided: map[string][]entry.TicketDecision{}, queue: map[string]*Run{},
		Said: map[string]string{}, strict: strict,
	}
}

// Waiting returns the number of runs that wait for their start.
func (s *Thread) Waiting() int { return len(s.queue) }

func (s *Thread) bad(e mailroom.Entry, format string, args ...any) {
	s.found = append(s.found, fmt.Sprintf("thread %s, entry %d (%s of run %s, attempt %d): ", s.Thread, e.Seq, e.Kind, e.Run, e.Attempt)+
		fmt.Sprintf(format, args...))
}

// Add folds the next entry and returns the violations that it shows.
func (s *Thread) Add(e mailroom.Entry) []string {
	s.found = nil
	if e.Seq != s.Last+1 {
		s.bad(e, "follows entry %d", s.Last)
	}
	if e.Thread != s.Thread {
		s.bad(e, "belongs to thread %s", e.Thread)
	}
	s.Last = e.Seq
	switch {
	case e.Kind == entry.KindMessage && e.Attempt == 0:
		s.submitted(e)
	case e.Kind == entry.KindQueued:
		s.queued(e)
	case e.Kind == entry.KindCancelled:
		s.cancelled(e)
	case s.Runs[e.Run] == nil:
		s.bad(e, "names an unknown run")
	default:
		s.ofRun(e, s.Runs[e.Run])
	}
	return s.found
}

// decode reads a body. An unreadable one is a violation.
func decode[T any](s *Thread, e mailroom.Entry) T {
	var body T
	if err := e.Decode(&body); err != nil {
		s.bad(e, "is unreadable: %v", err)
	}
	return body
}

func (s *Thread) ofRun(e mailroom.Entry, r *Run) {
	if during(e.Kind) && (r.Status != mailroom.StatusRunning || e.Attempt != r.Attempt) {
		s.bad(e, "is written under attempt %d while the run is %s in attempt %d", e.Attempt, r.Status, r.Attempt)
	}
	switch e.Kind {
	case entry.KindStarted, entry.KindResumed:
		s.started(e, r)
	case entry.KindRescheduled:
		s.rescheduled(e, r)
	case entry.KindWaiting:
		r.Status = mailroom.StatusWaiting
	case entry.KindStop:
		r.Stopping = true
		r.Stops++
	case entry.KindCompleted, entry.KindFailed:
		s.ended(e, r)
	case entry.KindRetried:
		s.retried(e, r)
	case entry.KindMessage:
		s.agentMessage(e, r)
	case entry.KindMessageRead:
		s.read(e, decode[entry.MessageRef](s, e).Message)
	case entry.KindEdited, entry.KindRetracted:
		s.changed(e, r)
	case entry.KindTicketOpened, entry.KindTicketDecided, entry.KindTicketExpired:
		s.ticket(e, r)
	case entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown:
		s.effect(e, r)
	case "x.by":
		if by := decode[struct{ Attempt int }](s, e).Attempt; by != e.Attempt {
			s.bad(e, "attempt %d wrote this", by)
		}
	case entry.KindSend:
		r.Sends = append(r.Sends, decode[entry.Sent](s, e))
	}
	if progress(e.Kind) {
		r.Crashes = 0
	}
}

// during reports whether only the holder of a claim can write the kind, or the transaction that
// takes a claim away.
func during(kind string) bool {
	switch kind {
	case entry.KindStep, entry.KindMessage, entry.KindMessageRead, entry.KindToolStarted, entry.KindToolDone,
		entry.KindSend, entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown,
		entry.KindTicketOpened, entry.KindWaiting, entry.KindRescheduled, entry.KindStop, entry.KindCompleted:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

// progress reports whether the kind shows a durable step. A message alone may also come with the
// end of an attempt; the torture's agents name their steps.
func progress(kind string) bool {
	switch kind {
	case entry.KindStep, entry.KindSend, entry.KindEffectSettled, entry.KindToolStarted, entry.KindToolDone:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

// submitted folds a submitted message: for a new run, for a run that has not started, or for the
// current run.
func (s *Thread) submitted(e mailroom.Entry) {
	body := decode[mailroom.Message](s, e)
	if s.Messages[body.ID] != nil {
		s.bad(e, "message %s occurs twice", body.ID)
	}
	if body.Seq != e.Seq || body.Run != e.Run {
		s.bad(e, "message %s claims to be entry %d of run %s", body.ID, body.Seq, body.Run)
	}
	m := &Message{ID: body.ID, Text: body.Text, Run: e.Run, Seq: e.Seq, At: e.At, Content: e.Seq}
	s.Messages[m.ID] = m
	r := s.Runs[e.Run]
	switch {
	case r == nil: // its run.queued entry follows
	case r.Status == mailroom.StatusQueued && !r.Started && !r.Listed:
		r.Messages = append(r.Messages, m.ID) // collected
	case s.Current == r.ID:
		m.Steered = true
	default:
		s.bad(e, "message %s is for a run that is %s and not current", m.ID, r.Status)
	}
}

func (s *Thread) queued(e mailroom.Entry) {
	body := decode[entry.RunQueued](s, e)
	if s.Runs[e.Run] != nil {
		s.bad(e, "the run was already queued")
		return
	}
	r := &Run{
		ID: e.Run, Agent: body.Agent, Priority: body.Priority, Status: mailroom.StatusQueued,
		Messages: body.Messages, Effects: map[string]*Effect{}, QueuedSeq: e.Seq,
	}
	if body.AvailableAt.After(e.At) {
		r.Held = body.AvailableAt
	}
	for i, id := range body.Messages {
		m := s.Messages[id]
		if m == nil {
			s.bad(e, "message %s is not in the log", id)
			continue
		}
		if i == 0 {
			r.Place, r.PlacedAt = m.Seq, m.At
		}
		if m.Steered {
			if m.Fate != "" {
				s.bad(e, "message %s becomes a run but was %s before", id, m.Fate)
			}
			m.Fate = "own run"
		}
	}
	s.Runs[r.ID], s.queue[r.ID] = r, r
}

// started folds the next attempt of the current run, or the first of the head of the queue.
func (s *Thread) started(e mailroom.Entry, r *Run) {
	body := decode[entry.RunStarted](s, e)
	if s.Current != "" && s.Current != r.ID {
		s.bad(e, "starts before the end of run %s", s.Current)
	}
	if e.Attempt != r.Attempt+1 {
		s.bad(e, "follows attempt %d", r.Attempt)
	}
	resumes := e.Kind == entry.KindResumed
	switch {
	case r.Status == mailroom.StatusQueued && !resumes:
	case r.Status == mailroom.StatusWaiting && resumes:
	default:
		s.bad(e, "comes to a run that is %s", r.Status)
	}
	if !r.Started {
		s.isHead(e, r)
	}
	if !r.Listed {
		s.lists(e, r, body.Messages)
	} else {
		for _, seq := range body.Messages {
			s.readSeq(e, seq)
		}
	}
	r.Status, r.Attempt, r.Started, r.Listed = mailroom.StatusRunning, e.Attempt, true, true
	s.Current = r.ID
	delete(s.queue, r.ID)
}

// lists checks that the first start lists the current content of every message that was not
// retracted.
func (s *Thread) lists(e mailroom.Entry, r *Run, got []int64) {
	var want []int64
	for _, id := range r.Messages {
		if m := s.Messages[id]; m != nil && m.Fate != "retracted" {
			want = append(want, m.Content)
			if !m.Steered {
				m.Fate = "read"
			}
		}
	}
	if !slices.Equal(got, want) {
		s.bad(e, "reads entries %v, its messages are %v", got, want)
	}
}

func (s *Thread) readSeq(e mailroom.Entry, seq int64) {
	for _, m := range s.Messages {
		if m.Content == seq {
			s.read(e, m.ID)
			return
		}
	}
	s.bad(e, "reads entry %d, which is not a message", seq)
}

// read folds the hand-over of a steered message, which happens once.
func (s *Thread) read(e mailroom.Entry, id string) {
	m := s.Messages[id]
	switch {
	case m == nil:
		s.bad(e, "message %s is not in the log", id)
	case !m.Steered || m.Run != e.Run:
		s.bad(e, "message %s was not steered into this run", id)
	case m.Fate != "":
		s.bad(e, "message %s was already %s", id, m.Fate)
	default:
		m.Fate = "read"
	}
}

// changed checks that only unread messages are edited or retracted.
func (s *Thread) changed(e mailroom.Entry, r *Run) {
	edit := decode[entry.Edited](s, e)
	m := s.Messages[edit.Message]
	switch {
	case m == nil:
		s.bad(e, "message %s is not in the log", edit.Message)
		return
	case m.Fate != "" && m.Fate != "own run", m.Fate == "own run" && r.Listed:
		s.bad(e, "message %s was already %s", m.ID, m.Fate)
	}
	if e.Kind == entry.KindEdited {
		m.Content, m.Edits = e.Seq, append(m.Edits, edit.Text)
		return
	}
	m.Fate = "retracted"
}

// agentMessage folds a message that an agent wrote.
func (s *Thread) agentMessage(e mailroom.Entry, r *Run) {
	body := decode[mailroom.Message](s, e)
	if _, twice := s.Said[body.ID]; twice {
		s.bad(e, "message %s occurs twice", body.ID)
	}
	s.Said[body.ID] = body.Text
	// The id names the attempt that wrote it; the entry has the attempt that committed it.
	if by, _, _ := strings.Cut(strings.TrimPrefix(body.ID, e.Run+"."), "-"); by != strconv.Itoa(e.Attempt) {
		s.bad(e, "message %s was written by another attempt", body.ID)
	}
	if !body.Partial {
		r.Reply = &body.Text
	}
}
