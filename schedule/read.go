package schedule

import (
	"time"

	"mailroom"
	"mailroom/schedule/plan"
	"mailroom/store"
)

// Read returns the schedules of threads as they are now: the ends of runs that a schedule only sees at its next
// message to itself are in their results. It leaves out threads without a schedule.
func Read(r store.Reader, threads []*mailroom.Thread, now time.Time) ([]*plan.State, error) {
	var all []*plan.State
	var open []string
	for _, t := range threads {
		s, err := plan.Read(t)
		if err != nil {
			return nil, err
		}
		if s != nil {
			all, open = append(all, s), append(open, s.OpenRuns()...)
		}
	}
	runs, err := runsByID(r, open)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		s.Account(runs, now)
	}
	return all, nil
}

// runsByID returns the runs with these ids that exist.
func runsByID(r store.Reader, ids []string) (map[string]*mailroom.Run, error) {
	runs := map[string]*mailroom.Run{}
	if len(ids) == 0 {
		return runs, nil // a query without ids would return all runs
	}
	found, err := r.Runs(store.RunQuery{IDs: ids})
	for _, run := range found {
		runs[run.ID] = run
	}
	return runs, err
}
