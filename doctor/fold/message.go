package fold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/entry"
)

// Fate says what happened to a submitted message.
type Fate string

const (
	FateUnread     Fate = ""
	FateRead       Fate = "read"
	FateOwnRun     Fate = "made a run of its own" // a steered message that the current run did not read
	FateRetracted  Fate = "retracted"
	FateSuperseded Fate = "superseded" // before it became a run
)

// Message is a submitted message.
type Message struct {
	Seq     int64  // seq of the message's entry
	Content int64  // seq of the entry with its latest content
	Run     *Run   // the run that it was for, or was steered to
	Own     string // id of the run that was made with it, or that it becomes if it stays unread
	Steered bool
	Fate    Fate
}

// ID returns the message's id.
func (m *Message) ID() string { return fmt.Sprintf("%s.%d", m.Own, m.Seq) }

// Message returns the submitted message with this id, or nil.
func (l *Log) Message(id string) *Message {
	own, seq := SplitID(id)
	if m := l.messages[seq]; m != nil && m.Own == own {
		return m
	}
	return nil
}

// SplitID splits the id of a submitted message into the run it was made with and the seq of its
// entry, which is 0 for any other id.
func SplitID(id string) (run string, seq int64) {
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

// message folds a message. An assistant's message comes from a running run. The id of a submitted message contains
// the run that was made with it. For a steered message, that is the run which it becomes if the current run does not
// read it.
func (l *Log) message(e mailroom.Entry) {
	var body struct {
		ID   string        `json:"id"`
		Seq  int64         `json:"seq"`
		Run  string        `json:"run"`
		Role mailroom.Role `json:"role"`
	}
	l.decode(e, &body)
	if body.Seq != e.Seq || body.Run != e.Run {
		l.bad(RuleMessage, e.Run, "message %s at entry %d of run %s claims to be entry %d of run %s", body.ID, e.Seq, e.Run,
			body.Seq, body.Run)
	}
	if body.Role == mailroom.RoleAssistant {
		l.transition(e, l.run(e), StateRunning, StateRunning)
		return
	}
	own, seq := SplitID(body.ID)
	if seq != e.Seq {
		l.bad(RuleMessage, e.Run, "message %s is at entry %d, which its id does not name", body.ID, e.Seq)
	}
	r := l.Runs[e.Run]
	if r == nil {
		r = l.newRun(e.Run)
	}
	m := &Message{Seq: e.Seq, Content: e.Seq, Run: r, Own: own, Steered: own != e.Run}
	l.messages[e.Seq] = m
	switch {
	case m.Steered:
		l.Unread[body.ID] = m
		if r.State != StatePurged && l.Current != e.Run {
			l.bad(RuleSteer, e.Run, "entry %d steers message %s to run %s, which is %s", e.Seq, body.ID, e.Run, r.State)
		}
		return
	case r.State != StateUnqueued && r.State != StatePurged && (r.State != StateQueued || r.Read):
		l.bad(RuleMessage, e.Run, "entry %d adds message %s to run %s, which is %s", e.Seq, body.ID, e.Run, r.State)
	}
	r.messages = append(r.messages, e.Seq)
	m.Own = r.ID // the same string
	r.Bytes += int64(len(e.Raw))
}

// find returns the message with this id that a run names. It reports a violation if the message must be in the log
// and is missing. If the message's entry was purged, it returns the parts of the message that the id names.
func (l *Log) find(e mailroom.Entry, r *Run, id string) *Message {
	m := l.Message(id)
	own, seq := SplitID(id)
	switch {
	case m != nil:
	case seq == 0 || seq >= l.First:
		l.bad(RuleMessage, e.Run, "entry %d, %s, is about message %s, which is not in the log", e.Seq, e.Kind, id)
	default:
		m = &Message{Seq: seq, Run: r, Own: own}
		l.messages[seq] = m
	}
	return m
}

// queuedMessages folds the list of messages of a run that becomes queued: those submitted with it, or unread steered
// ones that become its messages.
func (l *Log) queuedMessages(e mailroom.Entry, r *Run, ids []string) {
	var seqs []int64
	for _, id := range ids {
		m := l.find(e, r, id)
		if m == nil {
			continue
		}
		seqs = append(seqs, m.Seq)
		delete(l.Unread, id)
		switch {
		case !m.Steered || m.Fate == FateRetracted:
		case m.Fate != FateUnread:
			l.bad(RuleSteer, e.Run, "entry %d makes a run of message %s, which was already %s", e.Seq, id, m.Fate)
		default:
			m.Fate = FateOwnRun
		}
	}
	for _, seq := range r.messages {
		if !slices.Contains(seqs, seq) {
			l.bad(RuleMessage, e.Run, "entry %d queues run %s without its message at entry %d", e.Seq, e.Run, seq)
		}
	}
	r.messages = seqs
}

// changed checks that an edit or a retraction concerns a message that was not read yet.
func (l *Log) changed(e mailroom.Entry, r *Run) {
	var body entry.Edited
	l.decode(e, &body)
	m := l.find(e, r, body.Message)
	if m == nil {
		return
	}
	if m.Fate != FateUnread && (m.Fate != FateOwnRun || r.Read) && r.State != StatePurged {
		l.bad(RuleMessage, e.Run, "entry %d, %s, changes message %s, which was already %s", e.Seq, e.Kind,
			body.Message, m.Fate)
	}
	if e.Kind == entry.KindEdited {
		m.Content = e.Seq
		return
	}
	m.Fate = FateRetracted
	delete(l.Unread, body.Message)
}

// lists checks that the first start of a run lists the current content of each of its messages that
// was not retracted.
func (l *Log) lists(e mailroom.Entry, r *Run, got []int64) {
	var want []int64
	for _, seq := range r.messages {
		if m := l.messages[seq]; m.Fate != FateRetracted {
			want = append(want, m.Content)
			m.Fate = FateRead
		}
	}
	if r.Whole && !slices.Equal(got, want) {
		l.bad(RuleMessage, e.Run, "entry %d starts run %s with entries %v, its messages are %v", e.Seq, e.Run, got, want)
	}
	r.Read, r.Inputs = true, l.HashSeqs(got)
	r.messages = nil
}

// readSeqs folds the steered messages that a later start lists.
func (l *Log) readSeqs(e mailroom.Entry, r *Run, seqs []int64) {
	for _, seq := range seqs {
		id := ""
		for other, m := range l.Unread {
			if m.Content == seq {
				id = other
			}
		}
		switch {
		case id != "":
			l.reads(e, r, id)
		case r.State != StatePurged && seq >= l.First:
			l.bad(RuleSteer, e.Run, "entry %d reads entry %d, which is no unread message of run %s", e.Seq, seq, e.Run)
		}
	}
}

// reads folds the reading of a steered message.
func (l *Log) reads(e mailroom.Entry, r *Run, id string) {
	if m := l.Unread[id]; m != nil && m.Run == r {
		m.Fate = FateRead
		delete(l.Unread, id)
	} else if _, seq := SplitID(id); r.State != StatePurged && seq >= l.First {
		l.bad(RuleSteer, e.Run, "entry %d reads message %s, which is not unread in run %s", e.Seq, id, e.Run)
	}
}
