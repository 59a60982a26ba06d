package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
)

// statsHandlers serve statistics and metrics.
type statsHandlers struct {
	alerts   *alertHandlers
	accounts Accounts
	find     request.Lookup
	quotas   quotas
	metrics  *operate.Metrics
	slots    *slots // of streams and waits
	backlog  *request.Backlog
	started  time.Time
}

// stats counts the rows that the caller may see.
func (h *statsHandlers) stats(ctx context.Context, _ *empty) (*body[api.Stats], error) {
	who := requestOf(ctx).who
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
		Threads: sum.threads, Runs: sum.runs, OldestDueMS: now.Sub(sum.due).Milliseconds(), StartedAt: h.started, Partial: partial,
	}}, nil
}

// countNamespace adds the threads of other owners in the namespace of who, of a bounded number of threads:
// partial reports that there may be more. It reads a page per view, so that no view is held for long; the
// pages are of different moments.
func (h *statsHandlers) countNamespace(ctx context.Context, who *auth.Token, sum *totals) (partial bool, err error) {
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
		mailroom.StatusQueued: 0, mailroom.StatusRunning: 0, mailroom.StatusWaiting: 0, mailroom.StatusCompleted: 0, mailroom.StatusFailed: 0, mailroom.StatusCancelled: 0,
	}
}

// countRuns counts all runs by status.
func (h *statsHandlers) countRuns(ctx context.Context) (map[mailroom.Status]int, error) {
	sum := totals{runs: zeroRuns()}
	q := store.CountQuery{Statuses: slices.Sorted(maps.Keys(sum.runs))} // no more than what a scrape shows
	err := h.find.View(ctx, func(rd store.Reader) error {
		counts, err := rd.Count(q)
		sum.add(counts, 1)
		return err
	})
	return sum.runs, err
}

// serveMetrics answers a scrape. Row counts are read at each scrape.
func (h *statsHandlers) serveMetrics(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	err := checkQuery(r.URL.Query(), nil)
	var runs map[mailroom.Status]int
	var tokens []*auth.Token
	if err == nil {
		runs, err = h.countRuns(r.Context())
	}
	if err == nil {
		tokens, err = h.accounts.Tokens(r.Context())
	}
	var waiting []operate.WaitingAlerts
	if err == nil {
		waiting, err = h.alerts.waiting(r.Context())
	}
	if err != nil {
		refuse(out, r, err)
		return
	}
	h.metrics.Present(runs, h.slots.total(), h.backlog.Bytes())
	h.metrics.Uses(h.quotaLevels(tokens))
	h.metrics.Alerts(waiting)
	h.metrics.ServeHTTP(out, r)
}

// quotaLevels returns, per quota, the use of all tokens together and the highest ratio of use to
// limit. It has no value per token, to keep the cardinality fixed.
func (h *statsHandlers) quotaLevels(tokens []*auth.Token) map[auth.Quota]operate.QuotaLevel {
	all := map[auth.Quota]operate.QuotaLevel{}
	for _, q := range auth.AllQuotas() {
		var l operate.QuotaLevel
		for _, t := range tokens {
			used := h.quotas.usage(t).Of(q)
			l.Used += used
			if limit := t.Quotas.WithDefaults(h.quotas.defaults)[q]; limit > 0 {
				l.Fullest = max(l.Fullest, float64(used)/float64(limit))
			}
		}
		all[q] = l
	}
	return all
}
