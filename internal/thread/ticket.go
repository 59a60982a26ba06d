package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
)

// Decision is a decision on a ticket. Digest is the digest of the ticket as shown, or at least its
// first 16 characters; an approval requires it.
type Decision struct {
	Ticket  string
	Verdict mailroom.Verdict
	Answer  json.RawMessage
	Reason  string
	Digest  string
	By      string
}

// TicketID returns the id of a run's ticket with this name.
func TicketID(run, name string) string { return digest.ID("ticket", run, name) }

// AskDigest returns the SHA-256, in hex, of the request as it is shown.
func AskDigest(a *mailroom.Ask) string {
	return digest.Full(struct {
		Kind           mailroom.TicketKind
		Prompt, Action string
		Arguments      json.RawMessage
		Answers        bool
	}{a.Kind, a.Prompt, a.Action, a.Arguments, a.Answers})
}

// equal reports whether both are the same decision.
func (d *Decision) equal(other *Decision) bool {
	return d.Verdict == other.Verdict && (d.Answer == nil) == (other.Answer == nil) && digest.Short(d.Answer) == digest.Short(other.Answer)
}

// checkAsks validates asks. It refuses tickets of kind children: they come with a send, and nothing
// else would decide them.
func checkAsks(asks []mailroom.Ask) error {
	for i := range asks {
		if asks[i].Kind == mailroom.TicketChildren {
			return check.Invalid("tickets", "of kind children are opened by a send with answer wait", asks[i].Name)
		}
		if err := CheckAsk(&asks[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckAsk validates a.
func CheckAsk(a *mailroom.Ask) error {
	if a.Name == "" || !check.IsClean(a.Name+a.Prompt+a.Action) {
		return check.Invalid("tickets", "need a name, and text without NUL", a.Name)
	}
	if n := len(a.Name) + len(a.Prompt) + len(a.Action); n > mailroom.MaxAnswer {
		return check.TooLarge("tickets", fmt.Sprintf("have more than %d bytes of text", mailroom.MaxAnswer), n)
	}
	for _, at := range []time.Time{a.Expires, a.Expires.UTC()} { // both forms are written
		if _, err := at.MarshalJSON(); err != nil || at.Year() < 1 {
			return check.Invalid("tickets", "must expire between the years 1 and 9999", a.Name)
		}
	}
	switch a.Kind {
	case mailroom.TicketApproval, mailroom.TicketInput, mailroom.TicketEvent, mailroom.TicketChildren:
	case mailroom.TicketTimer:
		if a.Expires.IsZero() && a.After <= 0 {
			return check.Invalid("tickets", "of kind timer need expires or after", a.Name)
		}
	default:
		return check.Invalid("tickets", "must have kind approval, input, timer or event", string(a.Kind))
	}
	if a.Answers && a.Kind != mailroom.TicketApproval {
		return check.Invalid("tickets", "answers goes with kind approval", a.Name)
	}
	if a.Holds && a.Kind != mailroom.TicketEvent {
		return check.Invalid("tickets", "holds goes with kind event", a.Name)
	}
	if a.Arguments != nil {
		return check.JSON("arguments", a.Arguments, mailroom.MaxAnswer)
	}
	return nil
}

// openTickets opens the tickets that do not exist yet.
func (t *State) openTickets(r *mailroom.Run, asks []mailroom.Ask, now time.Time) {
	for i := range asks {
		a := &asks[i]
		id := TicketID(r.ID, a.Name)
		old := t.Tickets.byID[id]
		if old != nil && old.State != mailroom.TicketVoid {
			continue
		}
		k := &mailroom.Ticket{
			ID: id, Thread: t.ID, Run: r.ID, Name: a.Name, Kind: a.Kind, Prompt: a.Prompt, Action: a.Action,
			Arguments: a.Arguments, Digest: AskDigest(a), State: mailroom.TicketOpen, Answers: a.Answers, Holds: a.Holds,
		}
		if old != nil {
			k.Key = old.Key
		}
		if at := a.Expires; !at.IsZero() || a.After > 0 {
			if at.IsZero() {
				at = now.Add(a.After)
			}
			at = at.UTC().Truncate(time.Microsecond)
			k.ExpiresAt = &at
		}
		r.Asked++
		t.Tickets.touch(k)
		seq := t.append(entry.KindTicketOpened, r, now, k)
		t.Outbox.deliver(&t.Thread, r, seq, ticketParts(k))
	}
}

// requeue makes a parked run due.
func (t *State) requeue(r *mailroom.Run, now time.Time) {
	r.Status, r.Resumes, r.AvailableAt, r.Failures = mailroom.StatusQueued, true, now, 0
	r.Outages, r.OutageSince = 0, time.Time{}
	t.touchRun(r)
}

// expireTickets expires the due tickets of the parked run, and requeues the run if its wait has
// ended.
func (t *State) expireTickets(now time.Time) {
	r := t.current()
	if r == nil || r.Status != mailroom.StatusWaiting {
		return
	}
	for _, k := range t.Tickets.expire(r.ID, now) {
		t.append(entry.KindTicketExpired, r, now, entry.TicketRef{Ticket: k.ID})
	}
	if t.Tickets.waitEnded(r) {
		t.requeue(r, now)
	}
}

// Decide decides a ticket, once. Repeating the same decision returns the ticket.
func (t *State) Decide(d Decision, now time.Time) (*mailroom.Ticket, error) {
	k, repeat, err := t.checkDecision(&d, now)
	if err != nil || repeat {
		return k, err
	}
	t.promote(now)
	t.decide(k, d, now)
	t.schedule(now)
	return k, nil
}

func (t *State) decide(k *mailroom.Ticket, d Decision, now time.Time) {
	k.State, k.Decision, k.Answer, k.Reason, k.DecidedBy = mailroom.TicketDecided, d.Verdict, d.Answer, d.Reason, d.By
	at := now
	k.DecidedAt = &at
	t.Tickets.touch(k)
	r := t.Run(k.Run)
	t.append(entry.KindTicketDecided, r, now, entry.TicketDecision{
		Ticket: k.ID, Decision: k.Decision, Answer: k.Answer, Reason: k.Reason, DecidedBy: k.DecidedBy,
	})
	if r.Status == mailroom.StatusWaiting && t.Tickets.waitEnded(r) {
		t.requeue(r, now)
	}
}

// checkDecision returns an error if the decision does not fit its ticket. repeat reports that the
// same decision was made before.
func (t *State) checkDecision(d *Decision, now time.Time) (k *mailroom.Ticket, repeat bool, err error) {
	k = t.Tickets.byID[d.Ticket]
	if k == nil || t.Run(k.Run) == nil {
		return nil, false, mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q in thread %q", d.Ticket, t.ID)
	}
	if d.Answer != nil {
		if err := check.JSON("answer", d.Answer, mailroom.MaxAnswer); err != nil {
			return nil, false, err
		}
	}
	if len(d.Reason) > mailroom.MaxAnswer {
		return nil, false, check.TooLarge("reason", fmt.Sprintf("is larger than %d bytes", mailroom.MaxAnswer), len(d.Reason))
	}
	if !check.IsClean(d.Reason) {
		return nil, false, check.Invalid("reason", "must be valid UTF-8 without NUL", "")
	}
	if err := accepts(k, d); err != nil {
		return nil, false, err
	}
	switch {
	case k.State == mailroom.TicketDecided && d.equal(&Decision{Verdict: k.Decision, Answer: k.Answer}):
		return k, true, nil
	case k.State == mailroom.TicketDecided:
		return nil, false, mailroom.Errorf(mailroom.CodeConflict, "ticket %s was already decided: %s by %s", k.ID, k.Decision, k.DecidedBy)
	case k.State == mailroom.TicketVoid:
		return nil, false, mailroom.Errorf(mailroom.CodeConflict, "ticket %s is void: its run has ended", k.ID)
	case k.State == mailroom.TicketExpired, k.ExpiresAt != nil && !k.ExpiresAt.After(now):
		return nil, false, mailroom.Errorf(mailroom.CodeGone, "ticket %s expired at %s", k.ID, k.ExpiresAt.Format(time.RFC3339))
	}
	return k, false, nil
}

// accepts returns an error if the ticket's kind does not allow the verdict, or its digest differs
// from the one shown.
func accepts(k *mailroom.Ticket, d *Decision) error {
	ok := false
	switch k.Kind {
	case mailroom.TicketApproval:
		ok = d.Verdict == mailroom.VerdictApprove || d.Verdict == mailroom.VerdictDeny || d.Verdict == mailroom.VerdictAnswer && k.Answers
	case mailroom.TicketInput, mailroom.TicketEvent:
		ok = d.Verdict == mailroom.VerdictAnswer
	}
	if !ok {
		return check.Invalid("decision", fmt.Sprintf("does not fit a ticket of kind %s", k.Kind), string(d.Verdict))
	}
	if d.Verdict == mailroom.VerdictAnswer && d.Answer == nil {
		return check.Invalid("answer", "is required for the decision answer", "")
	}
	if d.Digest == "" && d.Verdict == mailroom.VerdictApprove {
		return check.Invalid("digest", "is required to approve: send the digest that was shown", "")
	}
	if d.Digest != "" && (len(d.Digest) < 16 || !strings.HasPrefix(k.Digest, strings.ToLower(d.Digest))) {
		return mailroom.Errorf(mailroom.CodeConflict, "digest mismatch: ticket %s now has digest %s; review it again", k.ID, k.Digest)
	}
	return nil
}
