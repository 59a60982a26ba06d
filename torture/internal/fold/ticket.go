package fold

import (
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/thread"
)

// Effect is one named effect of a run.
type Effect struct {
	Name, Key string
	Last      string          // kind of its last entry
	Failed    bool            // it settled with an error
	Value     json.RawMessage // result that it settled with
	Intents   int             // number of possible calls
	tries     int             // since the run was submitted, or retried with fresh
	answered  json.RawMessage
}

func (f *Effect) reset() { f.Last, f.Failed, f.Value, f.tries, f.answered = "", false, nil, 0, nil }

// effect checks an entry of an effect: intended, then settled or unknown. An unknown effect is
// called again only after approval or if it is repeatable; a settled one is final.
func (s *Thread) effect(e mailroom.Entry, r *Run) {
	body := decode[entry.EffectEntry](s, e)
	f := r.Effects[body.Name]
	if f == nil {
		f = &Effect{Name: body.Name, Key: body.Key}
		r.Effects[body.Name] = f
	}
	if f.Last == entry.KindEffectSettled && !f.Failed {
		s.bad(e, "effect %s had already settled", f.Name)
	}
	switch e.Kind {
	case entry.KindEffectIntended:
		if f.Last == entry.KindEffectIntended {
			s.bad(e, "effect %s is called again without an entry that its outcome is unknown", f.Name)
		}
		if f.Last == entry.KindEffectUnknown && s.strict(f.Name) && !s.allowed(r, f) {
			s.bad(e, "effect %s is unknown and called again without approval", f.Name)
		}
		f.Intents++
		f.tries++
	case entry.KindEffectUnknown:
		if f.Last != entry.KindEffectIntended {
			s.bad(e, "effect %s was not intended", f.Name)
		}
	default:
		if f.Last == "" {
			s.bad(e, "effect %s was not intended", f.Name)
		}
		f.Value, f.Failed = body.Result, body.Error != ""
	}
	f.Last = e.Kind
}

// allowed reports whether the ticket about the current unknown outcome was approved.
func (s *Thread) allowed(r *Run, f *Effect) bool {
	k := s.Tickets[thread.TicketID(r.ID, fmt.Sprintf("effect:%s#%d", f.Name, f.tries))]
	return k != nil && k.Decided && k.Decision == mailroom.VerdictApprove
}

func (s *Thread) ticket(e mailroom.Entry, r *Run) {
	if e.Kind == entry.KindTicketOpened {
		body := decode[mailroom.Ticket](s, e)
		if old := s.Tickets[body.ID]; old != nil && old.State != mailroom.TicketVoid {
			s.bad(e, "ticket %s was already opened", body.ID)
		}
		s.Tickets[body.ID] = &Ticket{Ticket: body}
		return
	}
	body := decode[entry.TicketDecision](s, e)
	k := s.Tickets[body.Ticket]
	switch {
	case k == nil:
		s.bad(e, "ticket %s was never opened", body.Ticket)
		return
	case k.Decided, k.Expired:
		s.bad(e, "ticket %s is already %s", k.ID, k.State)
	case k.State == mailroom.TicketVoid || r.Status.Finished():
		s.bad(e, "ticket %s is void: its run is %s", k.ID, r.Status)
	}
	if e.Kind == entry.KindTicketExpired {
		k.Expired, k.State = true, mailroom.TicketExpired
		if k.ExpiresAt == nil || k.ExpiresAt.After(e.At) {
			s.bad(e, "ticket %s expires at %v", k.ID, k.ExpiresAt)
		}
		return
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(e.At) {
		s.bad(e, "ticket %s had expired at %v", k.ID, k.ExpiresAt)
	}
	s.Decided[k.ID] = append(s.Decided[k.ID], body)
	k.Decided, k.State, k.Decision, k.Answer = true, mailroom.TicketDecided, body.Decision, body.Answer
}
