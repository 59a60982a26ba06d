package doctor

import (
	"container/heap"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"mailroom"
)

// story is what a thread's log tells, entry by entry. Of a run, a ticket or a
// message it keeps little, because a log may be long.
type story struct {
	*patient
	first   int64 // the log is told from here
	after   int64 // and up to here
	runs    map[string]*tale
	asks    map[string]*asked
	content map[int64]uint64   // hash of the id of the message whose text an entry has
	unread  map[string]steered // steered messages by id
	open    string             // the run that has started and not ended
	queue   queue              // runs that wait for their first start, in order
	places  map[int64]string   // the run that has a place
	bytes   int64              // of all entries so far
	sent    []sent             // by the page that is told
	holds   map[string]int64   // ids of reservations that were taken and have not ended, and their fences
	seed    maphash.Seed
}

// asked is what the log tells of a ticket.
type asked struct {
	run     string
	state   mailroom.TicketState
	verdict mailroom.Verdict
	seq     int64 // where it was opened
	seen    bool  // its row was compared
}

// steered is a message that was handed to a current run, and is not read yet.
type steered struct {
	seq    int64  // of its present content
	own    string // the run that it becomes
	holder string // the run that was current
}

func newStory(p *patient) *story {
	return &story{
		patient: p, first: p.t.FirstSeq, after: p.t.FirstSeq - 1,
		runs: map[string]*tale{}, asks: map[string]*asked{}, content: map[int64]uint64{},
		unread: map[string]steered{}, places: map[int64]string{}, holds: map[string]int64{}, seed: maphash.MakeSeed(),
	}
}

// read tells the next page of the log.
func (s *story) read() (cost int, err error) {
	page, err := s.r.Entries(mailroom.EntryQuery{Thread: s.t.ID, After: s.after, Before: s.t.LastSeq + 1, Limit: batch})
	if err != nil {
		return 0, err
	}
	began := s.after
	for _, e := range page {
		if e.Seq != s.after+1 {
			s.bad(Seq, "entry %d follows entry %d", e.Seq, s.after)
		}
		if e.Thread != s.t.ID {
			s.bad(Seq, "entry %d says that it belongs to thread %q", e.Seq, e.Thread)
		}
		s.after = max(s.after, e.Seq)
		s.bytes += int64(len(e.JSON()))
		s.entry(e)
	}
	s.report.Entries += len(page)
	if s.after < s.t.LastSeq && (len(page) < batch || s.after == began) {
		s.bad(Seq, "the log ends at entry %d, the thread says %d", s.after, s.t.LastSeq)
		s.after = s.t.LastSeq
	}
	err = s.sends(s.sent)
	s.sent = s.sent[:0]
	return len(page) + 1, err
}

// edges: nothing is kept before the first entry or behind the last one.
func (s *story) edges() error {
	for _, q := range []mailroom.EntryQuery{
		{Thread: s.t.ID, After: s.t.LastSeq, Limit: 1},
		{Thread: s.t.ID, Before: s.t.FirstSeq, Limit: 1},
	} {
		if q.After == 0 && q.Before == 1 {
			continue
		}
		page, err := s.r.Entries(q)
		if err != nil {
			return err
		}
		for _, e := range page {
			s.bad(Seq, "entry %d is not between first_seq, %d, and last_seq, %d", e.Seq, s.t.FirstSeq, s.t.LastSeq)
		}
	}
	return nil
}

func (s *story) hash(text string) uint64 { return maphash.String(s.seed, text) }

// decode reads the body of an entry. What cannot be read is a finding.
func (s *story) decode(e mailroom.Entry, body any) {
	if err := json.Unmarshal(e.Body, body); err != nil {
		s.badRun(Seq, e.Run, "entry %d, %s, cannot be read: %v", e.Seq, e.Kind, err)
	}
}

// entry tells one entry.
func (s *story) entry(e mailroom.Entry) {
	switch e.Kind {
	case mailroom.KindMessage:
		s.message(e)
		return
	case mailroom.KindEdited:
		var body mailroom.Edited
		s.decode(e, &body)
		s.content[e.Seq] = s.hash(body.Message)
		if m, ok := s.unread[body.Message]; ok {
			m.seq = e.Seq
			s.unread[body.Message] = m
		}
		s.of(e)
		return
	case mailroom.KindRetracted:
		var body mailroom.MessageRef
		s.decode(e, &body)
		delete(s.unread, body.Message)
		s.of(e)
		return
	case mailroom.KindNotification, mailroom.KindReserved, mailroom.KindReleased, mailroom.KindLapsed, mailroom.KindChannel:
		s.noted(e)
		return
	}
	t := s.of(e)
	switch e.Kind {
	case mailroom.KindQueued:
		s.queued(e, t)
	case mailroom.KindStarted, mailroom.KindResumed:
		s.started(e, t)
	case mailroom.KindRescheduled:
		s.rescheduled(e, t)
	case mailroom.KindWaiting:
		s.moves(e, t, waiting, running)
	case mailroom.KindStop:
		var body mailroom.RunStop
		s.decode(e, &body)
		s.moves(e, t, running, running)
		t.stop = body.Reason
	case mailroom.KindCompleted, mailroom.KindFailed, mailroom.KindCancelled:
		s.ended(e, t)
	case mailroom.KindRetried:
		s.retried(e, t)
	case mailroom.KindTicketOpened, mailroom.KindTicketDecided, mailroom.KindTicketExpired:
		s.ticket(e, t)
	case mailroom.KindMessageRead:
		var body mailroom.MessageRef
		s.decode(e, &body)
		s.moves(e, t, running, running)
		s.reads(e, t, body.Message)
	case mailroom.KindSend:
		var body mailroom.Sent
		s.decode(e, &body)
		s.moves(e, t, running, running)
		s.sent = append(s.sent, sent{seq: e.Seq, at: e.At, from: e.Run, thread: body.Thread, run: body.Run})
	default: // a step, or what comes with one
		s.moves(e, t, running, running)
	}
}

