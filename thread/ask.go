package thread

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
)

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

// ask is an Ask with its digest. The digest is computed once, before the transaction: a question may be long, and a
// request may have a thousand asks.
type ask struct {
	mailroom.Ask
	digest string
}

func digestAsks(asks []mailroom.Ask) []ask {
	all := make([]ask, 0, len(asks))
	for i := range asks {
		all = append(all, ask{asks[i], AskDigest(&asks[i])})
	}
	return all
}

// checkAsks validates asks. It refuses tickets of the kind children: a step opens those for its sends, and only the
// end of the child decides them.
func checkAsks(asks []mailroom.Ask) error {
	for i := range asks {
		if asks[i].Kind == mailroom.TicketChildren {
			return check.Invalid("tickets", "of kind children are opened by a send with answer wait", asks[i].Name)
		}
		if isBudgetTicket(&mailroom.Ticket{Name: asks[i].Name}) {
			return check.Invalid("tickets", "have a name that is reserved for the budget of the run", asks[i].Name)
		}
		if err := CheckAsk(&asks[i]); err != nil {
			return err
		}
	}
	return nil
}

// asksSize returns the approximate size of asks in bytes.
func asksSize(asks []mailroom.Ask) int {
	n := itemSize * len(asks)
	for i := range asks {
		a := &asks[i]
		n += len(a.Name) + len(a.Prompt) + len(a.Action) + len(a.Arguments)
	}
	return n
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
		return check.Invalid("tickets", "answers is allowed only with kind approval", a.Name)
	}
	if a.Holds && a.Kind != mailroom.TicketEvent {
		return check.Invalid("tickets", "holds is allowed only with kind event", a.Name)
	}
	if a.Arguments != nil {
		return check.JSON("arguments", a.Arguments, mailroom.MaxAnswer)
	}
	return nil
}

// openTickets opens a ticket for each of the asks, unless it has a ticket already.
func (t *State) openTickets(r *mailroom.Run, asks []ask, now time.Time) {
	for i := range asks {
		a := &asks[i]
		old := t.Tickets.named(r.ID, a.Name)
		if old != nil && old.State != mailroom.TicketVoid {
			continue
		}
		k := &mailroom.Ticket{
			ID: TicketID(r.ID, a.Name), Thread: t.ID, Run: r.ID, Agent: r.Agent, Name: a.Name, Kind: a.Kind,
			Prompt: a.Prompt, Action: a.Action, Arguments: a.Arguments, Digest: a.digest, State: mailroom.TicketOpen,
			Answers: a.Answers, Holds: a.Holds, OpenedAt: now,
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
