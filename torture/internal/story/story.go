// Package story reads the log of one thread, entry by entry, and says where it
// breaks the rules of Mailroom. It knows the rules from their description and
// shares no code with the transitions that wrote the log.
package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Story is what the log of a thread has told so far.
type Story struct {
	Thread   string
	Messages map[string]*Message // those that were submitted, by id
	Runs     map[string]*Run
	Tickets  map[string]*Ticket
	// Decided are all decisions of a ticket's id, which a retry opens anew.
	Decided map[string][]mailroom.TicketDecision
	Said    map[string]string // complete and partial messages of agents, by id
	Last    int64             // seq of the last entry
	Current string            // the run that has started and not ended

	queue map[string]*Run // those that wait for their start
	// strict tells which effects may be repeated only by a decision.
	strict func(effect string) bool
	found  []string
}

// Message is one that was submitted.
type Message struct {
	ID, Text, Run string // Run: the one it was for, or steered into
	Seq           int64
	At            time.Time
	Content       int64 // seq of the entry with its present text
	Edits         []string
	Steered       bool
	Fate          string // "" while it waits; read, own run, retracted, superseded
}

// own is the run that was made with the message, or that it becomes.
func (m *Message) own() string {
	run, _, _ := strings.Cut(m.ID, ".")
	return run
}

// Run is one run as the log tells it.
type Run struct {
	ID        string
	Agent     string
	Priority  int
	Place     int64     // seq of what gave it its place
	PlacedAt  time.Time // when that was written
	Held      time.Time // it has no place before
	Status    mailroom.Status
	Started   bool // since it was submitted, or retried by hand
	Listed    bool // its messages were listed by a run.started
	Stopping  bool
	Stops     int // requests to stop
	Attempt   int
	Crashes   int // in a row without a durable step
	Lost      int
	Retries   int // by hand
	Messages  []string
	Reply     *string
	Error     mailroom.Class
	Reason    mailroom.Reason
	Effects   map[string]*Effect
	Sends     []mailroom.Sent
	QueuedSeq int64 // of run.queued
	Ends      int   // times that it ended
	Judged    int   // sends that the reader of the story has looked at
}

// Ticket is one that was opened; opening it anew begins anew.
type Ticket struct {
	mailroom.Ticket
	Decided bool
	Expired bool
	Judged  bool // the reader of the story has looked at it
}

// New begins a story.
func New(thread string, strict func(effect string) bool) *Story {
	return &Story{
		Thread: thread, Messages: map[string]*Message{}, Runs: map[string]*Run{}, Tickets: map[string]*Ticket{},
		Decided: map[string][]mailroom.TicketDecision{}, queue: map[string]*Run{},
		Said: map[string]string{}, strict: strict,
	}
}

// Waiting counts the runs that wait for their start.
func (s *Story) Waiting() int { return len(s.queue) }

func (s *Story) bad(e mailroom.Entry, format string, args ...any) {
	s.found = append(s.found, fmt.Sprintf("thread %s, entry %d (%s of run %s, attempt %d): ", s.Thread, e.Seq, e.Kind, e.Run, e.Attempt)+
		fmt.Sprintf(format, args...))
}

// Tell takes the next entry and returns what is wrong with it.
func (s *Story) Tell(e mailroom.Entry) []string {
	s.found = nil
	if e.Seq != s.Last+1 {
		s.bad(e, "follows entry %d", s.Last)
	}
	if e.Thread != s.Thread {
		s.bad(e, "is of thread %s", e.Thread)
	}
	s.Last = e.Seq
	switch {
	case e.Kind == mailroom.KindMessage && e.Attempt == 0:
		s.submitted(e)
	case e.Kind == mailroom.KindQueued:
		s.queued(e)
	case e.Kind == mailroom.KindCancelled:
		s.cancelled(e)
	case s.Runs[e.Run] == nil:
		s.bad(e, "names a run that the log does not know")
	default:
		s.ofRun(e, s.Runs[e.Run])
	}
	return s.found
}

// decode reads a body; what cannot be read is bad.
func decode[T any](s *Story, e mailroom.Entry) T {
	var body T
	if err := e.Decode(&body); err != nil {
		s.bad(e, "cannot be read: %v", err)
	}
	return body
}

func (s *Story) ofRun(e mailroom.Entry, r *Run) {
	if during(e.Kind) && (r.Status != mailroom.StatusRunning || e.Attempt != r.Attempt) {
		s.bad(e, "is written under attempt %d while the run is %s in attempt %d", e.Attempt, r.Status, r.Attempt)
	}
	switch e.Kind {
	case mailroom.KindStarted, mailroom.KindResumed:
		s.started(e, r)
	case mailroom.KindRescheduled:
		s.rescheduled(e, r)
	case mailroom.KindWaiting:
		r.Status = mailroom.StatusWaiting
	case mailroom.KindStop:
		r.Stopping = true
		r.Stops++
	case mailroom.KindCompleted, mailroom.KindFailed:
		s.ended(e, r)
	case mailroom.KindRetried:
		s.retried(e, r)
	case mailroom.KindMessage:
		s.said(e, r)
	case mailroom.KindMessageRead:
		s.read(e, decode[mailroom.MessageRef](s, e).Message)
	case mailroom.KindEdited, mailroom.KindRetracted:
		s.changed(e, r)
	case mailroom.KindTicketOpened, mailroom.KindTicketDecided, mailroom.KindTicketExpired:
		s.ticket(e, r)
	case mailroom.KindEffectIntended, mailroom.KindEffectSettled, mailroom.KindEffectUnknown:
		s.effect(e, r)
	case "x.by":
		if by := decode[struct{ Attempt int }](s, e).Attempt; by != e.Attempt {
			s.bad(e, "attempt %d wrote this", by)
		}
	case mailroom.KindSend:
		r.Sends = append(r.Sends, decode[mailroom.Sent](s, e))
	}
	if progress(e.Kind) {
		r.Crashes = 0
	}
}