// of is the tale of the run that an entry names. Its attempt must be the one
// that the run is in.
func (s *story) of(e mailroom.Entry) *tale {
	t := s.runs[e.Run]
	if t == nil {
		t = s.begin()
		s.runs[e.Run] = t
	}
	want := t.attempt
	if e.Kind == mailroom.KindStarted || e.Kind == mailroom.KindResumed {
		want++
	}
	if e.Attempt != want && t.state != earlier {
		s.badRun(Attempt, e.Run, "entry %d, %s of run %s, has attempt %d, which should be %d", e.Seq, e.Kind, e.Run, e.Attempt, want)
	}
	t.attempt = e.Attempt
	return t
}

// message: an assistant's is said by a running run. Any other was submitted, and
// has an id that says for which run: its own, or the current one it is steered to.
func (s *story) message(e mailroom.Entry) {
	var m struct {
		ID   string        `json:"id"`
		Seq  int64         `json:"seq"`
		Run  string        `json:"run"`
		Role mailroom.Role `json:"role"`
	}
	s.decode(e, &m)
	s.content[e.Seq] = s.hash(m.ID)
	if m.Seq != e.Seq || m.Run != e.Run {
		s.badRun(Message, e.Run, "message %s at entry %d of run %s says that it is entry %d of run %s", m.ID, e.Seq, e.Run, m.Seq, m.Run)
	}
	if m.Role == mailroom.RoleAssistant {
		s.moves(e, s.of(e), running, running)
		return
	}
	own, seq := submitted(m.ID)
	if seq != e.Seq {
		s.badRun(Message, e.Run, "message %s is entry %d", m.ID, e.Seq)
	}
	if own != e.Run {
		s.unread[m.ID] = steered{seq: e.Seq, own: own, holder: e.Run}
		return
	}
	if s.runs[own] == nil {
		s.runs[own] = s.begin()
	}
	s.runs[own].bytes += int64(len(e.JSON()))
}

// begin is the tale of a run that no entry has named so far. In a log whose first
// entries were purged it may have begun before.
func (s *story) begin() *tale {
	if s.first > 1 {
		return &tale{state: earlier}
	}
	return &tale{begun: true}
}

// submitted splits the id of a message that was submitted: the run it was made
// with, and its first entry, 0 if the id is not one of these.
func submitted(id string) (run string, seq int64) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return "", 0
	}
	seq, err := strconv.ParseInt(id[i+1:], 10, 64)
	if err != nil {
		return "", 0
	}
	return id[:i], seq
}

func (s *story) queued(e mailroom.Entry, t *tale) {
	var body mailroom.RunQueued
	s.decode(e, &body)
	if t.state == earlier {
		t.state = told // only messages of it were seen so far
	}
	s.moves(e, t, queued, told)
	t.priority, t.listed, t.ordered, t.pos = body.Priority, true, !body.AvailableAt.After(e.At), e.Seq
	for _, id := range body.Messages {
		delete(s.unread, id)
		if _, seq := submitted(id); seq > 0 {
			t.pos = min(t.pos, seq)
		}
	}
	t.begun = t.pos >= s.first
	s.enqueue(e.Run, t)
}

func (s *story) enqueue(run string, t *tale) {
	if t.ordered {
		heap.Push(&s.queue, turn{t.priority, t.pos, run})
	}
}

// started: one at a time, and the first in the queue.
func (s *story) started(e mailroom.Entry, t *tale) {
	var body mailroom.RunStarted
	s.decode(e, &body)
	if s.open != "" && s.open != e.Run {
		s.badRun(Current, e.Run, "entry %d starts run %s before the end of run %s", e.Seq, e.Run, s.open)
	}
	s.open = e.Run
	if e.Kind == mailroom.KindResumed {
		s.moves(e, t, running, waiting)
		t.failures = 0
		s.readSeqs(body.Messages)
		return
	}
	if first := s.queue.first(s.runs); t.state == queued && t.ordered && first != "" && first != e.Run {
		s.badRun(Order, e.Run, "entry %d starts run %s before run %s, whose turn it was", e.Seq, e.Run, first)
	}
	if t.started == 0 {
		t.started = micros(e.At)
	}
	if !t.read {
		t.read, t.inputs = true, s.hashSeqs(body.Messages)
	}
	s.moves(e, t, running, queued, back)
}

