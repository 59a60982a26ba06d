package storetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

func summaryCases() []testCase {
	start := time.Date(2026, 1, 2, 23, 58, 0, 0, time.UTC)
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	row := func(agent string, n int, status mailroom.Status, runs int64) store.Summary {
		s := store.Summary{Key: store.SummaryKey{Step: store.StepMinute, Agent: agent, At: minute(n), Status: status}}
		var v [store.NumberOfSums]int64
		for i := range v {
			v[i] = runs * int64(i+1)
		}
		s.Sums = store.SumsOf(v)
		return s
	}
	read := func(s *handle, q store.SummaryQuery) []store.Summary {
		return s.count(store.CountQuery{Summaries: &q}).Summaries
	}
	const done, failed = mailroom.StatusCompleted, mailroom.StatusFailed
	fill := func(s *handle) {
		s.write(
			&store.Changes{Summaries: []store.Summary{row("b", 1, done, 1), row("a", 2, done, 2), row("a", 0, failed, 3),
				row("", 1, done, 4), row("b", 1, done, 5)}},
			&store.Changes{Summaries: []store.Summary{row("a", 2, done, 6), row("a", 2, failed, 7)}},
		)
	}
	minutes := func(s *handle) []store.Summary { return read(s, store.SummaryQuery{Step: store.StepMinute}) }
	return []testCase{
		{"add up by agent", func(t *testing.T, s *handle) {
			fill(s)
			addUpByAgent(t, s, row)
		}},
		{"list the values of a label", listLabels},
		{"add up in the order of their keys", func(t *testing.T, s *handle) {
			fill(s)
			all := []store.Summary{row("", 1, done, 4), row("a", 0, failed, 3), row("a", 2, done, 8), row("a", 2, failed, 7),
				row("b", 1, done, 6)}
			wantSame(t, "all", minutes(s), all)
			agent, everyone := "a", ""
			for name, c := range map[string]struct {
				q    store.SummaryQuery
				want []store.Summary
			}{
				"of an agent":              {store.SummaryQuery{Agent: &agent}, all[1:4]},
				"of all agents":            {store.SummaryQuery{Agent: &everyone}, all[:1]},
				"from a time":              {store.SummaryQuery{Agent: &agent, From: minute(2)}, all[2:4]},
				"until a time":             {store.SummaryQuery{Agent: &agent, To: minute(2)}, all[1:2]},
				"between times":            {store.SummaryQuery{From: minute(1), To: minute(2)}, []store.Summary{all[0], all[4]}},
				"some":                     {store.SummaryQuery{Limit: 2}, all[:2]},
				"those behind, of a limit": {store.SummaryQuery{After: all[1].Key, Limit: 2}, all[2:4]},
				"those of the next agent": {store.SummaryQuery{After: store.SummaryKey{Agent: "a",
					At: time.UnixMicro(math.MaxInt64)}}, all[4:]},
				"those behind the last": {store.SummaryQuery{After: all[4].Key}, nil},
			} {
				c.q.Step = store.StepMinute
				wantSame(t, name, read(s, c.q), c.want)
			}
			wantSame(t, "of another step", read(s, store.SummaryQuery{Step: store.StepHour}), []store.Summary(nil))
		}},
		{"are dropped by step and time", func(t *testing.T, s *handle) {
			fill(s)
			day := row("a", 0, done, 1)
			day.Key.Step = store.StepDay
			s.write(
				&store.Changes{Summaries: []store.Summary{day}},
				&store.Changes{DropSummaries: []store.SummariesBefore{{Step: store.StepMinute, At: minute(2)},
					{Step: store.StepHour, At: minute(9)}}},
			)
			wantSame(t, "minutes", minutes(s), []store.Summary{row("a", 2, done, 8), row("a", 2, failed, 7)})
			wantSame(t, "days", read(s, store.SummaryQuery{Step: store.StepDay}), []store.Summary{day})
		}},
		{"stop at the greatest number", func(t *testing.T, s *handle) {
			most := row("a", 0, done, 0)
			most.Sums.Cost = math.MaxInt64 - 1
			for range 3 {
				s.write(&store.Changes{Summaries: []store.Summary{most}})
			}
			most.Sums.Cost = math.MaxInt64
			wantSame(t, "minutes", minutes(s), []store.Summary{most})
		}},
	}
}

