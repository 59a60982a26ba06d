package alert_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// TestADelayedDigestCountsOnlyTheFailuresOfItsPeriod has a run that fails every ten minutes. The digest is due in
// quiet hours, and the target is down for two hours more.
func TestADelayedDigestCountsOnlyTheFailuresOfItsPeriod(t *testing.T) {
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
cost $0
questions that wait for a decision now: 0
worker failed 6 times: boom`
		if got[0].Title != "0 done, 6 failed, 0 waiting" || got[0].Body != want {
			t.Errorf("%q\n%s", got[0].Title, got[0].Body)
		}
	})
}

// TestADigestSaysThatRunsSubmittedBeforeItsPeriodAreLeftOut has a run that fails in the period, while 1,000 runs that
// were submitted after it, and before the period, have failed before the period.
func TestADigestSaysThatRunsSubmittedBeforeItsPeriodAreLeftOut(t *testing.T) {
	one := rule(alert.KindDigest)
	one.To, one.Digest = []string{"phone"}, 60
	inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
		h.submit("slow", "ask, then fail")
		h.after(time.Minute)
		for at := range 1000 {
			h.submit(fmt.Sprint("t", at%50), "boom")
		}
		h.after(2 * time.Hour) // with the digest of the day
		before := len(h.targets["phone"].messages())
		h.deny("slow")
		h.after(24 * time.Hour)
		got := h.targets["phone"].messages()[before:]
		if len(got) != 1 || !strings.HasSuffix(got[0].Body,
			"\nwhy they failed is left out: 1000 other runs failed that were submitted later") ||
			got[0].Title != "1 done, 1 failed, 0 waiting" { // the first digest is done
			t.Errorf("messages: %+v, want one that says that it leaves out the failed run", got)
		}
	})
}

// TestADigestHasTheBranchesOfItsPeriod has an agent that works in worktrees, before the period and in it.
func TestADigestHasTheBranchesOfItsPeriod(t *testing.T) {
	one := rule(alert.KindDigest)
	one.To, one.Digest = []string{"phone"}, 60
	coder := func(*ledger.Ledger) map[string]mailroom.Agent {
		return map[string]mailroom.Agent{"coder": mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
			body := []byte(`{"branch":"mailroom/` + s.Run().Thread + `","commits":2}`)
			return s.Append(ctx, mailroom.Step{Name: "done",
				Entries: []mailroom.AgentEntry{{Kind: entry.KindTree, Body: body}}})
		})}
	}
	inBubbleWith(t, []alert.Rule{one}, []string{"phone"}, coder, func(h *fixture) {
		for _, id := range []string{"first", "second"} {
			_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: id, Agent: "coder",
				Messages: []thread.NewMessage{{Parts: mailroom.Text("work")}}})
			h.must(err)
			h.after(24 * time.Hour)
		}
		got := h.targets["phone"].messages()
		if len(got) != 2 || !strings.HasSuffix(got[1].Body, "\nbranches to review: 1\nmailroom/second of coder: not pushed") {
			t.Errorf("messages: %+v", got)
		}
	})
}

// deny denies the question of a thread.
func (h *fixture) deny(id string) {
	h.t.Helper()
	var open []*mailroom.Ticket
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) (err error) {
		open, err = r.Tickets(store.TicketQuery{Thread: id})
		return err
	}))
	for _, k := range open {
		_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictDeny, By: "ann"})
		h.must(err)
	}
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

// TestDigestsOfAPeriodCountEachRunOnceThroughAnOutage has a run each five minutes, a digest each 15 minutes, and a
// target that is down for two hours: afterwards one digest reports what happened in between.
func TestDigestsOfAPeriodCountEachRunOnceThroughAnOutage(t *testing.T) {
	one := rule(alert.KindDigest)
	one.To, one.Every = []string{"phone"}, 15*time.Minute
	inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
		phone := h.targets["phone"]
		down := func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
		}
		var ends []string
		for at := range 6 * 12 { // six hours
			switch at {
			case 2 * 12:
				phone.fail(down)
			case 4 * 12:
				phone.fail(nil)
			}
			h.submit(fmt.Sprint("t", at), "boom")
			h.after(5 * time.Minute)
		}
		h.after(20 * time.Minute)
		var failed int
		before, longest := "", 0
		for _, m := range phone.messages() {
			var done, n, waiting int
			if _, err := fmt.Sscanf(m.Title, "%d done, %d failed, %d waiting", &done, &n, &waiting); err != nil {
				t.Fatalf("%q: %s", m.Title, err)
			}
			failed, longest = failed+n, max(longest, n)
			period := strings.TrimSuffix(strings.TrimPrefix(strings.SplitN(m.Body, "\n", 2)[0], "From "), ":")
			from, until, _ := strings.Cut(period, " to ")
			if before != "" && from != before {
				t.Errorf("a period begins at %s, want the end %s of the one before", from, before)
			}
			before, ends = until, append(ends, until)
		}
		if failed != 6*12 {
			t.Errorf("the digests count %d failed runs, want each of the 72 once", failed)
		}
		if len(ends) < 12 || len(ends) > 20 || longest < 20 {
			t.Errorf("%d digests until %q, the longest about %d runs: want one about the outage", len(ends), ends, longest)
		}
	})
}

// TestADigestNamesTheQuestionsThatWait: the oldest ones, as far as the rule lets their texts leave the server.
func TestADigestNamesTheQuestionsThatWait(t *testing.T) {
	for text, want := range map[alert.Text]string{
		alert.TextNone: "", alert.TextTitle: "\nworker asks in t0: ask 0\nworker asks in t1: ask 1\nworker asks in t2: ask 2",
	} {
		one := rule(alert.KindDigest)
		one.To, one.Every, one.Text = []string{"phone"}, 15*time.Minute, text
		inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
			for at := range 4 {
				h.after(time.Second)
				h.submit(fmt.Sprint("t", at), fmt.Sprint("ask ", at))
			}
			h.after(20 * time.Minute)
			got := h.targets["phone"].messages()
			if len(got) != 1 || got[0].Title != "0 done, 0 failed, 4 waiting" ||
				strings.Contains(got[0].Body, "asks") != (want != "") || !strings.HasSuffix(got[0].Body, want) {
				t.Errorf("%s: %+v, want it to end with %q", text, got, want)
			}
		})
	}
}