func (s *story) hashSeqs(seqs []int64) uint64 {
	var text []byte
	for _, seq := range seqs {
		text = append(strconv.AppendInt(text, seq, 10), ' ')
	}
	return maphash.Bytes(s.seed, text)
}

// readSeqs: a run that goes on after a wait reads what was steered to it.
func (s *story) readSeqs(seqs []int64) {
	for id, m := range s.unread {
		if slices.Contains(seqs, m.seq) {
			delete(s.unread, id)
		}
	}
}

func (s *story) reads(e mailroom.Entry, t *tale, message string) {
	if m, ok := s.unread[message]; ok && m.holder == e.Run {
		delete(s.unread, message)
	} else if _, seq := submitted(message); t.state != earlier && seq >= s.first {
		s.badRun(Steer, e.Run, "entry %d reads message %s, which is not unread in run %s", e.Seq, message, e.Run)
	}
}

func (s *story) rescheduled(e mailroom.Entry, t *tale) {
	var body mailroom.RunRescheduled
	s.decode(e, &body)
	s.moves(e, t, back, running)
	t.available = micros(body.AvailableAt)
	switch {
	case body.Reason == "lease_lost":
		t.lost++
	case body.Error != nil && body.Error.Class == mailroom.ClassTransient:
		t.failures++
	}
}

// ended: a run ends once, and what it still asked is void.
func (s *story) ended(e mailroom.Entry, t *tale) {
	switch e.Kind {
	case mailroom.KindCompleted:
		var body mailroom.RunCompleted
		s.decode(e, &body)
		s.moves(e, t, completed, running)
		t.end = s.hash(completion(body.Reply, body.Steps))
	case mailroom.KindFailed:
		var body mailroom.RunFailed
		s.decode(e, &body)
		s.moves(e, t, failed, queued, running, back, waiting)
		t.end = s.hash(failure(&body.Error, body.Failures, body.Crashes))
		if body.Error.Class == mailroom.ClassCrashed {
			t.lost++
		}
	case mailroom.KindCancelled:
		var body mailroom.RunStop
		s.decode(e, &body)
		if t.state == told || t.state == earlier { // perhaps steered, and superseded before it became a run
			for id, m := range s.unread {
				if m.own == e.Run {
					delete(s.unread, id)
				}
			}
		}
		t.parked = t.state == waiting
		s.moves(e, t, cancelled, told, queued, running, back, waiting)
		t.end = s.hash(string(body.Reason))
	}
	t.ended = micros(e.At)
	if s.open == e.Run {
		s.open = ""
	}
	for _, k := range t.asks {
		if k.state == mailroom.TicketOpen {
			k.state = mailroom.TicketVoid
		}
	}
}

func (s *story) retried(e mailroom.Entry, t *tale) {
	var body mailroom.RunRetried
	s.decode(e, &body)
	s.moves(e, t, queued, failed, cancelled)
	t.failures, t.lost, t.started, t.ended, t.end, t.stop = 0, 0, 0, 0, 0, ""
	t.parked = false
	t.pos = e.Seq // of a place given now
	t.ordered = t.listed
	if body.Fresh {
		for _, k := range t.asks {
			k.state = mailroom.TicketVoid
		}
	}
	s.enqueue(e.Run, t)
}

func (s *story) ticket(e mailroom.Entry, t *tale) {
	var body struct {
		ID       string           `json:"id"`
		Ticket   string           `json:"ticket"`
		Decision mailroom.Verdict `json:"decision"`
	}
	s.decode(e, &body)
	id := body.ID + body.Ticket
	k := s.asks[id]
	if e.Kind == mailroom.KindTicketOpened {
		s.moves(e, t, running, running)
		t.asked++
		if k == nil {
			k = &asked{run: e.Run, seq: e.Seq}
			s.asks[id] = k
			t.asks = append(t.asks, k)
		} else if k.state != mailroom.TicketVoid {
			s.badTicket(Ticket, e.Run, id, "entry %d opens ticket %s of run %s again, which is %s", e.Seq, id, e.Run, k.state)
		}
		k.state, k.verdict = mailroom.TicketOpen, ""
		return
	}
	if e.Kind == mailroom.KindTicketExpired {
		s.moves(e, t, waiting, waiting)
	} else if t.state.over() {
		s.badTicket(Ticket, e.Run, id, "entry %d decides ticket %s of run %s, which is %s", e.Seq, id, e.Run, t.state)
	}
	switch {
	case t.state == earlier:
		return
	case k == nil:
		s.badTicket(Ticket, e.Run, id, "entry %d, %s, is about ticket %s of run %s, which was never opened", e.Seq, e.Kind, id, e.Run)
		return
	case k.state != mailroom.TicketOpen:
		s.badTicket(Ticket, e.Run, id, "entry %d, %s, is about ticket %s of run %s, which is %s already", e.Seq, e.Kind, id, e.Run, k.state)
	}
	k.state, k.verdict = mailroom.TicketDecided, body.Decision
	if e.Kind == mailroom.KindTicketExpired {
		k.state = mailroom.TicketExpired
	}
}
