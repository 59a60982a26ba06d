package thread

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/digest"
	"mailroom/internal/jsontext"
	"mailroom/internal/reserved"
)

// ChildEnd reports the end of a child run to the thread of the run that waits for it.
type ChildEnd struct {
	Thread string // thread of the waiting run
	Run    string
	Name   string // name of the ticket that the run waits for
	Child  string
	Answer json.RawMessage
}

// Outbox holds what the transitions of a thread send to other threads: submits, and the ends of
// runs that other runs wait for.
type Outbox struct {
	submits []Submit
	leases  []LeaseEnd
	ended   []ChildEnd
}

// Take returns and clears the content. The caller must commit it in the same transaction: first the ends of leases,
// so that a run which goes on has what came back.
func (o *Outbox) Take() (submits []Submit, leases []LeaseEnd, ended []ChildEnd) {
	submits, leases, ended = o.submits, o.leases, o.ended
	*o = Outbox{}
	return submits, leases, ended
}

// deliver sends the content of entry seq of run r to the thread in DeliverTo.
func (o *Outbox) deliver(from *mailroom.Thread, r *mailroom.Run, seq int64, parts []mailroom.Part) {
	if from.DeliverTo == "" || len(r.Lineage) >= mailroom.MaxHops {
		return
	}
	at := strconv.FormatInt(seq, 10)
	o.submits = append(o.submits, Submit{
		Thread: from.DeliverTo, Run: DeliveryID(r.ID, seq), Key: r.ID + "/" + at,
		Messages: []NewMessage{{Parts: parts}}, Sender: r.Agent, Owner: from.Owner, By: auth.RunToken(from.Owner),
		ByServer: reserved.ForServer(from.DeliverTo),
		Origin:   mailroom.Origin{Via: "run", Sender: r.Agent}, Parent: r.ID,
		From: &Descent{Thread: from.ID, Lineage: append(slices.Clone(r.Lineage), from.ID)},
	})
}

// DeliveryID returns the id of the run that delivers entry seq of a run to another thread.
func DeliveryID(run string, seq int64) string {
	return digest.ID("deliver", run, strconv.FormatInt(seq, 10))
}

// IsDelivery reports whether the run delivers a message of its parent to a chat, or the end of a
// child to its parent's thread. Such a run continues when its parent is cancelled.
func IsDelivery(r mailroom.RunView) bool {
	if r.Origin.Via == "wake" {
		return true
	}
	at, ok := strings.CutPrefix(r.SubmitKey, r.Parent+"/")
	return ok && r.Parent != "" && r.ID == digest.ID("deliver", r.Parent, at)
}

func ticketParts(k *mailroom.Ticket) []mailroom.Part {
	return []mailroom.Part{{Type: "data", Data: jsontext.AppendAny(nil, map[string]any{"ticket": k})}}
}

// reportEnd reports the end of a run to its caller and to the thread it delivers to. A run with a
// reply needs no report unless it failed. The end of a superseded or retracted run is not reported
// to the chat.
func (o *Outbox) reportEnd(from *mailroom.Thread, r *mailroom.Run, seq int64) {
	untold := r.Reply == nil || strings.TrimSpace(*r.Reply) == "" || r.Status == mailroom.StatusFailed
	if untold && r.Reason != mailroom.ReasonSuperseded && r.Reason != mailroom.ReasonRetracted {
		o.deliver(from, r, seq, []mailroom.Part{{Type: "data", Data: endReport(r)}})
	}
	c := r.Caller
	switch {
	case c == nil:
	case c.Answer == mailroom.AnswerWait:
		o.ended = append(o.ended, childEnd(r))
	case c.Answer == mailroom.AnswerWake:
		at := strconv.FormatInt(seq, 10) // unique: a retried run can end again with the same attempt
		o.submits = append(o.submits, Submit{
			Thread: c.Thread, Run: digest.ID("answer", r.ID, at), Key: r.ID + "/answer/" + at,
			Messages: []NewMessage{{Parts: []mailroom.Part{{Type: "data", Data: endReport(r)}},
				Visibility: mailroom.VisibleInternal}},
			Sender: r.Agent, Owner: from.Owner, Origin: mailroom.Origin{Via: "wake", Sender: r.Agent}, Parent: c.Run,
			lease: heir(r),
		})
	}
}

// endReport encodes how a run ended for its caller. It leaves out a reply that exceeds MaxAnswer;
// the caller reads it from the run.
func endReport(r *mailroom.Run) json.RawMessage {
	out := struct {
		Run    string             `json:"run"`
		Thread string             `json:"thread"`
		Status mailroom.Status    `json:"status"`
		Reply  *string            `json:"reply"`
		Cut    bool               `json:"cut,omitempty"` // the reply is too long; read it from the run
		Error  *mailroom.RunError `json:"error,omitempty"`
		Reason mailroom.Reason    `json:"reason,omitempty"`
	}{r.ID, r.Thread, r.Status, r.Reply, false, r.Error, r.Reason}
	b := jsontext.AppendAny(nil, out)
	if len(b) > mailroom.MaxAnswer {
		out.Reply, out.Cut = nil, true
		b = jsontext.AppendAny(nil, out)
	}
	return b
}

// EndOfChild returns the end of the child run of a repeated send, or nil while the child is running.
// A new ticket for a child that has ended must be decided at once. run and name are the run and name
// of the send; r is nil if the child is not loaded.
func EndOfChild(r *mailroom.Run, run, name string) (*ChildEnd, error) {
	if r == nil || r.Caller == nil || r.Caller.Answer != mailroom.AnswerWait {
		return nil, mailroom.Errorf(mailroom.CodeConflict,
			"send %q of run %s was made before without waiting for its end; use another name", name, run)
	}
	if !r.Status.Finished() {
		return nil, nil
	}
	end := childEnd(r)
	return &end, nil
}

// childEnd returns the end of a run whose caller waits for it.
func childEnd(r *mailroom.Run) ChildEnd {
	return ChildEnd{Thread: r.Caller.Thread, Run: r.Caller.Run, Name: r.Caller.Name, Child: r.ID, Answer: endReport(r)}
}

// OnChildEnd decides the ticket of an ended child, if the ticket is still open.
func (t *State) OnChildEnd(e ChildEnd, now time.Time) {
	k := t.Tickets.named(e.Run, e.Name)
	if k == nil || k.State != mailroom.TicketOpen || t.Run(k.Run) == nil {
		return
	}
	t.promote(now)
	t.decide(k, Decision{Verdict: mailroom.VerdictAnswer, Answer: e.Answer, By: "run:" + e.Child}, now)
	t.schedule(now)
}
