package display_test

import (
	"strings"
	"testing"

	"mailroom/internal/display"
)

func TestATextIsSilentIfItSaysTheWordAndNothingElse(t *testing.T) {
	for text, want := range map[string]bool{
		"HEARTBEAT_OK": true, "**HEARTBEAT_OK**": true, "\n`HEARTBEAT_OK`.\n": true, "\"HEARTBEAT_OK.\"": true,
		"__HEARTBEAT_OK__": true, "> HEARTBEAT_OK": true, "heartbeat_ok!": true, "\u200bHEARTBEAT_OK\ufeff": true,
		"✅ HEARTBEAT_OK": true, "# HEARTBEAT_OK\n\n": true, "```\nHEARTBEAT_OK\n```": true,
		"": false, "   ": false, "HEARTBEAT": false, "HEARTBEAT_OK_": true, "HEARTBEAT OK": false,
		"HEARTBEAT_OK HEARTBEAT_OK": false, "All is well. HEARTBEAT_OK": false, "HEARTBEAT_OK, but the disk is full": false,
		"HEARTBEAT_OK2": false, "HEARTBEAT_OK" + strings.Repeat(".", 2000): false,
	} {
		if got := display.IsSilent(text, "HEARTBEAT_OK"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if display.IsSilent("", "") || display.IsSilent("...", "...") || display.IsSilent("x", "") {
		t.Error("no word is a silent word")
	}
	if !display.IsSilent("silent", "[SILENT]") {
		t.Error("the word may have marks of its own")
	}
}

func FuzzIsSilent(f *testing.F) {
	f.Add("**OK**", "OK")
	f.Add("\xff", "\xff")
	f.Fuzz(func(t *testing.T, text, word string) {
		if !display.IsSilent(text, word) {
			return
		}
		if !display.IsSilent(strings.TrimSpace(text), word) || !display.IsSilent(" *"+strings.TrimSpace(text)+"*.", word) {
			if len(text) < 900 {
				t.Errorf("%q is silent for %q, but not with marks around it", text, word)
			}
		}
		if display.IsSilent(text+" x", word) {
			t.Errorf("%q with another word is silent for %q", text, word)
		}
	})
}
