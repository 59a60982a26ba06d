package main

import (
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// effectState is the state of one named effect of a run.
type effectState struct {
	name, key string
	last      string          // kind of its last entry
	failed    bool            // the effect settled with an error
	value     json.RawMessage // result that it settled with
	intents   int             // number of possible calls
	tries     int             // since the run was submitted, or retried with fresh
}

func (f *effectState) reset() { f.last, f.failed, f.value, f.tries = "", false, nil, 0 }

// effect checks an entry of an effect: intended, then settled or unknown. An unknown effect is
// called again only after approval or if it is repeatable; a settled one is final.
func (s *threadState) effect(e mailroom.Entry, r *runState) {
	body := decode[entry.EffectEntry](s, e)
	f := r.effects[body.Name]
	if f == nil {
		f = &effectState{name: body.Name, key: body.Key}
		r.effects[body.Name] = f
	}
	if f.last == entry.KindEffectSettled && !f.failed {
		s.bad(e, "effect %s had already settled", f.name)
	}
	switch e.Kind {
	case entry.KindEffectIntended:
		if f.last == entry.KindEffectIntended {
			s.bad(e, "effect %s is called again without an entry that its outcome is unknown", f.name)
		}
		if f.last == entry.KindEffectUnknown && strict(f.name) && !s.approved(r, f) {
			s.bad(e, "effect %s is unknown and called again without approval", f.name)
		}
		f.intents++
		f.tries++
	case entry.KindEffectUnknown:
		if f.last != entry.KindEffectIntended {
			s.bad(e, "effect %s was not intended", f.name)
		}
	default:
		if f.last == "" {
			s.bad(e, "effect %s was not intended", f.name)
		}
		f.value, f.failed = body.Result, body.Error != ""
	}
	f.last = e.Kind
}

// approved reports whether the ticket about the current unknown outcome was approved.
func (s *threadState) approved(r *runState, f *effectState) bool {
	k := s.log.Tickets[thread.TicketID(r.id, fmt.Sprintf("effect:%s#%d", f.name, f.tries))]
	return k != nil && k.State == mailroom.TicketDecided && k.Verdict == mailroom.VerdictApprove
}
