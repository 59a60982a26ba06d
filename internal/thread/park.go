package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/jsontext"
	"mailroom/store"
)

// checkPark returns an error if the wait names a ticket that was not opened.
func (t *State) checkPark(r *mailroom.Run, s *Settle) error {
	if s.Wait == nil || len(s.Wait.Names) == 0 {
		return check.Invalid("wait", "names no ticket", "")
	}
	for _, name := range s.Wait.Names {
		asked := slices.ContainsFunc(s.Asks, func(a mailroom.Ask) bool { return a.Name == name })
		if k := t.Tickets.named(r.ID, name); !asked && (k == nil || k.State == mailroom.TicketVoid) {
			return check.Invalid("wait", "names a ticket that does not exist; include it in asks", name)
		}
	}
	return t.Tickets.checkAsks(r.ID, s.Asks)
}

// park ends an attempt that has to wait. If the wait is already over, or an unread steered message
// answers a question, the run is queued at once.
func (t *State) park(r *mailroom.Run, s *Settle, now time.Time) {
	t.openTickets(r, s.Asks, now)
	r.Status, r.Wait = mailroom.StatusWaiting, s.Wait
	t.release(r)
	t.touchRun(r)
	body := entry.RunWaiting{Tickets: []string{}, Any: s.Wait.Any}
	for _, name := range s.Wait.Names {
		body.Tickets = append(body.Tickets, TicketID(r.ID, name))
	}
	if until := t.Tickets.expiry(r.ID); !until.IsZero() {
		body.Until = &until
	}
	t.append(entry.KindWaiting, r, now, body)
	unread := slices.ContainsFunc(r.Steers, func(s mailroom.Steer) bool { return !s.Read && !s.Retracted })
	if t.Tickets.waitEnded(r) || unread && t.Tickets.waitKind(r, now) == mailroom.TicketInput {
		t.requeue(r, now)
	}
}

// resumeKind returns how a message reaches a parked run instead of the queue: TicketInput if it
// answers a question, TicketEvent if the run waits for something that messages do not concern, ""
// if the message is queued. Messages of other runs answer no question. Scheduled messages and
// awaited child runs need a run of their own. An expired question accepts no answer.
func (t *State) resumeKind(in *submission, now time.Time) mailroom.TicketKind {
	c := t.current()
	if c == nil || c.Status != mailroom.StatusWaiting || c.Stop != "" || in.Mode == mailroom.ModeInterrupt ||
		in.Agent != "" && in.Agent != c.Agent || len(in.Messages) == 0 ||
		in.NotBefore.After(now) || in.From != nil && in.From.Caller != nil || t.Tickets.waitExpired(c, now) {
		return ""
	}
	fromRun := in.Origin.Via == "run" || in.Origin.Via == "wake"
	switch kind := t.Tickets.waitKind(c, now); {
	case kind == mailroom.TicketInput && !fromRun, kind == mailroom.TicketEvent && in.Mode != mailroom.ModeReject:
		return kind
	}
	return ""
}

// resume steers the messages into the parked run and answers its first open question with them.
func (t *State) resume(kind mailroom.TicketKind, in *submission, now time.Time) store.Submitted {
	superseded := []string{}
	if in.Mode == mailroom.ModeLatest {
		superseded = t.supersede(everyRun, in.Sender, now)
	}
	c := t.current()
	out := t.steer(in, now)
	if kind == mailroom.TicketInput {
		if k := t.Tickets.firstQuestion(c, now); k != nil {
			for _, s := range c.Steers[len(c.Steers)-len(in.Messages):] {
				c.Spent = append(slices.Clone(c.Spent), s.Message)
			}
			t.decide(k, Decision{Verdict: mailroom.VerdictAnswer, Answer: messageAnswer(in.Submit), By: in.Sender}, now)
		}
	} else {
		t.requeue(c, now)
	}
	out.Status, out.Disposition, out.Superseded = c.Status, store.DispositionResumed, superseded
	return out
}

// messageAnswer returns the text of the messages as the answer of a ticket, truncated to fit.
func messageAnswer(in *Submit) json.RawMessage {
	text := ""
	for _, d := range in.Messages {
		text = JoinText(append(mailroom.Text(text), d.Parts...))
	}
	if len(in.Messages) == 1 {
		text = JoinText(in.Messages[0].Parts)
	}
	return jsontext.AppendAny(nil, truncate(text, mailroom.MaxAnswer/2))
}

// checkSubmit returns an error if a decision does not fit its ticket, or the queue or the current
// run is full.
func (t *State) checkSubmit(in *submission, now time.Time) error {
	for i := range in.Decisions {
		d := &in.Decisions[i]
		if _, _, err := t.checkDecision(d, now); err != nil {
			return err
		}
		for _, other := range in.Decisions[:i] {
			if other.Ticket == d.Ticket && !other.equal(d) {
				return mailroom.Errorf(mailroom.CodeConflict, "ticket %s is decided twice with different decisions", d.Ticket)
			}
		}
	}
	if n := in.found.Queued + t.unreadSteers(); in.found.MaxQueued > 0 && n >= in.found.MaxQueued && t.growsQueue(in, now) {
		return errRateLimited("queue of thread %q is full with %d runs", t.ID, n)
	}
	if t.willSteer(in, now) {
		return checkSteer(t.current(), in.Submit)
	}
	return nil
}

func errRateLimited(format string, args ...any) error {
	return &mailroom.Error{Code: mailroom.CodeRateLimited, RetryAfter: time.Second, Message: fmt.Sprintf(format, args...)}
}

// growsQueue reports whether the submit adds a run to the queue, or an unread steer that becomes
// one if the current run ends. A submit that clears the queue or resumes a run does not.
func (t *State) growsQueue(in *submission, now time.Time) bool {
	switch {
	case len(in.Messages) == 0, t.resumeKind(in, now) != "":
		return false
	case in.Mode == mailroom.ModeInterrupt, in.Mode == mailroom.ModeLatest:
		return false
	case in.Mode == mailroom.ModeCollect:
		return t.collectable(in) == nil
	}
	return true
}

// decideAll makes the decisions that are new and returns the last ticket.
func (t *State) decideAll(all []Decision, now time.Time) *mailroom.Ticket {
	var last *mailroom.Ticket
	for _, d := range all {
		k, repeat, err := t.checkDecision(&d, now)
		if err == nil && !repeat {
			t.decide(k, d, now)
		}
		if k != nil {
			last = k
		}
	}
	return last
}
