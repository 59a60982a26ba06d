package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

func TestSeriesSumUpEndedRuns(t *testing.T) {
	f := start(t)
	f.submit("a", "one")
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	f.submit("b", "two")
	mustCall[api.Run](f, "POST /v1/runs/"+f.submit("b", "three").Run+"/cancel", "")
	for _, step := range []string{"minute", "hour", "day"} {
		got := mustCall[api.Series](f, "GET /v1/stats/series?step="+step, "")
		var sum api.SeriesPoint
		for _, p := range got.Items { // two at a turn of the minute
			if p.At.Before(got.From) || !p.At.Before(got.To) || len(p.StartDelays) != len(got.DelayBoundsMS)+1 {
				t.Errorf("%s: got a point %+v, want one from %s to %s", step, p, got.From, got.To)
			}
			sum.Completed, sum.Cancelled, sum.Failed, sum.Started = sum.Completed+p.Completed, sum.Cancelled+p.Cancelled,
				sum.Failed+p.Failed, sum.Started+p.Started
		}
		if sum.Completed != 1 || sum.Cancelled != 1 || sum.Failed != 0 || sum.Started != 1 {
			t.Errorf("%s: got %+v, want a completed run and a cancelled one, one of them started", step, got.Items)
		}
	}
	if got := mustCall[api.Series](f, "GET /v1/stats/series?agent=other", ""); len(got.Items) != 0 {
		t.Errorf("of an agent without runs: got %+v", got.Items)
	}
}

func TestTheDefaultsOfSeries(t *testing.T) {
	f := start(t)
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for query, want := range map[string]string{
		"step=day&to=2026-01-02T03:04:05Z":                                  "2025-01-01T00:00:00Z 2026-01-03T00:00:00Z",
		"step=day&from=2026-01-02T03:04:05Z&to=2026-01-03T00:00:00Z":        "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z",
		"step=day&from=2026-01-02T03:04:05%2B05:45&to=2026-01-03T00:00:00Z": "2026-01-01T00:00:00Z 2026-01-03T00:00:00Z",
	} {
		got := mustCall[api.Series](f, "GET /v1/stats/series?"+query, "")
		if bounds := fmt.Sprint(got.From.Format(time.RFC3339), " ", got.To.Format(time.RFC3339)); bounds != want {
			t.Errorf("%s: got %s, want %s", query, bounds, want)
		}
	}
	// Minutes and hours of the past that are not kept.
	for step, keep := range map[string]time.Duration{"minute": store.KeepSummaries(store.StepMinute),
		"hour": store.KeepSummaries(store.StepHour)} {
		got := mustCall[api.Series](f, "GET /v1/stats/series?step="+step+"&from=2020-01-01T00:00:00Z&to=2020-01-01T10:00:00Z",
			"")
		if age := time.Since(got.From); age < keep || age > keep+time.Hour+time.Minute || !got.To.Equal(got.From) ||
			len(got.Items) != 0 {
			t.Errorf("%s: got %+v, want nothing from %s ago on", step, got, keep)
		}
	}
	if from := at("2020-01-01T00:00:00Z"); mustCall[api.Series](f,
		"GET /v1/stats/series?step=day&from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z", "").From != from {
		t.Errorf("days are not kept")
	}
}

func TestSumsAreByAgent(t *testing.T) {
	f := start(t)
	f.submit("a", "one")
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	f.submit("b", "two")
	mustCall[api.Run](f, "POST /v1/runs/"+f.submit("b", "three").Run+"/cancel", "")
	now := time.Now().UTC().Truncate(time.Minute)
	gone := store.Summary{Sums: store.Sums{Runs: 5, Cost: 2e9},
		Key: store.SummaryKey{Step: store.StepMinute, At: now, Agent: "gone", Status: mailroom.StatusFailed}}
	old := gone
	old.Key.Agent, old.Key.At = "codex", now.Add(-50*store.StepDay).Truncate(time.Hour)
	write := &store.Changes{Summaries: store.SumUp([]store.Summary{gone, old})}
	if err := f.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(write) }); err != nil {
		t.Fatal(err)
	}
	for _, bounds := range []string{"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
		"from=2026-01-01T00:00:00Z&to=2026-01-02T08:00:00Z"} { // the latter is an hour too long
		if got := f.call("GET /v1/stats/sums?"+bounds, ""); got.status != 422 {
			t.Errorf("%s: status %d, want 422", bounds, got.status)
		}
	}
	for _, step := range []string{"minute", "hour", "day"} {
		got := mustCall[api.Sums](f, "GET /v1/stats/sums?step="+step, "")
		all, others := got.All, got.Others
		if all.Completed != 1 || all.Cancelled != 1 || all.Failed != 5 || all.CostUSD != 2 || others.Completed != 0 ||
			others.Failed != 5 || others.CostUSD != 2 || len(others.StartDelays) != len(got.DelayBoundsMS)+1 {
			t.Errorf("%s: got the sums %+v, of others %+v", step, all, others)
		}
		var names []string
		for _, item := range got.Items {
			names = append(names, item.Name)
			switch s := item.Sums; item.Name {
			case "echo":
				if s.Completed != 1 || s.Cancelled != 1 || s.Failed != 0 || s.Started != 1 || now.Sub(*item.LastAt) > time.Minute {
					t.Errorf("%s: got %+v of echo at %s, want a completed run and a cancelled one", step, s, item.LastAt)
				}
			case "codex":
				if s.Failed != 0 || !item.LastAt.Equal(old.Key.At) {
					t.Errorf("%s: got %+v of codex at %s, want no run since %s", step, s, item.LastAt, old.Key.At)
				}
			}
		}
		if want := []string{"codex", "echo"}; !slices.Equal(names, want) {
			t.Errorf("%s: got the agents %q, want %q", step, names, want)
		}
	}
}

