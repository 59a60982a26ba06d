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
	r := t.Run(k.Run)
	recordDecision(t, r, k, d, now)
	if isBudgetTicket(k) && r.Budget != nil {
		decideBudget(t, r, k, now)
	}
	if r.Status == mailroom.StatusWaiting && t.Tickets.waitEnded(r) {
		t.requeue(r, now)
	}
}

func recordDecision(t *State, r *mailroom.Run, k *mailroom.Ticket, d Decision, now time.Time) {
	k.State, k.Decision, k.Answer, k.Reason, k.DecidedBy = mailroom.TicketDecided, d.Verdict, d.Answer, d.Reason, d.By
	at := now
	k.DecidedAt = &at
	t.Tickets.touch(k)
	t.append(entry.KindTicketDecided, r, now, entry.TicketDecision{
		Ticket: k.ID, Decision: k.Decision, Answer: k.Answer, Reason: k.Reason, DecidedBy: k.DecidedBy,
	})
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
		if isBudgetTicket(k) {
			t.finish(r, spent(r), now) // it waits for nothing else
			return
		}
	}
	if t.Tickets.waitEnded(r) {
		t.requeue(r, now)
	}
}

// requeue makes a parked run due.
func (t *State) requeue(r *mailroom.Run, now time.Time) {
	r.Status, r.Resumes, r.AvailableAt, r.Failures = mailroom.StatusQueued, true, now, 0
	r.Outages, r.OutageSince = 0, time.Time{}
	t.touchRun(r)
}

// checkDecision returns the ticket of a decision, or an error if the decision does not fit it. repeat
// reports that the same decision was made before.
func (t *State) checkDecision(d *Decision, now time.Time) (k *mailroom.Ticket, repeat bool, err error) {
	k = t.Tickets.Find(d.Ticket)
	if k == nil || t.Run(k.Run) == nil {
		return nil, false, mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q in thread %q", d.Ticket, t.ID)
	}
	if repeat, err = d.check(k, now); err != nil {
		return nil, false, err
	}
	return k, repeat, nil
}

// check returns an error if the decision does not fit ticket k at now. repeat reports that the same
// decision was made before.
func (d *Decision) check(k *mailroom.Ticket, now time.Time) (repeat bool, err error) {
	if d.Answer != nil {
		if err := check.JSON("answer", d.Answer, mailroom.MaxAnswer); err != nil {
			return false, err
		}
	}
	if len(d.Reason) > mailroom.MaxAnswer {
		return false, check.TooLarge("reason", fmt.Sprintf("is larger than %d bytes", mailroom.MaxAnswer), len(d.Reason))
	}
	if !check.IsClean(d.Reason) {
		return false, check.Invalid("reason", "must be valid UTF-8 without NUL", "")
	}
	if err := d.checkKind(k); err != nil {
		return false, err
	}
	switch {
	case k.State == mailroom.TicketDecided && d.equal(&Decision{Verdict: k.Decision, Answer: k.Answer}):
		return true, nil
	case k.State == mailroom.TicketDecided:
		return false, mailroom.Errorf(mailroom.CodeConflict,
			"ticket %s was already decided: %s by %s", k.ID, k.Decision, k.DecidedBy)
	case k.State == mailroom.TicketVoid:
		return false, mailroom.Errorf(mailroom.CodeConflict, "ticket %s is void: its run has ended", k.ID)
	case k.State == mailroom.TicketExpired, k.ExpiresAt != nil && !k.ExpiresAt.After(now):
		return false, mailroom.Errorf(mailroom.CodeGone, "ticket %s expired at %s", k.ID, k.ExpiresAt.Format(time.RFC3339))
	}
	return false, nil
}

// checkKind returns an error if the ticket's kind does not allow the verdict, or its digest differs
// from the one shown.
func (d *Decision) checkKind(k *mailroom.Ticket) error {
	ok := false
	switch k.Kind {
	case mailroom.TicketApproval:
		ok = d.Verdict == mailroom.VerdictApprove || d.Verdict == mailroom.VerdictDeny ||
			d.Verdict == mailroom.VerdictAnswer && k.Answers
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
		return mailroom.Errorf(mailroom.CodeConflict,
			"digest mismatch: ticket %s now has digest %s; review it again", k.ID, k.Digest)
	}
	return nil
}

// equal reports whether d and other make the same decision on a ticket.
func (d *Decision) equal(other *Decision) bool { return d.verdict() == other.verdict() }

// verdict returns a text that identifies the decision: two decisions on a ticket with the same text have the same
// answer.
func (d *Decision) verdict() string {
	if d.Answer == nil {
		return string(d.Verdict)
	}
	return string(d.Verdict) + " " + digest.Short(d.Answer)
}
