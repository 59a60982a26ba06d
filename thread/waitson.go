package thread

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
)

// SetWaitsOn records what the agent of claim c says that it waits for, as [WaitsOn] returns it; "": nothing. It reports
// whether that is new.
//
// It is on the run's row and not in the log, whose cost grows with each entry: a renewal writes it only if it has
// changed, and the end of the claim removes it. So all servers on the store know it, also after a restart.
func SetWaitsOn(t *State, c mailroom.Claim, text string, now time.Time) bool {
	r, err := t.claimedRun(c)
	if err != nil || r.WaitsOn == text {
		return false
	}
	r.WaitsOn, r.WaitsSince = text, now
	if text == "" {
		r.WaitsSince = time.Time{}
	}
	t.touchRun(r)
	return true
}

// WaitsOn returns text as one plain line of at most MaxWaitsOn bytes. It refuses nothing: the text comes with a
// renewal, and no text may cost a worker its lease.
func WaitsOn(text string) string {
	text = text[:min(len(text), 16*mailroom.MaxWaitsOn)]
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, " "), func(c rune) bool {
		return unicode.IsSpace(c) || unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	}), " ")
	if len(text) <= mailroom.MaxWaitsOn {
		return text
	}
	const cut = "…"
	end := mailroom.MaxWaitsOn - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
