package mailroom

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TicketKind is the kind of a ticket: what its run waits for.
type TicketKind string

const (
	TicketApproval TicketKind = "approval" // a person approves or denies an action
	TicketInput    TicketKind = "input"    // a person answers
	TicketChildren TicketKind = "children" // a run that was sent to another thread ends
	TicketTimer    TicketKind = "timer"    // a time is reached
	TicketEvent    TicketKind = "event"    // an external event
)

// TicketState is the state of a ticket.
type TicketState string

const (
	TicketOpen    TicketState = "open"
	TicketDecided TicketState = "decided"
	TicketExpired TicketState = "expired" // not decided in time; never counts as an approval
	TicketVoid    TicketState = "void"    // its run ended first
)

// Verdict is a decision on a ticket.
type Verdict string

const (
	VerdictApprove Verdict = "approve"
	VerdictDeny    Verdict = "deny"
	VerdictAnswer  Verdict = "answer"
)

// Ticket is the row of a decision or event that a run needs before it continues.
type Ticket struct {
	Key       int64           `json:"-"` // set by the store; 0 until written
	ID        string          `json:"id"`
	Thread    string          `json:"thread"`
	Run       string          `json:"run"`
	Name      string          `json:"name"` // unique in the run
	Kind      TicketKind      `json:"kind"`
	Prompt    string          `json:"prompt"`
	Action    string          `json:"action"`
	Arguments json.RawMessage `json:"arguments"`
	// Digest is the SHA-256, in hex, of the request as shown.
	Digest    string          `json:"digest"`
	State     TicketState     `json:"state"`
	ExpiresAt *time.Time      `json:"expires_at"`
	Decision  Verdict         `json:"decision"`
	Answer    json.RawMessage `json:"answer"`
	Reason    string          `json:"reason"`
	DecidedBy string          `json:"decided_by"`
	DecidedAt *time.Time      `json:"decided_at"`
	// Answers allows data as the answer to an approval.
	Answers bool `json:"answers,omitempty"`
	// Holds keeps messages in the queue while the ticket is open, as an approval does.
	Holds bool `json:"holds,omitempty"`
}

// Ask is a request for a ticket. Repeating it under the same name returns the existing ticket; a
// different request under the same name is a conflict.
type Ask struct {
	Name      string
	Kind      TicketKind
	Prompt    string
	Action    string
	Arguments json.RawMessage
	Expires   time.Time     // when the ticket expires or the timer fires; zero: never
	After     time.Duration // alternative to Expires, relative to the first request
	Answers   bool          // for TicketApproval: data is accepted as an answer
	// Holds, for TicketEvent, keeps messages in the queue while it is open, instead of resuming the
	// run with them.
	Holds bool
}

// Wait names the tickets a parked run waits for: all of them, or any.
type Wait struct {
	Any   bool     `json:"any,omitempty"`
	Names []string `json:"names"`
}

// Decision is a decision on a ticket. Digest is the digest of the ticket as shown, or at least its
// first 16 characters; an approval requires it.
type Decision struct {
	Ticket  string
	Verdict Verdict
	Answer  json.RawMessage
	Reason  string
	Digest  string
	By      string
}

// TicketID returns the id of a run's ticket with this name.
func TicketID(run, name string) string { return DeriveID("ticket", run, name) }

// AskDigest returns the SHA-256, in hex, of the request as it is shown.
func AskDigest(a *Ask) string {
	return longDigest(struct {
		Kind           TicketKind
		Prompt, Action string
		Arguments      json.RawMessage
		Answers        bool
	}{a.Kind, a.Prompt, a.Action, a.Arguments, a.Answers})
}

// equal reports whether both are the same decision.
func (d *Decision) equal(other *Decision) bool {
	return d.Verdict == other.Verdict && (d.Answer == nil) == (other.Answer == nil) && digest(d.Answer) == digest(other.Answer)
}

