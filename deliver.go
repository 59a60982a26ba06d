package mailroom

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ChildEnd tells a thread that a run which one of its runs waits for has ended.
type ChildEnd struct {
	Thread string // of the run that waits
	Run    string
	Name   string // of its ticket
	Child  string
	Answer json.RawMessage
}

// Outgoing hands over what the transitions since the last call send to other
// threads. It commits with them or not at all.
func (t *ThreadState) Outgoing() (sends []Submit, ended []ChildEnd) {
	sends, ended = t.outgoing, t.ended
	t.outgoing, t.ended = nil, nil
	return sends, ended
}

// deliver sends what entry seq says to the thread that this one delivers to.
func (t *ThreadState) deliver(r *Run, seq int64, parts []Part, now time.Time) {
	if t.DeliverTo == "" || len(r.Lineage) >= MaxHops {
		return
	}
	at := strconv.FormatInt(seq, 10)
	t.outgoing = append(t.outgoing, Submit{
		Thread: t.DeliverTo, Run: DeriveID("deliver", r.ID, at), Key: r.ID + "/" + at,
		Messages: []NewMessage{{Parts: parts}}, Sender: r.Agent, Owner: t.Owner, By: RunToken(t.Owner),
		Origin: Origin{Via: "run", Sender: r.Agent}, Parent: r.ID, ParentThread: t.ID,
		Lineage: append(slices.Clone(r.Lineage), t.ID),
	})
}

// IsDelivery reports whether the run brings a message of its parent to a chat, or
// one of a child to its parent's thread. It goes on whatever becomes of the
// parent.
func (r *Run) IsDelivery() bool {
	if r.Origin.Via == "wake" {
		return true
	}
	at, ok := strings.CutPrefix(r.SubmitKey, r.Parent+"/")
	return ok && r.Parent != "" && r.ID == DeriveID("deliver", r.Parent, at)
}

func ticketParts(k *Ticket) []Part {
	return []Part{{Type: "data", Data: mustJSON(map[string]any{"ticket": k})}}
}

// reportEnd tells the caller of a run, and the thread it delivers to, that it has
// ended. Who was given a reply sees the end of a run that completed; that one failed
// is told also after words that it said on the way. What was superseded or retracted
// is nobody's news.
func (t *ThreadState) reportEnd(r *Run, seq int64, now time.Time) {
	untold := r.Reply == nil || strings.TrimSpace(*r.Reply) == "" || r.Status == StatusFailed
	if untold && r.Reason != ReasonSuperseded && r.Reason != ReasonRetracted {
		t.deliver(r, seq, []Part{{Type: "data", Data: r.endReport()}}, now)
	}
	c := r.Caller
	switch {
	case c == nil:
	case c.Answer == AnswerWait:
		t.ended = append(t.ended, ChildEnd{Thread: c.Thread, Run: c.Run, Name: c.Name, Child: r.ID, Answer: r.endReport()})
	case c.Answer == AnswerWake:
		at := strconv.FormatInt(seq, 10) // a run that is retried ends again, with the same attempt if it never starts
		t.outgoing = append(t.outgoing, Submit{
			Thread: c.Thread, Run: DeriveID("answer", r.ID, at), Key: r.ID + "/answer/" + at,
			Messages: []NewMessage{{Parts: []Part{{Type: "data", Data: r.endReport()}}, Visibility: VisibleInternal}},
			Sender:   r.Agent, Owner: t.Owner, Origin: Origin{Via: "wake", Sender: r.Agent}, Parent: c.Run,
		})
	}
}

// endReport is how a run ended, as its caller is told. A reply that is too long is
// left to be read where it is.
func (r *Run) endReport() json.RawMessage {
	out := struct {
		Run    string    `json:"run"`
		Thread string    `json:"thread"`
		Status Status    `json:"status"`
		Reply  *string   `json:"reply"`
		Cut    bool      `json:"cut,omitempty"` // the reply is too long; read it in the run
		Error  *RunError `json:"error,omitempty"`
		Reason Reason    `json:"reason,omitempty"`
	}{r.ID, r.Thread, r.Status, r.Reply, false, r.Error, r.Reason}
	b := mustJSON(out)
	if len(b) > MaxAnswer {
		out.Reply, out.Cut = nil, true
		b = mustJSON(out)
	}
	return b
}

// FindChild finds the child that a repeated send of run made before, and its end,
// nil while it goes on: a ticket that is asked anew must not wait for what was.
func (t *ThreadState) FindChild(run, name, child string) (*ChildEnd, error) {
	r := t.runs[child]
	if r == nil || r.Caller == nil || r.Caller.Answer != AnswerWait {
		return nil, Errorf(CodeConflict, "send %q of run %s was made before, without waiting for its end", name, run)
	}
	if !r.Status.Finished() {
		return nil, nil
	}
	c := r.Caller
	return &ChildEnd{Thread: c.Thread, Run: c.Run, Name: c.Name, Child: r.ID, Answer: r.endReport()}, nil
}

// OnChildEnd decides the ticket of a child that has ended, if anybody still
// waits for it.
func (t *ThreadState) OnChildEnd(e ChildEnd, now time.Time) {
	k := t.tickets[TicketID(e.Run, e.Name)]
	if k == nil || k.State != TicketOpen || t.runs[k.Run] == nil {
		return
	}
	t.promote(now)
	t.decide(k, Decision{Verdict: VerdictAnswer, Answer: e.Answer, By: "run:" + e.Child}, now)
	t.schedule(now)
}
