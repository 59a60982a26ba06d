package turn

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/entry"
)

// awaited is a ticket of kind children whose send follows in the same step.
type awaited struct{ ticket, thread string }

// atSeq returns the key of a part that is one entry.
func atSeq(kind Kind, seq int64) string { return string(kind) + ":" + strconv.FormatInt(seq, 10) }

func toolName(call string) string       { return string(KindTool) + ":" + call }
func questionName(ticket string) string { return string(KindQuestion) + ":" + ticket }

// nextKey returns the key of the next part of a turn under this name. Agents may repeat a call, and a run that is
// retried opens its tickets again.
func (t *Turn) nextKey(name string) string {
	if n := t.keys[name]; n > 0 {
		return name + "#" + strconv.Itoa(n+1)
	}
	return name
}

// whole adds a part that is complete with its entry.
func (s *State) whole(t *Turn, p *Part) {
	p.Progress = ProgressDone
	s.add(t, p)
	s.push(PartBegan, t, p)
	s.push(PartEnded, t, p)
}

func (s *State) step(e mailroom.Entry) {
	var body entry.StepNamed
	_ = e.Decode(&body)
	t := s.turn(e)
	t.Usage, t.awaited = t.Usage.Plus(body.Usage), nil
	s.whole(t, &Part{
		Key: atSeq(KindStep, e.Seq), Kind: KindStep, Attempt: e.Attempt, Seq: e.Seq, Name: body.Name, Usage: body.Usage,
	})
}

// toolStarted applies the start of a call. A call that starts again, in another attempt or by mistake, is another part.
func (s *State) toolStarted(e mailroom.Entry) {
	var body entry.ToolStarted
	_ = e.Decode(&body) // an agent wrote it: take what can be read
	t := s.turn(e)
	if old := t.calls[body.Call]; old != nil && old.Progress == ProgressOpen {
		old.Progress = ProgressVoid
		s.push(PartEnded, t, old)
	} else {
		s.slot++
	}
	name := toolName(body.Call)
	p := &Part{
		Key: t.nextKey(name), Kind: KindTool, Progress: ProgressOpen, Attempt: e.Attempt, Seq: e.Seq, Name: body.Name,
		Tool: &Tool{Call: body.Call, Input: body.Arguments},
	}
	kind := PartBegan
	if s.live.takeTool(t.Run, body.Call) {
		kind = PartChanged // its arguments are complete
	}
	s.add(t, p)
	t.keys[name]++
	t.calls[body.Call] = p
	s.push(kind, t, p)
}

// toolDone applies the end of a call. Without a start, which may be older than the entries that are kept, the call is a
// part without a name.
func (s *State) toolDone(e mailroom.Entry) {
	var body entry.ToolDone
	_ = e.Decode(&body)
	t := s.turn(e)
	p := t.calls[body.Call]
	if p == nil {
		name := toolName(body.Call)
		p = &Part{
			Key: t.nextKey(name), Kind: KindTool, Progress: ProgressOpen, Attempt: e.Attempt, Seq: e.Seq,
			Tool: &Tool{Call: body.Call},
		}
		s.add(t, p)
		t.keys[name]++
		t.calls[body.Call] = p
		s.live.takeTool(t.Run, body.Call)
		s.push(PartBegan, t, p)
	} else {
		s.slot++
	}
	kind := PartEnded
	if p.Progress != ProgressOpen {
		kind = PartChanged
	}
	s.update(t, p, func() {
		tool := *p.Tool // events have the old one
		tool.Summary, tool.Output = body.Summary, body.Output
		p.Tool, p.Progress = &tool, ProgressFailed
		if body.OK {
			p.Progress = ProgressDone
		}
	})
	s.push(kind, t, p)
}

// opened applies the opening of a ticket. One of kind children is no question: it belongs to the send that follows.
func (s *State) opened(e mailroom.Entry) {
	var k mailroom.Ticket
	if e.Decode(&k) != nil || k.ID == "" {
		return
	}
	t := s.turn(e)
	if k.Kind == mailroom.TicketChildren {
		var to struct{ Thread string }
		if json.Unmarshal(k.Arguments, &to) == nil && len(t.awaited) < mailroom.MaxSends {
			t.awaited = append(t.awaited, awaited{k.ID, to.Thread})
		}
		return
	}
	name := questionName(k.ID)
	p := &Part{
		Key: t.nextKey(name), Kind: KindQuestion, Progress: ProgressOpen, Attempt: e.Attempt, Seq: e.Seq, Name: k.Name,
		Text: k.Prompt,
		Question: &Question{
			Ticket: k.ID, Kind: k.Kind, Action: k.Action, Arguments: notNull(k.Arguments), Digest: k.Digest,
			ExpiresAt: k.ExpiresAt, Answers: k.Answers, Holds: k.Holds,
		},
	}
	s.add(t, p)
	t.keys[name]++
	t.tickets[k.ID] = p
	s.push(PartBegan, t, p)
}

// decided applies the decision on a ticket, or its expiry. A ticket whose opening was not applied is passed over: a
// decision without its question says nothing.
func (s *State) decided(e mailroom.Entry) {
	var body entry.TicketDecision
	_ = e.Decode(&body)
	t := s.turn(e)
	p := t.tickets[body.Ticket]
	if p == nil || p.Progress != ProgressOpen {
		return
	}
	expired := e.Kind == entry.KindTicketExpired
	s.update(t, p, func() {
		p.Progress = ProgressDone
		switch {
		case expired:
			p.Progress = ProgressExpired
		case p.Child != nil:
			p.childEnded(&body)
		default:
			q := *p.Question
			q.Decision, q.Answer, q.Reason, q.DecidedBy = body.Decision, notNull(body.Answer), body.Reason, body.DecidedBy
			p.Question = &q
		}
	})
	s.push(PartEnded, t, p)
}

// notNull returns nil for JSON's null, which entries have where a ticket has no value.
func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// childEnded takes over how the child's run ended, which is the answer of its ticket.
func (p *Part) childEnded(body *entry.TicketDecision) {
	var end struct {
		Run    string
		Status mailroom.Status
		Reply  *string
		Error  *mailroom.RunError
	}
	child := *p.Child
	if json.Unmarshal(body.Answer, &end) == nil && strings.HasPrefix(body.DecidedBy, "run:") {
		child.Status, child.Reply, child.Error = end.Status, end.Reply, end.Error
		if end.Status == mailroom.StatusFailed || end.Status == mailroom.StatusCancelled {
			p.Progress = ProgressFailed
		}
	}
	p.Child = &child
}

// send applies a message to another thread.
func (s *State) send(e mailroom.Entry) {
	var body entry.Sent
	_ = e.Decode(&body)
	t := s.turn(e)
	child := &Child{Thread: body.Thread, Message: body.Message, Run: body.Run}
	p := &Part{Key: atSeq(KindChild, e.Seq), Kind: KindChild, Attempt: e.Attempt, Seq: e.Seq, Child: child}
	i := slices.IndexFunc(t.awaited, func(a awaited) bool { return a.thread == body.Thread })
	if !body.Answer || i < 0 {
		s.whole(t, p)
		return
	}
	child.Ticket, p.Progress = t.awaited[i].ticket, ProgressOpen
	t.awaited = slices.Delete(t.awaited, i, i+1)
	s.add(t, p)
	t.tickets[child.Ticket] = p
	s.push(PartBegan, t, p)
}