// addUpByAgent reads the rows of fill by agent.
func addUpByAgent(t *testing.T, s *handle, row func(string, int, mailroom.Status, int64) store.Summary) {
	const done, failed = mailroom.StatusCompleted, mailroom.StatusFailed
	minute := func(n int) time.Time { return row("", n, done, 0).Key.At }
	read := func(q store.SummaryQuery) []store.Summary { return s.count(store.CountQuery{Summaries: &q}).Summaries }
	most := row("c", 0, done, 0)
	most.Sums.Cost = math.MaxInt64
	later := most
	later.Key.At = minute(3)
	s.write(&store.Changes{Summaries: []store.Summary{most, later}})
	of := store.SummaryQuery{Step: store.StepMinute, From: minute(0), To: minute(3)}
	of.Of = []string{"none", "c", "b", "a", ""}
	// The results of an agent: the sums of all its rows, and the runs by status.
	added := func(rows ...store.Summary) (out []store.Summary) {
		all, runs := store.Summary{}, map[mailroom.Status]store.Sums{}
		for _, r := range rows {
			all = store.Summary{Key: r.Key, Sums: all.Sums.Plus(r.Sums)}
			runs[r.Key.Status] = runs[r.Key.Status].Plus(store.Sums{Runs: r.Sums.Runs})
		}
		all.Key.Status, all.Key.At = "", of.From
		out = append(out, all)
		for status, sums := range runs {
			key := all.Key
			if key.Status = status; sums.Runs > 0 {
				out = append(out, store.Summary{Key: key, Sums: sums})
			}
		}
		store.SortSummaries(out)
		return out
	}
	great, every := added(most), added(row("", 1, done, 4))
	wantSame(t, "all", read(of), slices.Concat(every,
		added(row("a", 2, done, 8), row("a", 2, failed, 10)), // of two minutes
		added(row("b", 1, done, 6)), great))
	of.To = minute(2)
	wantSame(t, "until a time", read(of), slices.Concat(every, added(row("a", 0, failed, 3)),
		added(row("b", 1, done, 6)), great))
	usual := row("d", 1, done, 0)
	usual.Sums.Cost = 1 << 40
	s.write(&store.Changes{Summaries: []store.Summary{row("d", 0, failed, 1), usual}})
	of.To, of.Of = minute(4), []string{"c", "d"}
	later.Sums.Cost = math.MaxInt64
	wantSame(t, "of sums beyond an integer, and others", read(of), slices.Concat(added(most, later),
		added(row("d", 0, failed, 1), usual)))
	many := row("e", 0, failed, 0)
	many.Sums.Runs = math.MaxInt64
	more := many
	more.Key.At = minute(1)
	s.write(&store.Changes{Summaries: []store.Summary{many, more, row("e", 1, done, 1)}})
	of.Of = []string{"e", "d"}
	wantSame(t, "of more runs than an integer has", read(of), slices.Concat(added(row("d", 0, failed, 1), usual),
		added(many, more, row("e", 1, done, 1))))
	of.Last, of.Of = true, []string{"none", "c", "a"}
	wantSame(t, "the latest", read(of), []store.Summary{
		{Key: store.SummaryKey{Step: store.StepMinute, Agent: "a", At: minute(2)}},
		{Key: store.SummaryKey{Step: store.StepMinute, Agent: "c", At: minute(3)}}})
	of.Step = store.StepHour
	wantSame(t, "the latest of another step", read(of), []store.Summary(nil))
}

// listLabels adds ends with labels, whose values may be any text.
func listLabels(t *testing.T, s *handle) {
	at := time.Date(2026, 1, 2, 23, 58, 0, 0, time.UTC)
	end := func(key string, at time.Time, status mailroom.Status) []store.Summary {
		r := &mailroom.Run{Agent: "a", Status: status, FinishedAt: at, Usage: mailroom.Usage{CostUSD: 1}}
		r.Labelled = mailroom.Labelled{At: at, Key: key}
		end := store.EndOf(r)
		return []store.Summary{end, store.LabelEnd(r, end)}
	}
	var ends []store.Summary
	for _, value := range []string{"acme", "a=b", "<b>\u202e\n'", "acme"} {
		ends = append(ends, end(store.LabelKey("customer", value), at, mailroom.StatusCompleted)...)
	}
	ends = append(ends, end(store.LabelKey("customer", "acme"), at.Add(time.Hour), mailroom.StatusFailed)...)
	ends = append(ends, end(store.LabelKey("region", "eu"), at, mailroom.StatusCompleted)...)
	s.write(&store.Changes{Summaries: store.SumUp(ends)})
	var keys []string
	if err := s.View(t.Context(), func(r store.Reader) (err error) {
		keys, err = store.LabelKeys(r, "customer")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "values", keys, []string{"customer=<b>\u202e\n'", "customer=a=b", "customer=acme"})
	read := func(q store.SummaryQuery) []store.Summary { return s.count(store.CountQuery{Summaries: &q}).Summaries }
	key := func(step time.Duration, at time.Time, status mailroom.Status) store.SummaryKey {
		return store.SummaryKey{Step: step, Agent: "customer=acme", At: at, Status: status}
	}
	day := at.Truncate(store.StepDay)
	once, twice := store.Sums{Runs: 1, Cost: 1e9}, store.Sums{Runs: 2, Cost: 2e9}
	of := store.SummaryQuery{Step: store.StepLabelDay, From: day, To: day.Add(2 * store.StepDay), Of: keys[2:]}
	wantSame(t, "two days", read(of), []store.Summary{
		{Key: key(store.StepLabelDay, day, ""), Sums: once.Plus(twice)},
		{Key: key(store.StepLabelDay, day, mailroom.StatusCompleted), Sums: store.Sums{Runs: 2}},
		{Key: key(store.StepLabelDay, day, mailroom.StatusFailed), Sums: store.Sums{Runs: 1}}})
	acme := keys[2]
	wantSame(t, "all time", read(store.SummaryQuery{Step: store.StepLabel, Agent: &acme}), []store.Summary{
		{Key: key(store.StepLabel, store.LabelAt(), mailroom.StatusCompleted), Sums: twice},
		{Key: key(store.StepLabel, store.LabelAt(), mailroom.StatusFailed), Sums: once}})
	everyone := ""
	of.Step, of.Of, of.Agent = store.StepDay, nil, &everyone
	wantSame(t, "of all agents", len(read(of)), 2)
	wantSame(t, "keys", read(store.SummaryQuery{Step: store.StepLabel, Agent: &acme, Keys: true}), []store.Summary{
		{Key: key(store.StepLabel, store.LabelAt(), mailroom.StatusCompleted)},
		{Key: key(store.StepLabel, store.LabelAt(), mailroom.StatusFailed)}})
	of.Agent = nil
	wantSame(t, "days by agent", len(read(of)), 4) // those of all, and of the agent: no value is an agent
}
