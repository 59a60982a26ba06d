package alert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
)

// TestALateDigestCountsItsPeriod has a run that fails every ten minutes. The digest is due in quiet hours, and the
// target is down for two hours more.
func TestALateDigestCountsItsPeriod(t *testing.T) {
	one := rule(alert.KindDigest)
	one.To, one.Digest, one.Quiet = []string{"phone"}, 60+30, alert.Quiet{From: 60, To: 2 * 60}
	inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
		phone := h.targets["phone"]
		phone.fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
		})
		for at := range 5 * 6 {
			if at == 4*6 {
				phone.fail(nil)
			}
			h.submit(fmt.Sprint("t", at), "boom")
			h.after(10 * time.Minute)
		}
		got := phone.messages()
		if len(got) != 1 {
			t.Fatalf("messages: %+v", got)
		}
		const want = `From 31 December 01:00 UTC to 1 January 01:00 UTC:
0 runs completed, 6 failed, 0 cancelled
cost 0.00 USD
questions that wait for a decision now: 0
worker failed 6 times: boom`
		if got[0].Title != "0 done, 6 failed, 0 waiting" || got[0].Body != want {
			t.Errorf("%q\n%s", got[0].Title, got[0].Body)
		}
	})
}

// TestADigestOfManyFailuresSaysWhatItCounts has 1,001 failures on a day, more than are grouped.
func TestADigestOfManyFailuresSaysWhatItCounts(t *testing.T) {
	one := rule(alert.KindDigest)
	one.To, one.Digest = []string{"phone"}, 60
	for n, want := range map[int]string{1000: "worker failed 1000 times: boom",
		1001: "of the newest 1000 failed runs:\nworker failed 1000 times: boom"} {
		inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
			for at := range n {
				h.submit(fmt.Sprint("t", at%50), "boom")
			}
			h.after(3 * time.Hour)
			got := h.targets["phone"].messages()
			if len(got) != 1 || !strings.HasSuffix(got[0].Body, "\n"+want) ||
				got[0].Title != fmt.Sprintf("0 done, %d failed, 0 waiting", n) {
				t.Errorf("%d failures: %+v, want it to end with %q", n, got, want)
			}
		})
	}
}
