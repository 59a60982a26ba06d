package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mailroom"
	"mailroom/store"
)

// tally identifies the runs of one owner, one agent and one status.
type tally struct {
	owner, agent string
	status       mailroom.Status
}

// counts compares the store's counts, and its lists by error group, with the rows of all runs and threads. It reads
// counts and rows in one view, a page at a time.
func (w *scan) counts(r store.Reader) error {
	threads, due, err := countThreads(r)
	if err != nil {
		return err
	}
	counted, err := countRuns(r)
	if err != nil {
		return err
	}
	if err := w.failures(r, counted.groups); err != nil {
		return err
	}
	if err := w.summaries(r, counted.ends); err != nil {
		return err
	}
	runs := counted.runs
	perOwner := map[string]int{}
	sum := map[mailroom.Status]int{}
	for _, k := range slices.SortedFunc(maps.Keys(runs), compareTallies) {
		perOwner[k.owner] += runs[k]
		sum[k.status] += runs[k]
		got, err := r.Count(store.CountQuery{Owner: &k.owner, Agent: k.agent, Statuses: []mailroom.Status{k.status}})
		if err != nil {
			return err
		}
		if got.Sum() != runs[k] {
			w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("owner %q has %d %s runs of agent %q, the store counts %d",
				k.owner, runs[k], k.status, k.agent, got.Sum())})
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(threads)) {
		got, err := r.Count(store.CountQuery{Owner: &owner})
		if err != nil {
			return err
		}
		if got.Threads != threads[owner] || got.Sum() != perOwner[owner] {
			w.report.Add(Finding{Invariant: Count,
				Text: fmt.Sprintf("owner %q has %d threads and %d runs, the store counts %d and %d",
					owner, threads[owner], perOwner[owner], got.Threads, got.Sum())})
		}
	}
	return w.countAll(r, threads, sum, due)
}

// countAll compares the counts of all owners together, which also finds counts of owners that have no rows.
func (w *scan) countAll(r store.Reader, threads map[string]int, runs map[mailroom.Status]int, due mailroom.Due) error {
	got, err := r.Count(store.CountQuery{})
	if err != nil {
		return err
	}
	all := 0
	for _, n := range threads {
		all += n
	}
	if got.Threads != all || !maps.Equal(got.Runs, runs) {
		w.report.Add(Finding{Invariant: Count,
			Text: fmt.Sprintf("there are %d threads and runs %v, the store counts %d and %v",
				all, runs, got.Threads, got.Runs)})
	}
	if !got.Due.Equal(due.At) {
		w.report.Add(Finding{Invariant: Count, Text: fmt.Sprintf("the earliest thread is due at %v, the store reports %v",
			due.At, got.Due)})
	}
	return nil
}

func compareTallies(a, b tally) int {
	return slices.Compare([]string{a.owner, a.agent, string(a.status)}, []string{b.owner, b.agent, string(b.status)})
}

// countThreads counts threads by owner, and returns the earliest due time of those that are not at a gate.
func countThreads(r store.Reader) (threads map[string]int, due mailroom.Due, err error) {
	threads = map[string]int{}
	for _, deleted := range []bool{false, true} {
		q := store.ThreadQuery{Deleted: deleted, Oldest: true, Limit: batch}
		for {
			rows, err := r.Threads(q)
			if err != nil {
				return nil, due, err
			}
			if len(rows) == 0 {
				break
			}
			for _, t := range rows {
				q.From = t.Key
				threads[t.Owner]++
				atGate := strings.HasPrefix(t.Due.Agent, store.GatePrefix) // nothing starts there
				if t.Due.Agent != "" && !atGate && (due.At.IsZero() || t.Due.At.Before(due.At)) {
					due = t.Due
				}
			}
		}
	}
	return threads, due, nil
}

// countedRuns are the counts of all runs.
type countedRuns struct {
	runs   map[tally]int
	groups map[string]int             // failed runs by error group
	ends   map[store.SummaryKey]int64 // see endsOf
}

func countRuns(r store.Reader) (*countedRuns, error) {
	c := &countedRuns{map[tally]int{}, map[string]int{}, map[store.SummaryKey]int64{}}
	q := store.RunQuery{Oldest: true, Limit: batch}
	for {
		rows, err := r.Runs(q)
		if err != nil || len(rows) == 0 {
			return c, err
		}
		var ids []string
		for _, run := range rows {
			ids = append(ids, run.Thread)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		owner := map[string]string{}
		for _, deleted := range []bool{false, true} {
			found, err := r.Threads(store.ThreadQuery{IDs: ids, Deleted: deleted})
			if err != nil {
				return nil, err
			}
			for _, t := range found {
				owner[t.ID] = t.Owner
			}
		}
		for _, run := range rows {
			q.From = run.Key
			c.runs[tally{owner[run.Thread], run.Agent, run.Status}]++
			if run.Status == mailroom.StatusFailed && run.ErrorGroup != "" {
				c.groups[run.ErrorGroup]++
			}
			endsOf(c.ends, run)
		}
	}
}