// Whole days are read as days, so the hours at their ends, and the rest of a day in which no run ended, must add up
// with them to what the hours alone are.
func TestSumsOfHoursAndOfWholeDaysAddUp(t *testing.T) {
	f := start(t)
	const last = 60 // hours: no run ended in the second half of the third day
	begin := time.Now().UTC().Truncate(store.StepDay).Add(-5 * store.StepDay)
	var ends []store.Summary
	for n := range last {
		for _, agent := range []string{"echo", "gone"} {
			key := store.SummaryKey{At: begin.Add(time.Duration(n)*time.Hour + time.Minute), Agent: agent,
				Status: store.SummedStatuses()[n%3]}
			ends = append(ends, store.Summary{Key: key, Sums: store.Sums{Runs: 1, InputTokens: int64(n * n)}})
		}
	}
	write := &store.Changes{Summaries: store.SumUp(ends)}
	if err := f.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(write) }); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int{{0, 24}, {0, 25}, {1, 24}, {5, 31}, {23, 54}, {24, 48}, {30, 40}, {30, 60}, {40, 59},
		{40, 71}, {48, 50}, {48, 60}, {50, 75}, {60, 90}} {
		var runs, tokens int64
		for n := c[0]; n < min(c[1], last); n++ {
			runs, tokens = runs+1, tokens+int64(n*n)
		}
		at := func(n int) string { return begin.Add(time.Duration(n) * time.Hour).Format(time.RFC3339) }
		got := mustCall[api.Sums](f, "GET /v1/stats/sums?from="+at(c[0])+"&to="+at(c[1]), "")
		all := [3]api.SeriesPoint{got.Items[0].Sums, got.Others, got.All}
		for i, name := range []string{"echo", "others", "all"} {
			times := int64(1 + i/2)
			n, used := all[i].Completed+all[i].Failed+all[i].Cancelled, all[i].InputTokens
			if n != times*runs || used != times*tokens {
				t.Errorf("hours %v: %s: %d runs with %d tokens, want %d times %d with %d", c, name, n, used, times, runs, tokens)
			}
		}
	}
}

func TestSumsAreByTheValueOfALabel(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Parts.Label = "customer" })
	f.submit("a", "one")
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	now := time.Now().UTC()
	var ends []store.Summary
	for key, cost := range map[string]float64{"customer=acme": 2, "customer=<b>": 1, "region=eu": 4} {
		r := &mailroom.Run{Agent: "echo", Status: mailroom.StatusCompleted, FinishedAt: now}
		r.Usage.CostUSD = cost
		r.Labelled = mailroom.Labelled{At: now, Key: key}
		ends = append(ends, store.EndOf(r), store.LabelEnd(r, store.EndOf(r)))
	}
	write := &store.Changes{Summaries: store.SumUp(ends)}
	if err := f.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(write) }); err != nil {
		t.Fatal(err)
	}
	got := mustCall[api.Sums](f, "GET /v1/stats/sums?by=label", "")
	if len(got.Items) != 2 || got.Items[0].Name != "<b>" || got.Items[1].Name != "acme" ||
		got.Items[1].Sums.CostUSD != 2 || got.Items[1].LastAt == nil ||
		!got.Items[1].LastAt.Equal(now.Truncate(store.StepDay)) {
		t.Errorf("got the items %+v, want <b> and acme", got.Items)
	}
	if got.Label != "customer" || got.Step != "day" || got.All.Completed != 4 || got.All.CostUSD != 7 ||
		got.Others.Completed != 2 || got.Others.CostUSD != 4 {
		t.Errorf("got %+v, want 4 runs for 7 dollars, half of which are of others", got)
	}
	agents := mustCall[api.Sums](f, "GET /v1/stats/sums?step=day", "")
	if agents.Label != "customer" || len(agents.Items) != 1 || agents.Items[0].Sums.Completed != 4 ||
		agents.All.Completed != 4 || agents.Others.Completed != 0 {
		t.Errorf("by agent: got %+v, want 4 runs of echo and no others", agents)
	}
	empty := mustCall[api.Sums](f, "GET /v1/stats/sums?by=label&from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z", "")
	if len(empty.Items) != 2 || empty.All.Completed != 0 || empty.Items[1].Sums.Completed != 0 {
		t.Errorf("of another time: got %+v, want two values without runs", empty)
	}
	if got := f.call("GET /v1/stats/sums?by=label&step=hour", ""); got.status != 422 {
		t.Errorf("by hour: status %d, want 422", got.status)
	}
}
