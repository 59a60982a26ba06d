package entry_test

import (
	"testing"

	"mailroom"
	"mailroom/entry"
)

func TestThreeKindsOfEntriesEndARun(t *testing.T) {
	for kind, want := range map[string]mailroom.Status{
		entry.KindCompleted: mailroom.StatusCompleted, entry.KindFailed: mailroom.StatusFailed,
		entry.KindCancelled: mailroom.StatusCancelled, entry.KindRescheduled: "", entry.KindStop: "", entry.KindMessage: "",
		entry.KindWaiting: "", "run.newer": "",
	} {
		if got, ok := entry.EndStatus(&mailroom.Entry{Kind: kind}); got != want || ok != (want != "") {
			t.Errorf("%s: got status %q, %v, want %q", kind, got, ok, want)
		}
	}
}
