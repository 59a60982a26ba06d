package turn_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream/turn"
)

// FuzzBodies applies entries with any body, and live text in between: nothing panics, text stays text, and the next
// entries are applied.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{}`, `null`, `[]`, `{"call":"c","name":"n","arguments":{"a":[1]}}`, `{"call":1,"ok":"x","output":null}`,
		`{"id":"m","role":"assistant","parts":[{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"?"}]}`,
		`{"id":"k","kind":"children","arguments":{"thread":"t2"}}`, `{"thread":"t2","run":"r2","answer":true}`,
		`{"ticket":"k","decision":"answer","answer":{"run":"r2","status":"failed"},"decided_by":"run:r2"}`,
		`{"id":"k","kind":"approval","prompt":"p"}`, `{"reason":"retry","error":{"class":"x"}}`, `{"call":"`,
		`{"usage":{"input_tokens":1e99}}`,
	} {
		f.Add(uint8(0), []byte(body), "c", 0)
	}
	kinds := []string{
		entry.KindMessage, entry.KindStep, entry.KindToolStarted, entry.KindToolDone, entry.KindSend, entry.KindTicketOpened,
		entry.KindTicketDecided, entry.KindTicketExpired, entry.KindQueued, entry.KindStarted, entry.KindResumed,
		entry.KindRescheduled, entry.KindWaiting, entry.KindStop, entry.KindFailed, entry.KindCancelled, entry.KindRetried,
		entry.KindCompleted, "x.mine", "run.newer",
	}
	f.Fuzz(func(t *testing.T, first uint8, body []byte, call string, offset int) {
		s := &turn.State{}
		seq := int64(0)
		at := int64(0)
		check := func(events []turn.Event) {
			for _, e := range events {
				if e.Cursor && e.Number <= at || e.Number < at {
					t.Fatalf("%s has the number %d after %d", e.Type, e.Number, at)
				}
				at = e.Number
				if utf8.Valid(body) && utf8.ValidString(call) && !utf8.ValidString(e.Text) {
					t.Fatalf("%s grows by %q", e.Part.Key, e.Text)
				}
				if len(e.Part.Data) > 0 && !json.Valid(e.Part.Data) {
					t.Fatalf("%s is %q", e.Part.Key, e.Part.Data)
				}
			}
		}
		for i := range 2 * len(kinds) {
			for _, channel := range []string{"text", "thinking", "tool", "newer"} {
				check(s.ApplyDelta(entry.Delta{
					Run: "r", Attempt: 1, Message: call, Offset: offset, Channel: channel, Call: call, Text: call,
				}))
			}
			seq++
			check(s.Apply(mailroom.Entry{
				Thread: "t", Seq: seq, Kind: kinds[(i+int(first))%len(kinds)], Run: "r", Attempt: 1, Body: body,
			}))
		}
		check(s.ApplyGap(seq + 2))
		if got := s.Turn("r"); got == nil || !got.Status.Finished() {
			t.Fatalf("the turn is %+v", got)
		}
	})
}

// FuzzNumber checks that a number names one position, and that any other number is read without a fault.
func FuzzNumber(f *testing.F) {
	f.Add(int64(0))
	f.Add(turn.Number(7, 5))
	f.Add(int64(-1))
	f.Add(int64(1<<63 - 1))
	f.Fuzz(func(t *testing.T, number int64) {
		seq, bytes := turn.Split(number)
		if got := turn.Number(seq, bytes); number >= 0 && got > number {
			t.Errorf("%d is %d:%d, which is %d", number, seq, bytes, got)
		}
		s := turn.After(number)
		s.ApplyDelta(entry.Delta{Run: "r", Attempt: 1, Message: "m", Text: "text"})
	})
}
