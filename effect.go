package mailroom

import (
	"encoding/json"
	"fmt"
)

// EffectEntry is the body of effect.intended, effect.settled and effect.unknown.
type EffectEntry struct {
	Effect string          `json:"effect"` // id, the same for the same run and name
	Name   string          `json:"name"`
	Key    string          `json:"key"`   // idempotency key for the outside world
	Input  string          `json:"input"` // digest of what it is about
	Result json.RawMessage `json:"result,omitempty"`
	Cut    bool            `json:"cut,omitempty"` // the value was larger than MaxEffect and is not kept
	Error  string          `json:"error,omitempty"`
}

// EffectState is what the log says of one named effect of a run.
type EffectState struct {
	EffectEntry
	Tries int    // times it was intended
	Last  string // kind of its last entry
}

// Failed reports whether the effect ended with an error, which is not
// remembered: it is called again.
func (s *EffectState) Failed() bool { return s.Last == KindEffectSettled && s.Error != "" }

// NewEffect begins the entries of a named effect of a run.
func NewEffect(run string, e Effect) (EffectEntry, error) {
	if e.Name == "" || !cleanText(e.Name) {
		return EffectEntry{}, invalid("name", "of an effect must be text without NUL", e.Name)
	}
	if e.Input != nil {
		if err := checkJSON("input", e.Input, MaxEffect); err != nil {
			return EffectEntry{}, err
		}
	}
	return EffectEntry{
		Effect: DeriveID("effect", run, e.Name), Name: e.Name,
		Key: run + "/" + e.Name, Input: digest(e.Input),
	}, nil
}

// FoldEffects derives the state of a run's effects from its entries, by name. A
// retry that began afresh forgets them.
func FoldEffects(entries []Entry) (map[string]*EffectState, error) {
	states := map[string]*EffectState{}
	for _, e := range entries {
		switch e.Kind {
		case KindRetried:
			var body RunRetried
			if err := e.Decode(&body); err != nil {
				return nil, err
			}
			if body.Fresh {
				clear(states)
			}
		case KindEffectIntended, KindEffectSettled, KindEffectUnknown:
			var body EffectEntry
			if err := e.Decode(&body); err != nil {
				return nil, err
			}
			s := states[body.Name]
			if s == nil {
				s = &EffectState{}
				states[body.Name] = s
			}
			s.EffectEntry, s.Last = body, e.Kind
			if e.Kind == KindEffectIntended {
				s.Tries++
			}
		}
	}
	return states, nil
}

// AskOutcome is the question that an unknown effect asks by default: call it again
// (approve), take this value (answer), or fail (deny).
func (s *EffectState) AskOutcome(input json.RawMessage) Ask {
	if len(input) > MaxAnswer {
		input = mustJSON(map[string]any{"digest": s.Input, "bytes": len(input)})
	}
	return Ask{
		Name: fmt.Sprintf("effect:%s#%d", s.Name, s.Tries), Kind: TicketApproval, Answers: true,
		Prompt:    fmt.Sprintf("Nobody knows whether %q happened. Approve to do it again, answer with its result, or deny.", s.Name),
		Action:    s.Name,
		Arguments: input,
	}
}
