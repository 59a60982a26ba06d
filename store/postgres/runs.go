package postgres

import (
	"cmp"
	"slices"

	"mailroom"
	"mailroom/store"
)

// sizedRun is a run and the size of its row.
type sizedRun struct {
	run  *mailroom.Run
	size int
}

// Runs implements [store.Reader].
func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	if len(q.Threads) > 0 {
		return r.runsWithin(q)
	}
	if !q.Overdue.IsZero() {
		return overdueRuns(r, q)
	}
	if q.Owner != "" || q.Group != "" {
		return listRuns(r, q)
	}
	piles := []int64{pileNone} // not by pile
	if len(q.Statuses) > 0 && len(q.IDs) == 0 && q.Thread == "" && q.Parent == "" && q.Set == store.RunsAll &&
		!slices.Contains(q.Statuses, mailroom.StatusCompleted) {
		piles = nil
		for _, status := range q.Statuses {
			piles = append(piles, pilesOf(status)...)
		}
		slices.Sort(piles)
		piles = slices.Compact(piles)
	}
	var found []sizedRun
	for _, pile := range piles {
		rows, err := r.runsOf(q, pile)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if len(piles) > 1 || len(q.IDs) > 0 {
		slices.SortFunc(found, func(a, b sizedRun) int {
			if q.Oldest {
				return cmp.Compare(a.run.Key, b.run.Key)
			}
			return cmp.Compare(b.run.Key, a.run.Key)
		})
	}
	var runs []*mailroom.Run
	g := gauge{limit: q.Limit, budget: q.Bytes}
	if len(q.IDs) > 0 {
		g.budget = 0
	}
	for _, row := range found {
		runs = append(runs, row.run)
		if !g.add(row.size) {
			break
		}
	}
	return runs, nil
}

// runsOf reads a list of runs, with a pile in the order of the index of piles.
func (r reader) runsOf(q store.RunQuery, pile int64) ([]sizedRun, error) {
	var s selection
	s.add("SELECT r.key, r.body FROM run r")
	limit, budget := q.Limit, q.Bytes
	if len(q.IDs) > 0 {
		s.cond("r.id = ANY (?::text[])", distinct(q.IDs))
		limit, budget = 0, 0
	}
	switch pile {
	case pileNone:
	case pileRunning:
		s.cond("r.id = ANY (ARRAY(SELECT current_run FROM thread WHERE worker IS NOT NULL))")
	default:
		s.cond("r.pile = ?", pile)
	}
	s.whichRuns(q)
	switch q.Set {
	case store.RunsQueued:
		s.add(" ORDER BY r.priority, r.place, r.key")
	case store.RunsScheduled:
		s.add(" ORDER BY r.not_before, r.place, r.key")
	default:
		s.byKey("r.key", q.From, q.Oldest)
	}
	return list(r, "read runs", &s, limit, budget, func(c *columns) (sizedRun, error) {
		run, err := scanRun(c)
		return sizedRun{run, c.size}, err
	})
}

// whichRuns adds the conditions of q but IDs and From.
func (s *selection) whichRuns(q store.RunQuery) {
	if q.Thread != "" {
		s.cond("r.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	if q.Agent != "" {
		s.cond("r.agent = ?", q.Agent)
	}
	if q.Parent != "" {
		s.cond("r.parent = ?", q.Parent)
	}
	if len(q.Statuses) > 0 {
		s.cond("r.status = ANY (?::text[])", plainTexts(q.Statuses))
	}
	switch q.Set {
	case store.RunsQueued:
		s.cond("r.pile = 0")
	case store.RunsScheduled:
		s.cond("r.pile = 1")
	}
}

func plainTexts[T ~string](list []T) []string {
	plain := make([]string, len(list))
	for i, v := range list {
		plain[i] = string(v)
	}
	return plain
}
