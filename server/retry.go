package server

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
	"mailroom/internal/thread"
	"mailroom/server/internal/invalid"
	"mailroom/store"
)

const (
	// maxRetryScan bounds the runs that one request scans, rounded up to a batch.
	maxRetryScan = 5_000
	// retryConcurrency is how many threads are retried at a time, so that retries share commits.
	retryConcurrency = 64
)

type retryRunsInput struct{ Body api.RetryMany }

// retryRuns queues failed and cancelled runs again, in each thread in the order of submission. One
// request does a bounded part and returns where the next continues.
func (h *runHandlers) retryRuns(ctx context.Context, in *retryRunsInput) (*body[api.Retried], error) {
	found, next, err := h.findRetriable(ctx, in.Body)
	matched := len(found)
	if err != nil || in.Body.DryRun {
		return &body[api.Retried]{api.Retried{Matched: matched, Next: next}}, err
	}
	byThread := map[string][]string{}
	var threads []string
	for _, r := range found {
		if byThread[r.thread] == nil {
			threads = append(threads, r.thread)
		}
		byThread[r.thread] = append(byThread[r.thread], r.id)
	}
	var mu sync.Mutex
	retried := 0 // owned by mu
	by := requestOf(ctx).who.Name
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(retryConcurrency)
	for _, threadID := range threads {
		group.Go(func() (err error) {
			defer recovery.Error(h.log, "retry of runs", &err)
			for _, id := range byThread[threadID] {
				_, err := h.ledger.Retry(ctx, thread.Retry{Run: id, By: by})
				switch mailroom.CodeOf(err) {
				case "":
					mu.Lock()
					retried++
					mu.Unlock()
				case mailroom.CodeConflict, mailroom.CodeNotFound: // changed since the scan
				default:
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return &body[api.Retried]{api.Retried{Matched: matched, Retried: retried, Next: next}}, err
}

type runRef struct{ id, thread string }

// findRetriable returns the failed and cancelled runs that a filter matches, oldest first, within
// the rows that one request scans. next is the cursor of the rest, nil at the end.
func (h *runHandlers) findRetriable(ctx context.Context, in api.RetryMany) (oldest []runRef, next *string, err error) {
	f, q, err := parseRunFilter("body.", in.Q)
	if err == nil && f.Empty() {
		err = invalid.Field("body.q", "is empty: filter the runs to retry, such as status:failed", nil)
	}
	if err != nil {
		return nil, nil, err
	}
	who := requestOf(ctx).who
	place := list[*mailroom.Run, api.Run]{name: "retry"}
	if q.From, err = place.parseCursor(h.pages, who, in.Cursor); err != nil {
		return nil, nil, invalid.Field("body.cursor", "is not a cursor of a retry: use next of its previous answer", in.Cursor)
	}
	ended := []mailroom.Status{mailroom.StatusFailed, mailroom.StatusCancelled}
	switch {
	case q.Parent != "" || q.Thread != "": // filtered row by row
	case len(q.Statuses) == 0:
		q.Statuses, q.Agent = ended, ""
	case !slices.Contains(ended, q.Statuses[0]):
		return nil, nil, nil
	}
	q.Oldest, q.Limit, q.Bytes = true, scanPage, scanBytes
	for looked := 0; looked < maxRetryScan; {
		var rows []*mailroom.Run
		var visible map[string]bool
		err := h.find.view(ctx, func(rd store.Reader) (err error) {
			if rows, err = rd.Runs(q); err != nil {
				return err
			}
			var threads []string
			for _, r := range rows {
				threads = append(threads, r.Thread)
			}
			visible, err = visibleThreads(rd, who, threads)
			return err
		})
		if err != nil || len(rows) == 0 {
			return oldest, nil, err
		}
		looked += len(rows)
		for _, r := range rows {
			q.From = r.Key
			if visible[r.Thread] && slices.Contains(ended, r.Status) && f.Match(filterRow(r)) {
				oldest = append(oldest, runRef{r.ID, r.Thread})
			}
		}
	}
	c := place.cursor(h.pages, who, q.From)
	return oldest, &c, nil
}
