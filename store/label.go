package store

import (
	"strings"
	"time"

	"mailroom"
)

// The steps of the sums of a label's values: the days of a value, and all its time, whose rows list the values.
//
// They are steps of their own, so that a version that knows no labels, on the same store, neither lists a value as an
// agent nor adds it to the sums of the agents.
const (
	StepLabelDay = StepDay + time.Microsecond
	StepLabel    = StepDay + 2*time.Microsecond
)

// MaxLabelValues is how many values of a label a server counts, and maxLabelText the characters of one.
const (
	MaxLabelValues = 500
	maxLabelText   = 64
)

// LabelAt is the At of the rows of StepLabel. It is not 0, which some stores read as no time.
func LabelAt() time.Time { return time.Unix(0, 0).UTC().Add(StepDay) }

// AllSteps returns the lengths of the periods, and the steps of labels and of budgets.
func AllSteps() []time.Duration {
	return []time.Duration{StepMinute, StepHour, StepDay, StepLabelDay, StepLabel, StepBudgetDay, StepBudgetMonth}
}

// LabelKey returns the Agent in the keys of the rows of a value. A name has no "=".
func LabelKey(name, value string) string { return name + "=" + value }

// LabelValue returns the value that is counted of the metadata of a run: its first 64 characters. Runs of longer values
// that begin with the same characters are summed up together. "" is not counted.
func LabelValue(text string) string {
	text = strings.TrimSpace(text)
	n := 0
	for i := range text {
		if n == maxLabelText {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// LabelEnd returns what the end of a run adds to the summary of the value in its Labelled. end is its EndOf.
func LabelEnd(r *mailroom.Run, end Summary) Summary {
	end.Key.Step, end.Key.Agent = StepLabelDay, r.Labelled.Key
	return end
}

// LabelKeys returns the keys of the values that are counted of a label, sorted, at most twice MaxLabelValues: two
// servers may exceed it together.
func LabelKeys(r Reader, name string) (keys []string, err error) {
	const most, statuses = 2 * MaxLabelValues, 3
	q := SummaryQuery{Step: StepLabel, After: SummaryKey{Agent: LabelKey(name, "")}, Limit: most * statuses, Keys: true}
	rows, err := r.Count(CountQuery{Summaries: &q})
	for _, row := range rows.Summaries {
		if !strings.HasPrefix(row.Key.Agent, q.After.Agent) || len(keys) == most {
			break
		}
		if n := len(keys); n == 0 || keys[n-1] != row.Key.Agent {
			keys = append(keys, row.Key.Agent)
		}
	}
	return keys, err
}
