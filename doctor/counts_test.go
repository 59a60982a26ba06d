package doctor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store"
	"mailroom/store/memory"
)

// miscounted is a store that returns wrong counts for some queries.
type miscounted struct {
	store.Store
	spoil func(store.CountQuery, *store.Counts)
}

type miscountedReader struct {
	store.Reader
	spoil func(store.CountQuery, *store.Counts)
}

func (s miscounted) View(ctx context.Context, f func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return f(miscountedReader{r, s.spoil}) })
}

func (r miscountedReader) Count(q store.CountQuery) (store.Counts, error) {
	c, err := r.Reader.Count(q)
	r.spoil(q, &c)
	return c, err
}

func TestCountsThatDifferFromTheRowsAreFound(t *testing.T) {
	s := memory.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &store.Changes{
		Threads: []*mailroom.Thread{
			{ID: "a", Owner: "ann", FirstSeq: 1, NextPlace: 1, CreatedAt: at},
			{ID: "b", Owner: "bob", FirstSeq: 1, NextPlace: 1, CreatedAt: at, DeletedAt: at},
		},
		Runs: []*mailroom.Run{
			{ID: "r", Thread: "a", Agent: "x", Status: mailroom.StatusCompleted}, {ID: "s", Thread: "b", Agent: "x", Status: mailroom.StatusFailed},
		},
	}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		spoil      func(store.CountQuery, *store.Counts)
	}{
		{"right", "", func(store.CountQuery, *store.Counts) {}},
		{"of a status", `owner "ann" has 1 completed runs of agent "x", the store counts 2`, func(q store.CountQuery, c *store.Counts) {
			if q.Agent == "x" && *q.Owner == "ann" {
				c.Runs[mailroom.StatusCompleted]++
			}
		}},
		{"of threads", `owner "bob" has 1 threads and 1 runs, the store counts 0 and 1`, func(q store.CountQuery, c *store.Counts) {
			if q.Agent == "" && q.Owner != nil && *q.Owner == "bob" {
				c.Threads--
			}
		}},
		{"of missing runs", "the store counts 2 and map[completed:1 failed:1 queued:1]", func(q store.CountQuery, c *store.Counts) {
			if q.Owner == nil && q.Summaries == nil && q.Meters == nil {
				c.Runs[mailroom.StatusQueued]++
			}
		}},
		{"of the first due time", "the store reports 2026", func(q store.CountQuery, c *store.Counts) {
			if q.Owner == nil && q.Summaries == nil && q.Meters == nil {
				c.Due = at
			}
		}},
	} {
		report, err := doctor.Check(t.Context(), miscounted{s, tc.spoil})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range report.Findings {
			if f.Invariant == doctor.Count {
				found = append(found, f.Text)
			}
		}
		got := strings.Join(found, "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got findings %q, want %q", tc.name, got, tc.want)
		}
	}
}

// endedAgain returns a run whose last end an older version wrote, which kept the label of the end before.
func endedAgain(at time.Time) *mailroom.Run {
	last := at.Add(time.Hour)
	return &mailroom.Run{ID: "again", Thread: "a", Agent: "y", Status: mailroom.StatusCompleted, FinishedAt: last,
		Counted: mailroom.Counted{At: last}, Labelled: mailroom.Labelled{At: at, Key: "customer=gone"}}
}

func label(r *mailroom.Run, end store.Summary) store.Summary {
	r.Labelled = mailroom.Labelled{At: r.FinishedAt, Key: "customer=acme"}
	return store.LabelEnd(r, end)
}

