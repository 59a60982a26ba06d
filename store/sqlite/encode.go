package sqlite

import (
	"encoding/json"
	"maps"
	"slices"

	"mailroom"
)

// The JSON of columns that every run writes is put together by hand, because
// Write is the hot path of the whole system.

func encodeOrigin(o mailroom.Origin) any {
	if o == (mailroom.Origin{}) {
		return nil
	}
	b := appendText(append(make([]byte, 0, 128), `{"via":`...), o.Via)
	b = appendText(append(b, `,"sender":`...), o.Sender)
	if o.RequestID != "" {
		b = appendText(append(b, `,"request_id":`...), o.RequestID)
	}
	return string(append(b, '}'))
}

func encodeMark(m mailroom.StepMark) any {
	if m == (mailroom.StepMark{}) {
		return nil
	}
	b := appendField(make([]byte, 0, 160), `{"attempt":`, int64(m.Attempt))
	b = appendField(b, `,"step":`, int64(m.Step))
	b = appendText(append(b, `,"digest":`...), m.Digest)
	b = appendField(b, `,"seq":`, m.Seq)
	return string(append(b, '}'))
}

func encodeInputs(list []mailroom.Input) any {
	if len(list) == 0 {
		return nil
	}
	b := make([]byte, 0, 72*len(list)+2)
	for i, in := range list {
		b = append(b, "[,"[min(i, 1)])
		b = appendText(append(b, `{"message":`...), in.Message)
		b = appendField(b, `,"seq":`, in.Seq)
		if in.Retracted {
			b = append(b, `,"retracted":true`...)
		}
		b = append(b, '}')
	}
	return string(append(b, ']'))
}

func encodeError(e *mailroom.RunError) any {
	if e == nil {
		return nil
	}
	b := appendText(append([]byte(nil), `{"class":`...), string(e.Class))
	b = appendText(append(b, `,"message":`...), e.Message)
	return string(append(b, '}'))
}

// encodeState keeps the states as texts, because the RawMessages of a map would
// be written anew by encoding/json.
func encodeState(state map[string]json.RawMessage) any {
	if len(state) == 0 {
		return nil
	}
	b := []byte{}
	for i, agent := range slices.Sorted(maps.Keys(state)) {
		b = append(b, "{,"[min(i, 1)])
		b = append(appendText(b, agent), ':')
		b = appendText(b, string(state[agent]))
	}
	return string(append(b, '}'))
}

func encodeCaller(c *mailroom.Caller) any {
	if c == nil {
		return nil
	}
	b := appendText(append([]byte(nil), `{"Thread":`...), c.Thread)
	b = appendText(append(b, `,"Run":`...), c.Run)
	b = appendText(append(b, `,"Name":`...), c.Name)
	b = appendText(append(b, `,"Answer":`...), string(c.Answer))
	return string(append(b, '}'))
}

func encodeWait(w *mailroom.Wait) any {
	if w == nil {
		return nil
	}
	b := appendTexts(append([]byte(nil), `{"names":`...), w.Names)
	if w.Any {
		b = append(b, `,"any":true`...)
	}
	return string(append(b, '}'))
}

func encodeTexts(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return string(appendTexts(nil, list))
}

// encodeJSON is for what few runs have.
func encodeJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

func encodeSubmitted(s *mailroom.Submitted) string {
	b := appendText(append(make([]byte, 0, 320), `{"message":`...), s.Message)
	b = appendText(append(b, `,"run":`...), s.Run)
	b = appendText(append(b, `,"thread":`...), s.Thread)
	b = appendField(b, `,"seq":`, s.Seq)
	b = appendField(b, `,"place":`, s.Place)
	b = appendText(append(b, `,"status":`...), string(s.Status))
	b = appendText(append(b, `,"disposition":`...), string(s.Disposition))
	b = appendTexts(append(b, `,"superseded":`...), s.Superseded)
	if s.Stopping != nil {
		b = appendText(append(b, `,"stopping":`...), *s.Stopping)
	}
	return string(append(b, '}'))
}

// steer is a mailroom.Steer as it is stored.
type steer struct {
	mailroom.Input
	Read bool    `json:"read,omitempty"`
	Own  *ownRun `json:"own,omitempty"`
}

// ownRun is a run within a steer. Its raw JSON is kept as text, which gives
// back the very bytes; encoding a RawMessage would rewrite them.
type ownRun struct {
	*mailroom.Run
	Options    string  `json:",omitempty"`
	Checkpoint string  `json:",omitempty"`
	Steers     []steer `json:",omitempty"`
}

func encodeSteers(list []mailroom.Steer) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(storedSteers(list))
	return string(b), err
}

func storedSteers(list []mailroom.Steer) []steer {
	stored := make([]steer, len(list))
	for i, s := range list {
		stored[i] = steer{Input: s.Input, Read: s.Read}
		if s.Own != nil {
			stored[i].Own = &ownRun{
				Run: s.Own, Options: string(s.Own.Options), Checkpoint: string(s.Own.Checkpoint),
				Steers: storedSteers(s.Own.Steers),
			}
		}
	}
	return stored
}

func decodeSteers(text string) ([]mailroom.Steer, error) {
	if text == "" {
		return nil, nil
	}
	var stored []steer
	err := json.Unmarshal([]byte(text), &stored)
	return loadedSteers(stored), err
}

func loadedSteers(stored []steer) []mailroom.Steer {
	var list []mailroom.Steer
	for _, s := range stored {
		loaded := mailroom.Steer{Input: s.Input, Read: s.Read}
		if s.Own != nil {
			loaded.Own = s.Own.Run
			loaded.Own.Options = rawOrNil(s.Own.Options)
			loaded.Own.Checkpoint = rawOrNil(s.Own.Checkpoint)
			loaded.Own.Steers = loadedSteers(s.Own.Steers)
		}
		list = append(list, loaded)
	}
	return list
}

func rawOrNil(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
