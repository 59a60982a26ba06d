package doctor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/setting"
	"mailroom/store"
)

// endsOf counts a finished run among the ends that the summary of its day must contain at least. The summary may
// contain more ends: of a run that ended before it was retried, and of runs whose rows were deleted.
func endsOf(ends map[store.SummaryKey]int64, r *mailroom.Run) {
	if r.Status.Finished() && !r.Counted.At.IsZero() && r.Counted.At.Equal(r.FinishedAt) {
		day := r.FinishedAt.UTC().Truncate(store.StepDay)
		ends[store.SummaryKey{Step: store.StepDay, At: day, Agent: r.Agent, Status: r.Status}]++
		if r.Labelled.At.Equal(r.FinishedAt) {
			ends[store.SummaryKey{Step: store.StepLabelDay, At: day, Agent: r.Labelled.Key, Status: r.Status}]++
		}
	}
}

// summaries compares the summary of ended runs with the ends of the rows, its days with its hours, its hours with its
// minutes, and the sums of all agents with the sums of each agent. Minutes and hours that were dropped are no finding
// if all minutes of the hour, or all hours of the day, were dropped. It reads the rows of one agent at a time.
func (w *scan) summaries(r store.Reader, ends map[store.SummaryKey]int64) error {
	agents, err := summedAgents(r, store.StepDay)
	if err != nil {
		return err
	}
	added := map[time.Duration]sumsByKey{}
	var all map[time.Duration]sumsByKey
	for _, agent := range agents {
		sums, err := readSummaries(r, agent)
		if err != nil {
			return err
		}
		w.compareSums(sums[store.StepHour], sums[store.StepMinute], store.StepHour)
		w.compareSums(sums[store.StepDay], sums[store.StepHour], store.StepDay)
		if agent == "" {
			all = sums
			continue
		}
		for step, rows := range sums {
			for key, s := range rows {
				if key.Agent = ""; added[step] == nil {
					added[step] = sumsByKey{}
				}
				added[step][key] = added[step][key].Plus(s)
			}
		}
		for key, s := range sums[store.StepDay] {
			if s.Runs >= ends[key] {
				delete(ends, key)
			}
		}
	}
	for _, step := range store.Steps() {
		w.compareSums(all[step], added[step], step)
	}
	if err := w.labels(r, ends); err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(ends), store.SummaryKey.Compare) {
		w.report.Add(Finding{Invariant: Count,
			Text: fmt.Sprintf("%d runs of %s %q became %s in the day from %s, the summary has fewer",
				ends[key], ofWhat(key.Step), key.Agent, key.Status, at(key.At))})
	}
	return nil
}

// labels compares the days of each value of a label with the ends of the rows, and all its time with its days. Both
// are kept for ever.
func (w *scan) labels(r store.Reader, ends map[store.SummaryKey]int64) error {
	values := map[string]bool{}
	for _, step := range [2]time.Duration{store.StepLabelDay, store.StepLabel} {
		list, err := summedAgents(r, step)
		if err != nil {
			return err
		}
		for _, value := range list[1:] {
			values[value] = true
		}
	}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		days, err := readStep(r, value, store.StepLabelDay)
		if err != nil {
			return err
		}
		ever, err := readStep(r, value, store.StepLabel)
		if err != nil {
			return err
		}
		added := sumsByKey{}
		for key, s := range days {
			if s.Runs >= ends[key] {
				delete(ends, key)
			}
			key.Step, key.At = store.StepLabel, store.LabelAt()
			added[key] = added[key].Plus(s)
		}
		for key := range ever {
			added[key] = added[key].Plus(store.Sums{})
		}
		for _, key := range slices.SortedFunc(maps.Keys(added), store.SummaryKey.Compare) {
			if ever[key] != added[key] {
				w.report.Add(Finding{Invariant: Count,
					Text: fmt.Sprintf("the summary of %s runs of label %q is %+v, that of its days %+v", key.Status, value,
						ever[key], added[key])})
			}
		}
	}
	return nil
}

// ofWhat returns what the rows of a step of days sum up.
func ofWhat(step time.Duration) string {
	if step == store.StepLabelDay {
		return "label"
	}
	return "agent"
}

// summedAgents returns the agents that a step of the summary has, or the labels, beginning with "", which stands for
// all agents together.
func summedAgents(r store.Reader, step time.Duration) ([]string, error) {
	agents := []string{""}
	q := store.SummaryQuery{Step: step, Limit: 1}
	for {
		q.After = store.SummaryKey{Agent: agents[len(agents)-1], At: time.UnixMicro(math.MaxInt64)}
		rows, err := r.Count(store.CountQuery{Summaries: &q})
		if err != nil || len(rows.Summaries) == 0 {
			return agents, err
		}
		agents = append(agents, rows.Summaries[0].Key.Agent)
	}
}

// sumsByKey has the rows of one step of the summary.
type sumsByKey map[store.SummaryKey]store.Sums

// readSummaries returns the rows of an agent, grouped by step.
func readSummaries(r store.Reader, agent string) (map[time.Duration]sumsByKey, error) {
	sums := map[time.Duration]sumsByKey{}
	for _, step := range store.Steps() {
		rows, err := readStep(r, agent, step)
		if err != nil {
			return nil, err
		}
		sums[step] = rows
	}
	return sums, nil
}

// readStep returns the rows of an agent, or of a value of a label, in one step.
func readStep(r store.Reader, agent string, step time.Duration) (sumsByKey, error) {
	sums := sumsByKey{}
	q := store.SummaryQuery{Step: step, Agent: &agent, Limit: batch}
	for {
		rows, err := r.Count(store.CountQuery{Summaries: &q})
		if err != nil || len(rows.Summaries) == 0 {
			return sums, err
		}
		for _, s := range rows.Summaries {
			sums[s.Key], q.After = s.Sums, s.Key
		}
	}
}

// compareSums compares sums with the sums of their parts, from the first kept part on.
func (w *scan) compareSums(sums, parts sumsByKey, step time.Duration) {
	added := sumsByKey{}
	var first time.Time
	for key, part := range parts {
		key.Step, key.At = step, key.At.Truncate(step)
		added[key] = added[key].Plus(part)
		if first.IsZero() || key.At.Before(first) {
			first = key.At
		}
	}
	if first.IsZero() {
		return
	}
	differing := map[store.SummaryKey]bool{}
	for key := range added {
		differing[key] = added[key] != sums[key]
	}
	for key := range sums {
		if !key.At.Before(first) {
			differing[key] = added[key] != sums[key]
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(differing), store.SummaryKey.Compare) {
		if differing[key] {
			w.report.Add(Finding{Invariant: Count,
				Text: fmt.Sprintf("the summary of %s runs of agent %q in the %s from %s is %+v, that of its parts %+v",
					key.Status, key.Agent, setting.FormatDuration(step), at(key.At), sums[key], added[key])})
		}
	}
}
