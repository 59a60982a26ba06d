package server_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/api"
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
