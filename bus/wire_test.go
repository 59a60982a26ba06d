package bus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/bus"
)

func TestHintsAreSplitIntoPayloads(t *testing.T) {
	hints := []bus.Hint{{Kind: bus.HintHere}, {Kind: bus.HintFollowAll}, {Kind: bus.HintEntries},
		{Kind: bus.HintDue, Name: "echo"}, {Kind: bus.HintLook}}
	for i := range 200 {
		hints = append(hints, bus.Hint{Kind: bus.HintThread, Name: fmt.Sprint("a thread ", i, strings.Repeat("é", 100))})
	}
	var got []bus.Hint
	payloads := bus.FormatHints("me", append(hints, bus.Hint{Kind: bus.HintThread, Name: "a\nb"}, bus.Hint{Kind: "new"}),
		7900)
	for _, p := range payloads {
		sender, some := bus.ParseHints(p)
		if sender != "me" || len(p) > 7900 {
			t.Errorf("a payload of %d bytes of %q", len(p), sender)
		}
		got = append(got, some...)
	}
	if diff := cmp.Diff(hints, got); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	if n := len(payloads); n < 5 || n > 7 {
		t.Errorf("%d payloads for 45 KB", n)
	}
}

// FuzzParseHints reads payloads of other roles of the database.
func FuzzParseHints(f *testing.F) {
	for _, seed := range []string{"", "me", "me\nhere", "me\nfollow-all\nentries\nentries x",
		"me\nthread t\ndue echo\nlook", "me\nthread \nthread\x00\nlook x\nnew y\n\n", "\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		sender, hints := bus.ParseHints(payload)
		var again []bus.Hint
		for _, p := range bus.FormatHints(sender, hints, 2048) {
			_, some := bus.ParseHints(p)
			again = append(again, some...)
		}
		if diff := cmp.Diff(hints, again); diff != "" {
			t.Errorf("%q (-first +again):\n%s", payload, diff)
		}
	})
}
