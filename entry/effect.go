package entry

import (
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/internal/jsontext"
)

// EffectEntry is the body of effect.intended, effect.settled and effect.unknown entries.
type EffectEntry struct {
	Effect string          `json:"effect" doc:"Id of the effect, derived from the run and the name."`
	Name   string          `json:"name" doc:"Name that the agent gave it, unique in the run."`
	Key    string          `json:"key" doc:"Idempotency key for the system that the effect calls."`
	Input  string          `json:"input" doc:"First 32 hex digits of the SHA-256 of its canonical JSON. Other input is a conflict."`
	Result json.RawMessage `json:"result,omitempty" doc:"Value of the last call. Absent: none yet, the call failed, or cut."`
	Cut    bool            `json:"cut,omitempty" doc:"The value was no JSON or larger than 1 MiB, and is not stored."`
	Error  string          `json:"error,omitempty" doc:"Why the last call failed. Absent: it did not."`
}

// EffectState is the state of one named effect of a run, derived from the log.
//
// An effect has no row: its entries (intended, settled, unknown) are its state, folded once per
// attempt. The intention is no progress, so a call that kills its worker still counts as a crash.
type EffectState struct {
	EffectEntry
	Tries int // number of effect.intended entries
	// Attempt is the attempt of the last effect.intended entry, 0 for a memo, which has no such entry. A
	// worker that finds its own attempt there has begun the call itself.
	Attempt int
	Last    string // kind of its last entry
}

// Failed reports whether the last call ended with an error. Errors are not stored, so the effect is
// called again.
func (s *EffectState) Failed() bool { return s.Last == KindEffectSettled && s.Error != "" }

// NewEffect returns the fields that all entries of an effect have in common.
func NewEffect(run string, e mailroom.Effect) (EffectEntry, error) {
	if e.Name == "" || !check.IsClean(e.Name) {
		return EffectEntry{}, check.Invalid("name", "of an effect must be text without NUL", e.Name)
	}
	input, err := DigestInput(e.Input)
	if err != nil {
		return EffectEntry{}, err
	}
	return EffectEntry{
		Effect: digest.ID("effect", run, e.Name), Name: e.Name,
		Key: run + "/" + e.Name, Input: input,
	}, nil
}

// FoldEffects derives the state of a run's effects from its entries, by name. A retry with Fresh
// clears it.
func FoldEffects(entries []mailroom.Entry) (map[string]*EffectState, error) {
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
				s.Attempt = e.Attempt
			}
		}
	}
	return states, nil
}

// AskOutcome returns the default ticket for an effect with an unknown outcome: approve to call it
// again, answer to supply its value, deny to fail.
func (s *EffectState) AskOutcome(input json.RawMessage) mailroom.Ask {
	if len(input) > mailroom.MaxAnswer {
		input = jsontext.AppendAny(nil, map[string]any{"digest": s.Input, "bytes": len(input)})
	}
	return mailroom.Ask{
		Name: fmt.Sprintf("effect:%s#%d", s.Name, s.Tries), Kind: mailroom.TicketApproval, Answers: true,
		Prompt: fmt.Sprintf("The outcome of %q is unknown. Approve to run it again, answer with its result, or deny.",
			s.Name),
		Action:    s.Name,
		Arguments: input,
	}
}
