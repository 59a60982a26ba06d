package sqlstore

import (
	"cmp"
	"slices"

	"mailroom"
)

// SizedRun is a run and the size of its row.
type SizedRun struct {
	Run  *mailroom.Run
	Size int
}

// SortRuns sorts by key, which is the order of creation.
func SortRuns(list []SizedRun, oldest bool) {
	slices.SortFunc(list, func(a, b SizedRun) int {
		if oldest {
			return cmp.Compare(a.Run.Key, b.Run.Key)
		}
		return cmp.Compare(b.Run.Key, a.Run.Key)
	})
}

// FirstRuns returns the runs up to the limits of g.
func FirstRuns(list []SizedRun, g Gauge) (runs []*mailroom.Run) {
	for _, row := range list {
		runs = append(runs, row.Run)
		if !g.Add(row.Size) {
			break
		}
	}
	return runs
}
