package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// What both stores of [PartQueries] have besides their runs, in the same number, so that only the runs differ.
const (
	labelName    = "customer" // the setting stats_label
	summedNames  = 500        // agents and values of the label that have sums
	summedDays   = 100
	summedHours  = 72
	auditActions = 40_000
	auditActors  = 50
	pausedAgent  = "agent-000"
	behindPause  = 2000 // queued runs of pausedAgent, in threads of ten
	questions    = 300  // runs of tourAgent, each with an open question
	tourAgent    = "tour"
)

// historyConfig is the part of the configuration that the requests about agents and labels need.
func (o *Options) historyConfig() string {
	text := strings.Builder{}
	text.WriteString("stats_label = \"" + labelName + "\"\n" + serverConfig)
	text.WriteString("[agents.tour]\nkind = \"tour\"\npace = \"0s\"\n")
	for i := range o.scaled(summedNames, 2) {
		fmt.Fprintf(&text, "[agents.%s]\nkind = \"echo\"\npace = \"0s\"\n", numberedAgent(i))
	}
	return text.String()
}

func numberedAgent(i int) string { return fmt.Sprintf("agent-%03d", i) }

// addHistory adds sums, an audit log, and runs that do not end, all before now.
func (h *fixture) addHistory(ctx context.Context, now time.Time, o *Options) error {
	err := h.addYear(ctx, now)
	if err == nil {
		err = h.addNamedSums(ctx, now, o.scaled(summedNames, 2))
	}
	if err == nil {
		err = h.addAudit(ctx, o.scaled(auditActions, 200)/auditActors/2)
	}
	if err == nil {
		err = h.addQueued(ctx, o.scaled(behindPause, 10))
	}
	return err
}

// addYear adds ends of runs to the sums of each minute of the last day, and of each day of the last year, so that the
// series over this time has the same length in both stores.
func (h *fixture) addYear(ctx context.Context, now time.Time) error {
	var ends []store.Summary
	end := func(at time.Time) {
		for _, status := range []mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed} {
			key := store.SummaryKey{Step: store.StepMinute, At: at.UTC().Truncate(store.StepMinute), Agent: agentName,
				Status: status}
			ends = append(ends, store.Summary{Key: key, Sums: store.Sums{Runs: 1, Ran: time.Second.Microseconds()}})
		}
	}
	for ago := store.StepMinute; ago <= store.StepDay; ago += store.StepMinute {
		end(now.Add(-ago))
	}
	for ago := 2 * store.StepDay; ago <= 366*store.StepDay; ago += store.StepDay {
		end(now.Add(-ago))
	}
	return h.writeSums(ctx, store.SumUp(ends))
}

// addNamedSums adds runs of each status to the sums of many agents, of hours and days, and of as many values of the
// label.
func (h *fixture) addNamedSums(ctx context.Context, now time.Time, names int) error {
	var rows []store.Summary
	add := func(step time.Duration, at time.Time, name string) {
		for i, status := range store.SummedStatuses() {
			sums := store.Sums{Runs: int64(9 - 4*i), Delay: 123_456, Ran: 9_876_543, InputTokens: 54_321,
				OutputTokens: 4_321, Cost: 1_234_567_890, Delays: [store.DelayBuckets]int64{3, 2, 2, 1, 1}}
			key := store.SummaryKey{Step: step, At: at, Agent: name, Status: status}
			rows = append(rows, store.Summary{Key: key, Sums: sums})
			if key.Agent = ""; step == store.StepHour || step == store.StepDay {
				rows = append(rows, store.Summary{Key: key, Sums: sums})
			}
		}
	}
	for i := range names {
		agent, value := numberedAgent(i), store.LabelKey(labelName, fmt.Sprintf("Company %03d", i))
		for n := range summedHours {
			add(store.StepHour, now.UTC().Truncate(store.StepHour).Add(-time.Duration(n)*store.StepHour), agent)
		}
		for n := range summedDays {
			day := now.UTC().Truncate(store.StepDay).Add(-time.Duration(n) * store.StepDay)
			add(store.StepDay, day, agent)
			add(store.StepLabelDay, day, value)
		}
		add(store.StepLabel, store.LabelAt(), value)
	}
	return h.writeSums(ctx, store.AddUp(rows))
}

func (h *fixture) writeSums(ctx context.Context, rows []store.Summary) error {
	const batch = 5000
	for len(rows) > 0 {
		n := min(batch, len(rows))
		err := h.store.Update(ctx, func(tx store.Tx) error { return tx.Write(&store.Changes{Summaries: rows[:n]}) })
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// addAudit lets many operators pause and resume an agent so many times each, and one pause pausedAgent at the end.
func (h *fixture) addAudit(ctx context.Context, times int) error {
	group, all := errgroup.WithContext(ctx)
	for i := range auditActors {
		group.Go(func() error {
			who := ledger.Caller{Name: fmt.Sprintf("operator-%02d", i), Kind: "token", From: "127.0.0.1"}
			ctx := ledger.WithCaller(all, func() ledger.Caller { return who })
			pause := store.Pause{Agent: numberedAgent(1 + i), By: who.Name, Reason: "the provider is away"}
			for range times {
				if _, err := h.ledger.PauseAgent(ctx, pause); err != nil {
					return err
				}
				if err := h.ledger.ResumeAgent(ctx, pause.Agent); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err := h.ledger.PauseAgent(ctx, store.Pause{Agent: pausedAgent, By: "operator-00"})
	return err
}

// addQueued adds runs of an agent that is paused.
func (h *fixture) addQueued(ctx context.Context, runs int) error {
	for i := range runs {
		if _, err := h.ledger.Submit(ctx, thread.Submit{
			Thread: fmt.Sprintf("paused-%d", i/10), Agent: pausedAgent,
			Messages: []thread.NewMessage{{Parts: mailroom.Text("show me")}},
			Origin:   mailroom.Origin{Via: "user", Sender: "bench"}, Sender: "bench", Owner: "bench",
		}); err != nil {
			return fmt.Errorf("submit a run that waits: %w", err)
		}
	}
	return nil
}

// ask makes so many runs ask, unless the store has them, and waits until they do.
func (s *served) ask(ctx context.Context, questions int) error {
	c := client.New(s.url, s.token)
	for i := range questions {
		id := fmt.Sprintf("asks-%d", i)
		in := api.Submit{Key: id, Thread: id, Agent: tourAgent, Text: "show me"}
		if _, err := c.Submit(ctx, in); err != nil {
			return fmt.Errorf("submit a run that asks: %w", err)
		}
	}
	return again(ctx, func() (bool, error) {
		now, err := c.Stats(ctx)
		return now.Runs[mailroom.StatusWaiting] >= questions, err
	})
}

// again calls f each second until it returns true or an error.
func again(ctx context.Context, f func() (bool, error)) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-second.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