func TestASummaryThatDiffersIsFound(t *testing.T) {
	s := memory.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &store.Changes{Threads: []*mailroom.Thread{{ID: "a", Owner: "ann", FirstSeq: 1, NextPlace: 1, CreatedAt: at}}}
	for i, agent := range []string{"x", "y", "x"} {
		r := &mailroom.Run{
			ID: string(rune('r' + i)), Thread: "a", Agent: agent, Status: mailroom.StatusCompleted, StartedAt: at,
			FinishedAt: at.Add(time.Duration(i) * time.Hour),
			Usage:      mailroom.Usage{InputTokens: 5},
		}
		end := store.EndOf(r)
		c.Summaries = append(c.Summaries, end)
		if agent == "x" {
			c.Summaries = append(c.Summaries, label(r, end))
		}
		r.Counted = mailroom.Counted{At: r.FinishedAt, InputTokens: r.Usage.InputTokens,
			OutputTokens: r.Usage.OutputTokens, CostUSD: r.Usage.CostUSD}
		c.Runs = append(c.Runs, r)
	}
	// an older version ended it
	uncounted := &mailroom.Run{ID: "old", Thread: "a", Agent: "z", Status: mailroom.StatusFailed, FinishedAt: at}
	again := endedAgain(at)
	c.Summaries = append(c.Summaries, store.EndOf(again))
	c.Runs, c.Summaries = append(c.Runs, uncounted, again), store.SumUp(c.Summaries)
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	// of changes the rows of an agent in a step, "*" those of all.
	of := func(agent string, step time.Duration, change func(*store.Counts)) func(store.CountQuery, *store.Counts) {
		return func(q store.CountQuery, c *store.Counts) {
			if q.Summaries != nil && q.Summaries.Step == step && len(c.Summaries) > 0 && (agent == "*" ||
				c.Summaries[0].Key.Agent == agent) {
				change(c)
			}
		}
	}
	more := func(c *store.Counts) { c.Summaries[0].Sums.InputTokens++ }
	for _, tc := range []struct {
		name, want string
		spoil      func(store.CountQuery, *store.Counts)
	}{
		{"right", "", func(store.CountQuery, *store.Counts) {}},
		{"dropped minutes", "", of("*", store.StepMinute, func(c *store.Counts) { c.Summaries = nil })},
		{"dropped minutes of the first hour", "", of("x", store.StepMinute, func(c *store.Counts) {
			c.Summaries = slices.DeleteFunc(c.Summaries, func(s store.Summary) bool { return s.Key.At.Hour() == 3 })
		})},
		{"a lost minute", `completed runs of agent "x" in the 1h from 2026-01-02T05:00:00Z is {Runs:1`,
			of("x", store.StepMinute, func(c *store.Counts) {
				c.Summaries = slices.DeleteFunc(c.Summaries, func(s store.Summary) bool { return s.Key.At.Hour() == 5 })
			})},
		{"an hour with more", `runs of agent "y" in the 1h from 2026-01-02T04:00:00Z`, of("y", store.StepHour, more)},
		{"a day with more", `runs of agent "x" in the 24h from 2026-01-02T00:00:00Z`, of("x", store.StepDay, more)},
		{"a minute of all agents with more", `completed runs of agent "" in the 1m from 2026-01-02T03:04:00Z`, of("", store.StepMinute, more)},
		{"a day of a label with more", `the summary of completed runs of label "customer=acme" is {Runs:2`,
			of("customer=acme", store.StepLabelDay, more)},
		{"all time of a label with more", `the summary of completed runs of label "customer=acme" is {Runs:2`,
			of("customer=acme", store.StepLabel, more)},
		{"no time of a label", `the summary of completed runs of label "customer=acme" is {Runs:0`,
			of("customer=acme", store.StepLabel, func(c *store.Counts) { c.Summaries = nil })},
		{"fewer runs of a label", `2 runs of label "customer=acme" became completed in the day from 2026-01-02T`,
			of("customer=acme", store.StepLabelDay, func(c *store.Counts) { c.Summaries[0].Sums.Runs-- })},
		{"no rows", `2 runs of agent "x" became completed in the day from 2026-01-02T00:00:00Z, the summary has fewer`,
			func(_ store.CountQuery, c *store.Counts) { c.Summaries = nil }},
	} {
		report, err := doctor.Check(t.Context(), miscounted{s, tc.spoil})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range report.Findings {
			if f.Invariant == doctor.Count && strings.Contains(f.Text, "summary") {
				found = append(found, f.Text)
			}
		}
		if got := strings.Join(found, "\n"); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got findings %q, want %q", tc.name, got, tc.want)
		}
	}
}
