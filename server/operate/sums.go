package operate

import (
	"cmp"
	"context"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// maxSummedPeriods and maxSummed bound the rows that are added up for one request, to 93,000: 3 statuses of each.
const (
	maxSummedPeriods = 31
	maxSummed        = 1000
)

type sumsInput struct {
	By   string    `query:"by" enum:"agent,label" default:"agent" doc:"What is summed up; label: the setting stats_label."`
	Step string    `query:"step" enum:"minute,hour,day" doc:"See series. Default: hour. By label, day is the only one."`
	From time.Time `query:"from" doc:"Default: 30 periods before to."`
	To   time.Time `query:"to" doc:"Default: now. At most 31 periods after from."`
}

// byLabel is the value of by for the sums of each value of the label.
const byLabel = "label"

// noSums returns sums without items.
func (h *StatsHandlers) noSums(step string, q store.SummaryQuery) api.Sums {
	return api.Sums{Step: step, From: q.From, To: q.To, Label: h.label, Items: []api.SumsItem{},
		DelayBoundsMS: delayBounds()}
}

// Sums adds up the ended runs of all owners by agent, or by the value of the label.
func (h *StatsHandlers) Sums(ctx context.Context, in *sumsInput) (*body[api.Sums], error) {
	if in.By == byLabel {
		return h.sumsByLabel(ctx, in)
	}
	in.Step = cmp.Or(in.Step, "hour")
	q, err := periods(in.Step, in.From, in.To, time.Now().UTC(), maxSummedPeriods)
	if err != nil {
		return nil, err
	}
	out := h.noSums(in.Step, q)
	err = h.find.View(ctx, func(rd store.Reader) error {
		names, err := h.agents(rd)
		if err != nil {
			return err
		}
		q.Of = []string{""}
		for _, name := range names {
			// The runs of an agent that sends alerts, or of schedules, budgets and pull requests, are among the others, as in
			// the list of agents.
			hidden := alert.IsAgent(name) || reserved.IsKeeper(name)
			if name != "" && !hidden && len(q.Of) <= maxSummed {
				q.Of = append(q.Of, name)
			}
		}
		rows, err := addUp(rd, q)
		if err != nil {
			return err
		}
		steps := store.Steps()
		last, err := lastEnds(rd, q.Of[1:], steps[:])
		addSums(&out, q, rows, last)
		return err
	})
	return &body[api.Sums]{out}, err
}

// addUp adds up the rows of the agents of a query. In place of the hours of a whole day it reads the row of the day,
// which the same transactions wrote: of the last 31 hours, 13 rows on average instead of 31.
func addUp(rd store.Reader, q store.SummaryQuery) ([]store.Summary, error) {
	parts := []store.SummaryQuery{q}
	if q.Step == store.StepHour {
		days, err := wholeDays(rd, q)
		if err != nil {
			return nil, err
		}
		if days.From.Before(days.To) {
			before, after := q, q
			before.To, after.From = days.From, days.To
			parts = []store.SummaryQuery{before, days, after}
		}
	}
	type of struct {
		agent  string
		status mailroom.Status
	}
	var out []store.Summary
	places := map[of]int{} // in out
	for _, part := range parts {
		if !part.From.Before(part.To) {
			continue
		}
		rows, err := rd.Count(store.CountQuery{Summaries: &part})
		if err != nil || len(parts) == 1 {
			return rows.Summaries, err
		}
		for _, row := range rows.Summaries {
			key := of{row.Key.Agent, row.Key.Status}
			if place, found := places[key]; found {
				out[place].Sums = out[place].Sums.Plus(row.Sums)
			} else {
				places[key], out = len(out), append(out, row)
			}
		}
	}
	return out, nil
}

// wholeDays returns the query of the days within the hours of a query. The last one is whole, too, if no run has
// ended in the rest of it, as in the rest of today.
func wholeDays(rd store.Reader, q store.SummaryQuery) (store.SummaryQuery, error) {
	days := q
	days.Step = store.StepDay
	days.From, days.To = q.From.Add(store.StepDay-1).Truncate(store.StepDay), q.To.Truncate(store.StepDay)
	if end := days.To.Add(store.StepDay); days.To.Before(q.To) && !days.To.Before(days.From) {
		all := ""
		rest := store.SummaryQuery{Step: q.Step, Agent: &all, From: q.To, To: end, Keys: true, Limit: 1}
		rows, err := rd.Count(store.CountQuery{Summaries: &rest})
		if err != nil {
			return days, err
		}
		if len(rows.Summaries) == 0 {
			days.To = end
		}
	}
	return days, nil
}

// addSums adds the sums of all, of each name of the query, and of those that it does not name.
func addSums(out *api.Sums, q store.SummaryQuery, rows []store.Summary, last map[string]time.Time) {
	ends := map[string][]store.Summary{}
	left := map[store.SummaryKey]store.Sums{}
	for _, row := range rows {
		ends[row.Key.Agent] = append(ends[row.Key.Agent], row)
		key := store.SummaryKey{Status: row.Key.Status}
		if row.Key.Agent == "" {
			left[key] = row.Sums
		}
	}
	for _, row := range rows {
		if key := (store.SummaryKey{Status: row.Key.Status}); row.Key.Agent != "" {
			left[key] = left[key].Minus(row.Sums)
		}
	}
	var others []store.Summary
	for key, sums := range left {
		others = append(others, store.Summary{Key: key, Sums: sums})
	}
	out.All, out.Others = seriesPoint(q.From, ends[""]), seriesPoint(q.From, others)
	for _, name := range q.Of {
		if at, known := last[name]; known || len(ends[name]) > 0 && name != "" {
			item := api.SumsItem{Name: name, Sums: seriesPoint(q.From, ends[name])}
			if known {
				item.LastAt = &at
			}
			out.Items = append(out.Items, item)
		}
	}
}

// lastEnds returns the periods in which runs of the agents or values ended last, of the first step that still has them.
func lastEnds(rd store.Reader, names []string, steps []time.Duration) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, step := range steps {
		q := store.SummaryQuery{Step: step, Last: true}
		for _, name := range names {
			if _, found := last[name]; !found {
				q.Of = append(q.Of, name)
			}
		}
		if len(q.Of) == 0 {
			break
		}
		rows, err := rd.Count(store.CountQuery{Summaries: &q})
		if err != nil {
			return nil, err
		}
		for _, row := range rows.Summaries {
			last[row.Key.Agent] = row.Key.At
		}
	}
	return last, nil
}
