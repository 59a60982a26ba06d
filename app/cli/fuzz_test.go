package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
)

// FuzzEntryLine checks that any entry is printed in at most one line without control characters, and
// that no entry written by an agent causes an error.
func FuzzEntryLine(f *testing.F) {
	kinds := []string{
		entry.KindToolStarted, entry.KindToolDone, "x.note", entry.KindMessage, entry.KindStep, entry.KindSend,
		entry.KindTicketOpened, entry.KindTicketDecided, entry.KindTicketExpired, entry.KindRescheduled, entry.KindStop,
		entry.KindFailed, entry.KindCancelled, entry.KindWaiting, entry.KindEffectSettled, entry.KindEffectUnknown,
	}
	f.Add(uint8(0), []byte(`{"call":7,"name":"\u001b[2J","arguments":[1]}`))
	f.Add(uint8(1), []byte(`{"call":"a","ok":"yes","summary":"\r\nrm -rf"}`))
	f.Add(uint8(3), []byte(`{"id":"m","role":"us\u009ber","text":"hello\nworld","parts":[{"type":"text","text":"a"}]}`))
	f.Add(uint8(6), []byte(`{"id":"k","kind":"timer","name":"n","expires_at":"2030-01-01T00:00:00Z"}`))
	f.Add(uint8(7),
		[]byte(`{"ticket":"k","decision":"answer","answer":{"run":"r","status":"failed"},"decided_by":"run:r"}`))
	f.Add(uint8(9),
		[]byte(
			`{"reason":"retry","attempt":1,"available_at":"9999-01-01T00:00:00Z","error":{"class":"x","message":"\u2028"}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		kind := kinds[int(which)%len(kinds)]
		object := map[string]any{}
		if json.Unmarshal(body, &object) != nil || object == nil {
			return // the body of an entry is an object
		}
		e, err := entry.New("t", 1, kind, "r", 1, time.Unix(1000, 0).UTC(), json.RawMessage(body))
		if err != nil {
			t.Fatal(err)
		}
		var out, stderr bytes.Buffer
		p := newReplyPrinter(&command.Console{Stdout: &out, Stderr: &stderr}, command.FormatText)
		err = p.printEvent(client.Event{Entry: &e})
		if err != nil && slices.Contains(kinds[:3], kind) {
			t.Errorf("printEvent(%s %s): %v", kind, body, err)
		}
		printed := stderr.String()
		line, _, _ := strings.Cut(printed, "\n")
		if strings.Count(printed, "\n") > 1 && !strings.HasSuffix(printed, "\n(reply incomplete)\n") ||
			strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) || utf8.RuneCountInString(line) > 300 {
			t.Errorf("printEvent(%s %s) prints %q, want one line without control characters", kind, body, printed)
		}
	})
}

// FuzzReply checks that the text of a message is printed once, for any overlap of its deltas.
func FuzzReply(f *testing.F) {
	f.Add("hello world", 3, 5, 0)
	f.Add("é\n", 1, 1, -5)
	f.Add("", 0, 0, math.MaxInt)
	f.Fuzz(func(t *testing.T, text string, a, b, wild int) {
		a, b = min(max(a, 0), len(text)), min(max(b, 0), len(text))
		pieces := []client.Event{delta(1, "m", 0, text[:a]), delta(1, "m", min(a, b), text[min(a, b):]),
			reply(t, 1, 1, "m", text, false)}
		if got, _, _ := printEvents(t, command.FormatText, pieces...); utf8.ValidString(text) &&
			strings.TrimSuffix(got, "\n") != strings.TrimSuffix(text, "\n") {
			t.Errorf("%q with deltas cut at %d and %d is printed as %q", text, a, b, got)
		}
		// An invalid offset must not panic.
		printEvents(t, command.FormatText, delta(1, "m", wild, "x"), delta(1, "m", a, text), reply(t, 1, 1, "m", text, false))
	})
}
