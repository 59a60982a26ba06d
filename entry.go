package mailroom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Entry is one record of a thread's log.
type Entry struct {
	Thread  string          `json:"thread" doc:"Id of its thread."`
	Seq     int64           `json:"seq" doc:"Its number in the log of the thread, from 1 without gaps."`
	Kind    string          `json:"kind" doc:"What happened, such as message or run.completed. Kinds of agents begin with \"x.\"."`
	Run     string          `json:"run" doc:"Id of the run that it is about; empty: none."`
	Attempt int             `json:"attempt" doc:"Attempt of the run that wrote it; 0: not of an attempt."`
	At      time.Time       `json:"at" doc:"Time of the commit."`
	Body    json.RawMessage `json:"body" doc:"Its fields depend on the kind."`

	// Raw is the encoded entry, one line. It is encoded once, when it is appended; stores and streams
	// pass on the same bytes. It must not be changed.
	Raw []byte `json:"-"`
}

type entryFields Entry // has no methods, so encoding it does not recurse

// MarshalJSON returns the entry's encoded bytes.
func (e Entry) MarshalJSON() ([]byte, error) {
	if e.Raw == nil {
		return json.Marshal(entryFields(e))
	}
	return e.Raw, nil
}

// UnmarshalJSON decodes a copy of b.
func (e *Entry) UnmarshalJSON(b []byte) error {
	raw := bytes.Clone(b)
	if err := json.Unmarshal(raw, (*entryFields)(e)); err != nil {
		return fmt.Errorf("decode entry: %w", err)
	}
	e.Raw = raw
	return nil
}

// shareText returns text. If the only part has the same text, it returns the text of that part, so that both share
// its memory.
func shareText(text string, parts []Part) string {
	if len(parts) == 1 && parts[0].Text == text {
		return parts[0].Text
	}
	return text
}

// Decode decodes the body of e into v.
func (e Entry) Decode(v any) error {
	if err := json.Unmarshal(e.Body, v); err != nil {
		return fmt.Errorf("decode body of %s %d in %s: %w", e.Kind, e.Seq, e.Thread, err)
	}
	if m, ok := v.(*Message); ok {
		m.Text = shareText(m.Text, m.Parts)
	}
	return nil
}
