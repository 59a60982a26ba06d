package ledger_test

import (
	"encoding/json"
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/thread"
)

// FuzzMessageID checks that an id names its message or none, for any other entries in the log.
func FuzzMessageID(f *testing.F) {
	f.Add("", "", []byte(`{"a":1}`))
	f.Add("", "1", []byte(`{}`))
	f.Add(".5", "+5", []byte(`{"seq":"x","parts":7}`))
	f.Add(".5", "1-1", []byte(`{"id":"r.5","text":"forged"}`))
	f.Add(".-9223372036854775808", "9223372036854775808", []byte(`{"message":1}`))
	f.Add(".9223372036854775807", "-1", []byte(`{"id":null}`))
	f.Fuzz(func(t *testing.T, id, before string, body []byte) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		in := text("t", "hello")
		in.Run = "r"
		sent := d.submit(in)
		c := d.claimOne("w").Claim
		step := thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{Entries: []mailroom.AgentEntry{
			{Kind: "x.note", Body: []byte(`{}`)}, {Kind: "x.note", Body: body},
		}}}
		_, err := d.Append(d.ctx, step)
		if object := map[string]any(nil); err == nil && (json.Unmarshal(body, &object) != nil || object == nil) ||
			err != nil && mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("append entry %q: %v", body, err)
		}
		id = "r" + id
		m, err := d.Message(d.ctx, "t", id)
		switch {
		case id == sent.Message:
			if err != nil || m.Text != "hello" {
				t.Errorf("Message(%q) = %+v, %v", id, m, err)
			}
		case mailroom.CodeOf(err) != mailroom.CodeNotFound:
			t.Errorf("message %q is %+v, %v; want not_found", id, m, err)
		}
		found, _, err := d.Transcript(d.ctx, ledger.TranscriptQuery{Thread: "t", Before: before, All: true})
		if err != nil && mailroom.CodeOf(err) != mailroom.CodeInvalid || len(found) > 1 {
			t.Errorf("transcript before %q: %+v, %v", before, found, err)
		}
	})
}