// checkAsks validates asks. It refuses tickets of kind children: they come with a send, and nothing
// else would decide them.
func checkAsks(asks []Ask) error {
	for i := range asks {
		if asks[i].Kind == TicketChildren {
			return invalid("tickets", "of kind children are opened by a send with answer wait", asks[i].Name)
		}
		if err := CheckAsk(&asks[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckAsk validates a.
func CheckAsk(a *Ask) error {
	if a.Name == "" || !cleanText(a.Name+a.Prompt+a.Action) {
		return invalid("tickets", "need a name, and text without NUL", a.Name)
	}
	if n := len(a.Name) + len(a.Prompt) + len(a.Action); n > MaxAnswer {
		return tooLarge("tickets", fmt.Sprintf("have more than %d bytes of text", MaxAnswer), n)
	}
	for _, at := range []time.Time{a.Expires, a.Expires.UTC()} { // both forms are written
		if _, err := at.MarshalJSON(); err != nil || at.Year() < 1 {
			return invalid("tickets", "must expire between the years 1 and 9999", a.Name)
		}
	}
	switch a.Kind {
	case TicketApproval, TicketInput, TicketEvent, TicketChildren:
	case TicketTimer:
		if a.Expires.IsZero() && a.After <= 0 {
			return invalid("tickets", "of kind timer need expires or after", a.Name)
		}
	default:
		return invalid("tickets", "must have kind approval, input, timer or event", string(a.Kind))
	}
	if a.Answers && a.Kind != TicketApproval {
		return invalid("tickets", "answers goes with kind approval", a.Name)
	}
	if a.Holds && a.Kind != TicketEvent {
		return invalid("tickets", "holds goes with kind event", a.Name)
	}
	if a.Arguments != nil {
		return checkJSON("arguments", a.Arguments, MaxAnswer)
	}
	return nil
}

// AddTicket adds a loaded ticket, unless a value for it exists. It returns the value in use.
func (t *ThreadState) AddTicket(row *Ticket) *Ticket {
	if k, ok := t.tickets[row.ID]; ok {
		return k
	}
	t.tickets[row.ID] = row
	return row
}

// checkAsks returns an error if an ask contradicts an earlier one with the same name.
func (t *ThreadState) checkAsks(r *Run, asks []Ask) error {
	for i := range asks {
		if err := CheckAsk(&asks[i]); err != nil {
			return err
		}
		old := t.tickets[TicketID(r.ID, asks[i].Name)]
		differs := old != nil && old.State != TicketVoid && old.Digest != AskDigest(&asks[i])
		for j := range asks[:i] {
			differs = differs || asks[j].Name == asks[i].Name && AskDigest(&asks[j]) != AskDigest(&asks[i])
		}
		if differs {
			return Errorf(CodeConflict, "ticket %q of run %s exists with other content; use another name", asks[i].Name, r.ID)
		}
	}
	return nil
}

// openTickets opens the tickets that do not exist yet.
func (t *ThreadState) openTickets(r *Run, asks []Ask, now time.Time) {
	for i := range asks {
		a := &asks[i]
		id := TicketID(r.ID, a.Name)
		if old := t.tickets[id]; old != nil && old.State != TicketVoid {
			continue
		}
		k := &Ticket{
			ID: id, Thread: t.ID, Run: r.ID, Name: a.Name, Kind: a.Kind, Prompt: a.Prompt, Action: a.Action,
			Arguments: a.Arguments, Digest: AskDigest(a), State: TicketOpen, Answers: a.Answers, Holds: a.Holds,
		}
		if old := t.tickets[id]; old != nil {
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
		t.tickets[id] = k
		t.touchTicket(k)
		seq := t.append(KindTicketOpened, r, now, k)
		t.deliver(r, seq, ticketParts(k), now)
	}
}

func (t *ThreadState) touchTicket(k *Ticket) {
	t.Touch()
	t.tickets[k.ID] = k
	if !slices.Contains(t.dirtyTickets, k.ID) {
		t.dirtyTickets = append(t.dirtyTickets, k.ID)
	}
}

// ticketsOf returns the loaded tickets of a run, ordered by id.
func (t *ThreadState) ticketsOf(r *Run) []*Ticket {
	var of []*Ticket
	for _, k := range t.tickets {
		if k.Run == r.ID {
			of = append(of, k)
		}
	}
	slices.SortFunc(of, func(a, b *Ticket) int { return strings.Compare(a.ID, b.ID) })
	return of
}

// waitSatisfied reports whether the run may continue.
func (t *ThreadState) waitSatisfied(r *Run) bool {
	if r.Wait == nil {
		return true
	}
	return r.Wait.Ended(func(name string) bool {
		k := t.tickets[TicketID(r.ID, name)]
		return k != nil && k.State == TicketOpen
	})
}

// Ended reports whether the wait has ended, given which of its tickets are open.
func (w *Wait) Ended(open func(name string) bool) bool {
	left := 0
	for _, name := range w.Names {
		if open(name) {
			left++
		}
	}
	return left == 0 || w.Any && left < len(w.Names)
}

// waitExpired reports whether the wait of a parked run has ended by expiry, although no transition
// has recorded it yet.
func (t *ThreadState) waitExpired(r *Run, now time.Time) bool {
	return r.Wait.Ended(func(name string) bool { return openAt(t.tickets[TicketID(r.ID, name)], now) })
}

// StateAt returns the ticket's state at now. An open ticket whose time has passed counts as
// expired, even if no transition has recorded it yet.
func (k *Ticket) StateAt(now time.Time) TicketState {
	if k.State == TicketOpen && k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
		return TicketExpired
	}
	return k.State
}

// openAt reports whether the ticket can still be decided at now.
func openAt(k *Ticket, now time.Time) bool {
	return k != nil && k.StateAt(now) == TicketOpen
}

// waitKind classifies a parked run by its open tickets: TicketInput if a message can answer one,
// TicketApproval if messages must queue, TicketEvent otherwise.
func (t *ThreadState) waitKind(r *Run, now time.Time) TicketKind {
	kind := TicketEvent
	for _, name := range r.Wait.Names {
		k := t.tickets[TicketID(r.ID, name)]
		switch {
		case !openAt(k, now):
		case k.Kind == TicketInput:
			return TicketInput
		case k.Kind == TicketApproval, k.Holds:
			kind = TicketApproval
		}
	}
	return kind
}

// requeue makes a parked run due.
func (t *ThreadState) requeue(r *Run, now time.Time) {
	r.Status, r.Resumes, r.AvailableAt, r.Failures = StatusQueued, true, now, 0
	r.Outages, r.OutageSince = 0, time.Time{}
	t.touchRun(r)
}

// expiry returns the earliest time at which an open ticket of r expires or fires.
func (t *ThreadState) expiry(r *Run) time.Time {
	var first time.Time
	for _, k := range t.ticketsOf(r) {
		if k.State == TicketOpen && k.ExpiresAt != nil && (first.IsZero() || k.ExpiresAt.Before(first)) {
			first = *k.ExpiresAt
		}
	}
	return first
}

// expireTickets expires the due tickets of the parked run, and requeues the run if its wait has
// ended.
func (t *ThreadState) expireTickets(now time.Time) {
	r := t.current()
	if r == nil || r.Status != StatusWaiting {
		return
	}
	for _, k := range t.ticketsOf(r) {
		if k.State == TicketOpen && k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
			k.State = TicketExpired
			t.touchTicket(k)
			t.append(KindTicketExpired, r, now, TicketRef{Ticket: k.ID})
		}
	}
	if t.waitSatisfied(r) {
		t.requeue(r, now)
	}
}

// voidTickets closes the open tickets of an ended run.
func (t *ThreadState) voidTickets(r *Run) {
	for _, k := range t.ticketsOf(r) {
		if k.State == TicketOpen {
			k.State = TicketVoid
			t.touchTicket(k)
		}
	}
}

// Decide decides a ticket, once. Repeating the same decision returns the ticket.
func (t *ThreadState) Decide(d Decision, now time.Time) (*Ticket, error) {
	k, repeat, err := t.checkDecision(&d, now)
	if err != nil || repeat {
		return k, err
	}
	t.promote(now)
	t.decide(k, d, now)
	t.schedule(now)
	return k, nil
}

func (t *ThreadState) decide(k *Ticket, d Decision, now time.Time) {
	k.State, k.Decision, k.Answer, k.Reason, k.DecidedBy = TicketDecided, d.Verdict, d.Answer, d.Reason, d.By
	at := now
	k.DecidedAt = &at
	t.touchTicket(k)
	r := t.runs[k.Run]
	t.append(KindTicketDecided, r, now, TicketDecision{
		Ticket: k.ID, Decision: k.Decision, Answer: k.Answer, Reason: k.Reason, DecidedBy: k.DecidedBy,
	})
	if r.Status == StatusWaiting && t.waitSatisfied(r) {
		t.requeue(r, now)
	}
}

// checkDecision returns an error if the decision does not fit its ticket. repeat reports that the
// same decision was made before.
func (t *ThreadState) checkDecision(d *Decision, now time.Time) (k *Ticket, repeat bool, err error) {
	k = t.tickets[d.Ticket]
	if k == nil || t.runs[k.Run] == nil {
		return nil, false, Errorf(CodeNotFound, "no ticket %q in thread %q", d.Ticket, t.ID)
	}
	if d.Answer != nil {
		if err := checkJSON("answer", d.Answer, MaxAnswer); err != nil {
			return nil, false, err
		}
	}
	if len(d.Reason) > MaxAnswer {
		return nil, false, tooLarge("reason", fmt.Sprintf("is larger than %d bytes", MaxAnswer), len(d.Reason))
	}
	if !cleanText(d.Reason) {
		return nil, false, invalid("reason", "must be valid UTF-8 without NUL", "")
	}
	if err := accepts(k, d); err != nil {
		return nil, false, err
	}
	switch {
	case k.State == TicketDecided && d.equal(&Decision{Verdict: k.Decision, Answer: k.Answer}):
		return k, true, nil
	case k.State == TicketDecided:
		return nil, false, Errorf(CodeConflict, "ticket %s was already decided: %s by %s", k.ID, k.Decision, k.DecidedBy)
	case k.State == TicketVoid:
		return nil, false, Errorf(CodeConflict, "ticket %s is void: its run has ended", k.ID)
	case k.State == TicketExpired, k.ExpiresAt != nil && !k.ExpiresAt.After(now):
		return nil, false, Errorf(CodeGone, "ticket %s expired at %s", k.ID, k.ExpiresAt.Format(time.RFC3339))
	}
	return k, false, nil
}

// accepts returns an error if the ticket's kind does not allow the verdict, or its digest differs
// from the one shown.
func accepts(k *Ticket, d *Decision) error {
	ok := false
	switch k.Kind {
	case TicketApproval:
		ok = d.Verdict == VerdictApprove || d.Verdict == VerdictDeny || d.Verdict == VerdictAnswer && k.Answers
	case TicketInput, TicketEvent:
		ok = d.Verdict == VerdictAnswer
	}
	if !ok {
		return invalid("decision", fmt.Sprintf("does not fit a ticket of kind %s", k.Kind), string(d.Verdict))
	}
	if d.Verdict == VerdictAnswer && d.Answer == nil {
		return invalid("answer", "is required for the decision answer", "")
	}
	if d.Digest == "" && d.Verdict == VerdictApprove {
		return invalid("digest", "is required to approve: send the digest that was shown", "")
	}
	if d.Digest != "" && (len(d.Digest) < 16 || !strings.HasPrefix(k.Digest, strings.ToLower(d.Digest))) {
		return Errorf(CodeConflict, "digest mismatch: ticket %s now has digest %s; review it again", k.ID, k.Digest)
	}
	return nil
}
