package operate

import (
	"context"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// StatsHandlers serve statistics and metrics.
type StatsHandlers struct {
	alerts  *AlertHandlers
	tokens  Tokens
	find    request.Lookup
	quotas  auth.Quotas // see Options.Quotas
	metrics *Metrics
	meters  Meters
	budgets Budgets
	agents  func(store.Reader) ([]string, error) // see Options.Agents
	label   string                               // see Options.Label
	started time.Time
}

// Stats counts the rows that the caller may see.
func (h *StatsHandlers) Stats(ctx context.Context, _ *empty) (*body[api.Stats], error) {
	who := request.CallerOf(ctx)
	all := who.SeesAll()
	now := time.Now()
	sum := totals{runs: zeroRuns(), due: now}
	err := h.find.View(ctx, func(rd store.Reader) error {
		if !all {
			own, err := rd.Count(store.CountQuery{Owner: &who.Name})
			sum.add(own, 1)
			return err
		}
		counts, err := rd.Count(store.CountQuery{})
		if err != nil {
			return err
		}
		sum.add(counts, 1)
		hidden, err := rd.Count(store.CountQuery{Owner: new(string)})
		sum.add(store.Counts{Threads: hidden.Threads, Runs: hidden.Runs}, -1)
		return err
	})
	partial := false
	if err == nil && !all && who.Namespace != "" {
		partial, err = h.countNamespace(ctx, who, &sum)
	}
	if err != nil {
		return nil, err
	}
	return &body[api.Stats]{api.Stats{
		Threads: sum.threads, Runs: sum.runs, OldestDueMS: now.Sub(sum.due).Milliseconds(), StartedAt: h.started,
		Partial: partial,
	}}, nil
}

// countNamespace adds to sum the threads of other owners in the namespace of the token who. It reads a bounded number
// of threads; partial reports that there may be more. It reads a page per view, so that no view is held for long; the
// pages are of different moments.
func (h *StatsHandlers) countNamespace(ctx context.Context, who *auth.Token, sum *totals) (partial bool, err error) {
	q := store.ThreadQuery{Prefix: who.Namespace, Limit: scanPage}
	for end, read := false, 0; !end; read += scanPage {
		if read >= maxScannedRows {
			return true, nil
		}
		err := h.find.View(ctx, func(rd store.Reader) error {
			rows, err := rd.Threads(q)
			end = len(rows) < scanPage
			for _, t := range rows {
				q.After = t.ID
				if t.Owner == who.Name || !who.CanSee(t) {
					continue
				}
				counts, err := rd.Count(store.CountQuery{Thread: t.ID})
				if err != nil {
					return err
				}
				counts.Threads = 1
				if t.Due.Agent != "" {
					counts.Due = t.Due.At
				}
				sum.add(counts, 1)
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// totals adds up counts.
type totals struct {
	threads int
	runs    map[mailroom.Status]int
	due     time.Time // the earliest due time, at most now
}

func (s *totals) add(c store.Counts, sign int) {
	s.threads += sign * c.Threads
	for status, n := range c.Runs {
		s.runs[status] += sign * n
	}
	if !c.Due.IsZero() && c.Due.Before(s.due) {
		s.due = c.Due
	}
}

func zeroRuns() map[mailroom.Status]int {
	return map[mailroom.Status]int{
		mailroom.StatusQueued: 0, mailroom.StatusRunning: 0, mailroom.StatusWaiting: 0, mailroom.StatusCompleted: 0,
		mailroom.StatusFailed: 0, mailroom.StatusCancelled: 0,
	}
}

// countRuns counts all runs by status.
func (h *StatsHandlers) countRuns(ctx context.Context) (map[mailroom.Status]int, error) {
	sum := totals{runs: zeroRuns()}
	q := store.CountQuery{Statuses: slices.Sorted(maps.Keys(sum.runs))} // no more than what a scrape shows
	err := h.find.View(ctx, func(rd store.Reader) error {
		counts, err := rd.Count(q)
		sum.add(counts, 1)
		return err
	})
	return sum.runs, err
}

// Measure brings the metrics up to date for a scrape. Row counts are read at each scrape.
func (h *StatsHandlers) Measure(ctx context.Context) error {
	runs, err := h.countRuns(ctx)
	if err != nil {
		return err
	}
	tokens, err := h.tokens.Tokens(ctx)
	if err != nil {
		return err
	}
	waiting, err := h.alerts.waiting(ctx)
	if err != nil {
		return err
	}
	pools, err := h.budgets.Pools(ctx)
	if err != nil {
		return err
	}
	var backlog *backlogLevels
	err = h.find.View(ctx, func(rd store.Reader) (err error) {
		backlog, err = readBacklog(rd, h.metrics.agents.of)
		return err
	})
	if err != nil {
		return err
	}
	h.metrics.backlog.levels.Store(backlog)
	h.metrics.present(runs, h.meters.OpenStreams(), h.meters.UnreadBytes())
	h.metrics.uses(h.quotaLevels(tokens))
	h.metrics.waiting(waiting)
	h.metrics.budgets.set(pools)
	return nil
}

// quotaLevels returns, per quota, the use of all tokens together and the highest ratio of use to
// limit. It has no value per token, to keep the cardinality fixed.
func (h *StatsHandlers) quotaLevels(tokens []*auth.Token) map[auth.Quota]quotaLevel {
	all := map[auth.Quota]quotaLevel{}
	for _, q := range auth.AllQuotas() {
		var l quotaLevel
		for _, t := range tokens {
			used := h.meters.Used(t).Of(q)
			l.Used += used
			if limit := t.Quotas.WithDefaults(h.quotas)[q]; limit > 0 {
				l.Fullest = max(l.Fullest, float64(used)/float64(limit))
			}
		}
		all[q] = l
	}
	return all
}
