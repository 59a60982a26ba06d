package doctor

import (
	"fmt"
	"maps"
	"slices"

	"mailroom"
	"mailroom/store"
)

// failures compares the store's lists of failed runs by error group with the rows of runs. groups is the number of
// failed runs per group, counted from the rows.
func (w *scan) failures(r store.Reader, groups map[string]int) error {
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		listed := 0
		q := store.RunQuery{Group: group, Oldest: true, Limit: batch}
		for {
			rows, err := r.Runs(q)
			if err != nil {
				return err
			}
			for _, run := range rows {
				q.From = run.Key
				if run.Status == mailroom.StatusFailed && run.ErrorGroup == group {
					listed++
					continue
				}
				w.report.Add(Finding{Invariant: Count, Thread: run.Thread, Run: run.ID, Text: fmt.Sprintf(
					"run %s is %s with error group %q and is in the list of group %q", run.ID, run.Status, run.ErrorGroup, group)})
			}
			if len(rows) < q.Limit {
				break
			}
		}
		if listed != groups[group] {
			w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("error group %q has %d failed runs, the store lists %d",
				group, groups[group], listed)})
		}
	}
	return nil
}
