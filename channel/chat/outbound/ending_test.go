package outbound

import (
	"testing"

	"mailroom"
)

func TestAFailureIsDescribedWithoutTheOutputOfItsProgram(t *testing.T) {
	for message, want := range map[string]string{
		"codex ended with exit status 3: key=secret":                                   "exhausted, exit status 3",
		"usage limit of ann@example.org (works again at 2026-11-28T15:04:00Z)":         "exhausted, works again on 2026-11-28 at 15:04 UTC",
		"claude ended with exit status 1: limit (works again at 2026-11-28T15:04:00Z)": "exhausted, exit status 1, works again on 2026-11-28 at 15:04 UTC",
		"(works again at any time)":                                                    "exhausted",
		"a limit (works again at 2026-11-28T15:04:00Z) and more":                       "exhausted",
	} {
		if got := failureText(&mailroom.RunError{Class: mailroom.ClassExhausted, Message: message}); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
	if got := failureText(nil); got != "unknown error" {
		t.Errorf("no error: %q", got)
	}
}
