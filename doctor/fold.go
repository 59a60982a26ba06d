package doctor

import (
	"container/heap"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// fold folds a thread's log entry by entry. It keeps little for each run, ticket and message,
// because a log may be long.
type fold struct {
	*checker
	first   int64 // seq of the first entry of the fold
	after   int64 // seq of the last entry folded so far
	runs    map[string]*loggedRun
	tickets map[string]*loggedTicket
	content map[int64]uint64   // by seq: hash of the id of the message that the entry holds
	unread  map[string]steered // unread steered messages by id
	open    string             // the run that has started and not ended
	queue   queue              // runs before their first start, in order
	places  map[int64]string   // run ids by place
	bytes   int64              // of all entries so far
	sent    []sent             // sends in the current page
	holds   map[string]int64   // fences of held reservations by id
	seed    maphash.Seed
}

// loggedTicket is what the log says about a ticket.
type loggedTicket struct {
	run     string
	state   mailroom.TicketState
	verdict mailroom.Verdict
	seq     int64 // seq of the entry that opened it
	seen    bool  // its row was compared
}

// steered is an unread message that was steered to a current run.
type steered struct {
	seq    int64  // of its latest content
	own    string // the run that it becomes if it stays unread
	holder string // the run that was current
}

func newFold(p *checker) *fold {
	return &fold{
		checker: p, first: p.t.FirstSeq, after: p.t.FirstSeq - 1,
		runs: map[string]*loggedRun{}, tickets: map[string]*loggedTicket{}, content: map[int64]uint64{},
		unread: map[string]steered{}, places: map[int64]string{}, holds: map[string]int64{}, seed: maphash.MakeSeed(),
	}
}

// read folds the next page of the log.
func (s *fold) read() (cost int, err error) {
	page, err := s.r.Entries(store.EntryQuery{Thread: s.t.ID, After: s.after, Before: s.t.LastSeq + 1, Limit: batch})
	if err != nil {
		return 0, err
	}
	began := s.after
	for _, e := range page {
		if e.Seq != s.after+1 {
			s.bad(Seq, "entry %d follows entry %d", e.Seq, s.after)
		}
		if e.Thread != s.t.ID {
			s.bad(Seq, "entry %d belongs to thread %q", e.Seq, e.Thread)
		}
		s.after = max(s.after, e.Seq)
		s.bytes += int64(len(e.Raw))
		s.entry(e)
	}
	s.report.Entries += len(page)
	if s.after < s.t.LastSeq && (len(page) < batch || s.after == began) {
		s.bad(Seq, "the log ends at entry %d, the thread's row says %d", s.after, s.t.LastSeq)
		s.after = s.t.LastSeq
	}
	err = s.sends(s.sent)
	s.sent = s.sent[:0]
	return len(page) + 1, err
}

// edges checks that no entry is before first_seq or behind last_seq.
func (s *fold) edges() error {
	for _, q := range []store.EntryQuery{
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

func (s *fold) hash(text string) uint64 { return maphash.String(s.seed, text) }

// decode reads the body of an entry. An unreadable body is a finding.
func (s *fold) decode(e mailroom.Entry, body any) {
	if err := json.Unmarshal(e.Body, body); err != nil {
		s.badRun(Seq, e.Run, "entry %d, %s, is unreadable: %v", e.Seq, e.Kind, err)
	}
}

// entry folds one entry.
func (s *fold) entry(e mailroom.Entry) {
	switch e.Kind {
	case entry.KindMessage:
		s.message(e)
		return
	case entry.KindEdited:
		var body entry.Edited
		s.decode(e, &body)
		s.content[e.Seq] = s.hash(body.Message)
		if m, ok := s.unread[body.Message]; ok {
			m.seq = e.Seq
			s.unread[body.Message] = m
		}
		s.run(e)
		return
	case entry.KindRetracted:
		var body entry.MessageRef
		s.decode(e, &body)
		delete(s.unread, body.Message)
		s.run(e)
		return
	case entry.KindNotification, entry.KindReserved, entry.KindReleased, entry.KindLapsed, entry.KindChannel:
		s.threadEntry(e)
		return
	}
	t := s.run(e)
	switch e.Kind {
	case entry.KindQueued:
		s.queued(e, t)
	case entry.KindStarted, entry.KindResumed:
		s.started(e, t)
	case entry.KindRescheduled:
		s.rescheduled(e, t)
	case entry.KindWaiting:
		s.transition(e, t, stateWaiting, stateRunning)
	case entry.KindStop:
		var body entry.RunStop
		s.decode(e, &body)
		s.transition(e, t, stateRunning, stateRunning)
		t.stop = body.Reason
	case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		s.ended(e, t)
	case entry.KindRetried:
		s.retried(e, t)
	case entry.KindTicketOpened, entry.KindTicketDecided, entry.KindTicketExpired:
		s.ticket(e, t)
	case entry.KindMessageRead:
		var body entry.MessageRef
		s.decode(e, &body)
		s.transition(e, t, stateRunning, stateRunning)
		s.reads(e, t, body.Message)
	case entry.KindSend:
		var body entry.Sent
		s.decode(e, &body)
		s.transition(e, t, stateRunning, stateRunning)
		s.sent = append(s.sent, sent{seq: e.Seq, at: e.At, from: e.Run, thread: body.Thread, run: body.Run})
	default: // a step, or an entry of a step
		s.transition(e, t, stateRunning, stateRunning)
	}
}

// run returns the state of the run that an entry names, and checks that the entry has the run's
// attempt.
func (s *fold) run(e mailroom.Entry) *loggedRun {
	t := s.runs[e.Run]
	if t == nil {
		t = s.newRun()
		s.runs[e.Run] = t
	}
	want := t.attempt
	if e.Kind == entry.KindStarted || e.Kind == entry.KindResumed {
		want++
	}
	if e.Attempt != want && t.state != statePurged {
		s.badRun(Attempt, e.Run, "entry %d, %s of run %s, has attempt %d, which should be %d", e.Seq, e.Kind, e.Run, e.Attempt, want)
	}
	t.attempt = e.Attempt
	return t
}

// message folds a message. An assistant's message comes from a running run. The id of a submitted
// message names its run: its own, or the current one that it is steered to.
func (s *fold) message(e mailroom.Entry) {
	var m struct {
		ID   string        `json:"id"`
		Seq  int64         `json:"seq"`
		Run  string        `json:"run"`
		Role mailroom.Role `json:"role"`
	}
	s.decode(e, &m)
	s.content[e.Seq] = s.hash(m.ID)
	if m.Seq != e.Seq || m.Run != e.Run {
		s.badRun(Message, e.Run, "message %s at entry %d of run %s claims to be entry %d of run %s", m.ID, e.Seq, e.Run, m.Seq, m.Run)
	}
	if m.Role == mailroom.RoleAssistant {
		s.transition(e, s.run(e), stateRunning, stateRunning)
		return
	}
	own, seq := submitted(m.ID)
	if seq != e.Seq {
		s.badRun(Message, e.Run, "message %s is at entry %d, which its id does not name", m.ID, e.Seq)
	}
	if own != e.Run {
		s.unread[m.ID] = steered{seq: e.Seq, own: own, holder: e.Run}
		return
	}
	if s.runs[own] == nil {
		s.runs[own] = s.newRun()
	}
	s.runs[own].bytes += int64(len(e.Raw))
}

// newRun returns the state of a run that no earlier entry names. In a purged log the run may have
// begun before the first entry.
func (s *fold) newRun() *loggedRun {
	if s.first > 1 {
		return &loggedRun{state: statePurged}
	}
	return &loggedRun{begun: true}
}

// submitted splits the id of a submitted message into the run it was made with and its first entry,
// which is 0 for any other id.
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

func (s *fold) queued(e mailroom.Entry, t *loggedRun) {
	var body entry.RunQueued
	s.decode(e, &body)
	if t.state == statePurged {
		t.state = stateUnqueued // only its messages were seen so far
	}
	s.transition(e, t, stateQueued, stateUnqueued)
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

func (s *fold) enqueue(run string, t *loggedRun) {
	if t.ordered {
		heap.Push(&s.queue, turn{t.priority, t.pos, run})
	}
}

// started checks that the run is the first in the queue, and that no other run is open.
func (s *fold) started(e mailroom.Entry, t *loggedRun) {
	var body entry.RunStarted
	s.decode(e, &body)
	if s.open != "" && s.open != e.Run {
		s.badRun(Current, e.Run, "entry %d starts run %s before the end of run %s", e.Seq, e.Run, s.open)
	}
	s.open = e.Run
	if e.Kind == entry.KindResumed {
		s.transition(e, t, stateRunning, stateWaiting)
		t.failures = 0
		s.readSeqs(body.Messages)
		return
	}
	if first := s.queue.first(s.runs); t.state == stateQueued && t.ordered && first != "" && first != e.Run {
		s.badRun(Order, e.Run, "entry %d starts run %s before run %s, which was next", e.Seq, e.Run, first)
	}
	if t.started == 0 {
		t.started = micros(e.At)
	}
	if !t.read {
		t.read, t.inputs = true, s.hashSeqs(body.Messages)
	}
	s.transition(e, t, stateRunning, stateQueued, stateRescheduled)
}

func (s *fold) hashSeqs(seqs []int64) uint64 {
	var text []byte
	for _, seq := range seqs {
		text = append(strconv.AppendInt(text, seq, 10), ' ')
	}
	return maphash.Bytes(s.seed, text)
}

// readSeqs marks the steered messages as read that a resumed run lists.
func (s *fold) readSeqs(seqs []int64) {
	for id, m := range s.unread {
		if slices.Contains(seqs, m.seq) {
			delete(s.unread, id)
		}
	}
}

func (s *fold) reads(e mailroom.Entry, t *loggedRun, message string) {
	if m, ok := s.unread[message]; ok && m.holder == e.Run {
		delete(s.unread, message)
	} else if _, seq := submitted(message); t.state != statePurged && seq >= s.first {
		s.badRun(Steer, e.Run, "entry %d reads message %s, which is not unread in run %s", e.Seq, message, e.Run)
	}
}

func (s *fold) rescheduled(e mailroom.Entry, t *loggedRun) {
	var body entry.RunRescheduled
	s.decode(e, &body)
	s.transition(e, t, stateRescheduled, stateRunning)
	t.available = micros(body.AvailableAt)
	switch {
	case body.Reason == "lease_lost":
		t.lost++
	case body.Error != nil && body.Error.Class == mailroom.ClassTransient:
		t.failures++
	}
}

// ended folds the end of a run, which voids its open tickets.
func (s *fold) ended(e mailroom.Entry, t *loggedRun) {
	switch e.Kind {
	case entry.KindCompleted:
		var body entry.RunCompleted
		s.decode(e, &body)
		s.transition(e, t, stateCompleted, stateRunning)
		t.end = s.hash(completion(body.Reply, body.Steps))
	case entry.KindFailed:
		var body entry.RunFailed
		s.decode(e, &body)
		s.transition(e, t, stateFailed, stateQueued, stateRunning, stateRescheduled, stateWaiting)
		t.end = s.hash(failure(&body.Error, body.Failures, body.Crashes))
		if body.Error.Class == mailroom.ClassCrashed {
			t.lost++
		}
	case entry.KindCancelled:
		var body entry.RunStop
		s.decode(e, &body)
		if t.state == stateUnqueued || t.state == statePurged { // possibly steered, and superseded before it became a run
			for id, m := range s.unread {
				if m.own == e.Run {
					delete(s.unread, id)
				}
			}
		}
		t.parked = t.state == stateWaiting
		s.transition(e, t, stateCancelled, stateUnqueued, stateQueued, stateRunning, stateRescheduled, stateWaiting)
		t.end = s.hash(string(body.Reason))
	}
	t.ended = micros(e.At)
	if s.open == e.Run {
		s.open = ""
	}
	for _, k := range t.tickets {
		if k.state == mailroom.TicketOpen {
			k.state = mailroom.TicketVoid
		}
	}
}

func (s *fold) retried(e mailroom.Entry, t *loggedRun) {
	var body entry.RunRetried
	s.decode(e, &body)
	s.transition(e, t, stateQueued, stateFailed, stateCancelled)
	t.failures, t.lost, t.started, t.ended, t.end, t.stop = 0, 0, 0, 0, 0, ""
	t.parked = false
	t.pos = e.Seq // a retry gives a new place
	t.ordered = t.listed
	if body.Fresh {
		for _, k := range t.tickets {
			k.state = mailroom.TicketVoid
		}
	}
	s.enqueue(e.Run, t)
}

func (s *fold) ticket(e mailroom.Entry, t *loggedRun) {
	var body struct {
		ID       string           `json:"id"`
		Ticket   string           `json:"ticket"`
		Decision mailroom.Verdict `json:"decision"`
	}
	s.decode(e, &body)
	id := body.ID + body.Ticket
	k := s.tickets[id]
	if e.Kind == entry.KindTicketOpened {
		s.transition(e, t, stateRunning, stateRunning)
		t.asked++
		if k == nil {
			k = &loggedTicket{run: e.Run, seq: e.Seq}
			s.tickets[id] = k
			t.tickets = append(t.tickets, k)
		} else if k.state != mailroom.TicketVoid {
			s.badTicket(Ticket, e.Run, id, "entry %d opens ticket %s of run %s again while it is %s", e.Seq, id, e.Run, k.state)
		}
		k.state, k.verdict = mailroom.TicketOpen, ""
		return
	}
	if e.Kind == entry.KindTicketExpired {
		s.transition(e, t, stateWaiting, stateWaiting)
	} else if t.state.over() {
		s.badTicket(Ticket, e.Run, id, "entry %d decides ticket %s of run %s, which is %s", e.Seq, id, e.Run, t.state)
	}
	switch {
	case t.state == statePurged:
		return
	case k == nil:
		s.badTicket(Ticket, e.Run, id, "entry %d, %s, is about ticket %s of run %s, which was never opened", e.Seq, e.Kind, id, e.Run)
		return
	case k.state != mailroom.TicketOpen:
		s.badTicket(Ticket, e.Run, id, "entry %d, %s, is about ticket %s of run %s, which is already %s", e.Seq, e.Kind, id, e.Run, k.state)
	}
	k.state, k.verdict = mailroom.TicketDecided, body.Decision
	if e.Kind == entry.KindTicketExpired {
		k.state = mailroom.TicketExpired
	}
}