// during are the kinds that only the holder of a claim can write, and what is
// written when a claim is taken away.
func during(kind string) bool {
	switch kind {
	case mailroom.KindStep, mailroom.KindMessage, mailroom.KindMessageRead, mailroom.KindToolStarted, mailroom.KindToolDone,
		mailroom.KindSend, mailroom.KindEffectIntended, mailroom.KindEffectSettled, mailroom.KindEffectUnknown,
		mailroom.KindTicketOpened, mailroom.KindWaiting, mailroom.KindRescheduled, mailroom.KindStop, mailroom.KindCompleted:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

// progress are the kinds by which a durable step shows. A message alone may
// also come with the end of an attempt; the agents here name their steps.
func progress(kind string) bool {
	switch kind {
	case mailroom.KindStep, mailroom.KindSend, mailroom.KindEffectSettled, mailroom.KindToolStarted, mailroom.KindToolDone:
		return true
	}
	return strings.HasPrefix(kind, "x.")
}

// submitted is a message from outside: of a run that comes now, for one that has
// not started, or for the current one.
func (s *Story) submitted(e mailroom.Entry) {
	body := decode[mailroom.Message](s, e)
	if s.Messages[body.ID] != nil {
		s.bad(e, "message %s is there twice", body.ID)
	}
	if body.Seq != e.Seq || body.Run != e.Run {
		s.bad(e, "message %s says that it is entry %d of run %s", body.ID, body.Seq, body.Run)
	}
	m := &Message{ID: body.ID, Text: body.Text, Run: e.Run, Seq: e.Seq, At: e.At, Content: e.Seq}
	s.Messages[m.ID] = m
	r := s.Runs[e.Run]
	switch {
	case r == nil: // its run.queued follows
	case r.Status == mailroom.StatusQueued && !r.Started && !r.Listed:
		r.Messages = append(r.Messages, m.ID) // collected
	case s.Current == r.ID:
		m.Steered = true
	default:
		s.bad(e, "message %s is for a run that is %s and not the current one", m.ID, r.Status)
	}
}

func (s *Story) queued(e mailroom.Entry) {
	body := decode[mailroom.RunQueued](s, e)
	if s.Runs[e.Run] != nil {
		s.bad(e, "the run was queued before")
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
				s.bad(e, "message %s becomes a run, and was %s before", id, m.Fate)
			}
			m.Fate = "own run"
		}
	}
	s.Runs[r.ID], s.queue[r.ID] = r, r
}

// started: the next attempt of the current run, or the head of the queue.
func (s *Story) started(e mailroom.Entry, r *Run) {
	body := decode[mailroom.RunStarted](s, e)
	if s.Current != "" && s.Current != r.ID {
		s.bad(e, "starts before the end of run %s", s.Current)
	}
	if e.Attempt != r.Attempt+1 {
		s.bad(e, "follows attempt %d", r.Attempt)
	}
	resumes := e.Kind == mailroom.KindResumed
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

// lists: the first start names the present content of every message that was
// not taken back.
func (s *Story) lists(e mailroom.Entry, r *Run, got []int64) {
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
		s.bad(e, "reads the entries %v, its messages are %v", got, want)
	}
}

func (s *Story) readSeq(e mailroom.Entry, seq int64) {
	for _, m := range s.Messages {
		if m.Content == seq {
			s.read(e, m.ID)
			return
		}
	}
	s.bad(e, "reads entry %d, which is no message", seq)
}

// read: a steered message is handed over, once.
func (s *Story) read(e mailroom.Entry, id string) {
	m := s.Messages[id]
	switch {
	case m == nil:
		s.bad(e, "message %s is not in the log", id)
	case !m.Steered || m.Run != e.Run:
		s.bad(e, "message %s was not steered into this run", id)
	case m.Fate != "":
		s.bad(e, "message %s was %s before", id, m.Fate)
	default:
		m.Fate = "read"
	}
}

// changed: only what nobody has read is edited or taken back.
func (s *Story) changed(e mailroom.Entry, r *Run) {
	edit := decode[mailroom.Edited](s, e)
	m := s.Messages[edit.Message]
	switch {
	case m == nil:
		s.bad(e, "message %s is not in the log", edit.Message)
		return
	case m.Fate != "" && m.Fate != "own run", m.Fate == "own run" && r.Listed:
		s.bad(e, "message %s was %s before", m.ID, m.Fate)
	}
	if e.Kind == mailroom.KindEdited {
		m.Content, m.Edits = e.Seq, append(m.Edits, edit.Text)
		return
	}
	m.Fate = "retracted"
}

// said: a message that an agent wrote.
func (s *Story) said(e mailroom.Entry, r *Run) {
	body := decode[mailroom.Message](s, e)
	if _, twice := s.Said[body.ID]; twice {
		s.bad(e, "message %s is there twice", body.ID)
	}
	s.Said[body.ID] = body.Text
	// The attempt that wrote it is in its id; the entry has the one that was let.
	if by, _, _ := strings.Cut(strings.TrimPrefix(body.ID, e.Run+"."), "-"); by != strconv.Itoa(e.Attempt) {
		s.bad(e, "message %s was written by another attempt", body.ID)
	}
	if !body.Partial {
		r.Reply = &body.Text
	}
}
