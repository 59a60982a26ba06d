package server

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/client"
	"mailroom/internal/recovery"
)

const (
	// retryMost bounds the runs that one request retries.
	retryMost = 10_000
	// retryAtOnce is how many threads are worked on at a time, so that their
	// retries share commits.
	retryAtOnce = 64
)

type retryRunsInput struct{ Body client.RetryMany }

// retryRuns queues dead letters again, in each thread in the order in which they
// were submitted. A repeat finds only those that are left.
func (s *Server) retryRuns(ctx context.Context, in *retryRunsInput) (*body[client.Retried], error) {
	found, matched, err := s.retriable(ctx, in.Body.Q)
	if err != nil || in.Body.DryRun {
		return &body[client.Retried]{client.Retried{Matched: matched}}, err
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
	group.SetLimit(retryAtOnce)
	for _, thread := range threads {
		group.Go(func() (err error) {
			defer recovery.Error(s.log, "a retry of runs", &err)
			for _, id := range byThread[thread] {
				_, err := s.options.Ledger.Retry(ctx, mailroom.Retry{Run: id, By: by})
				switch mailroom.CodeOf(err) {
				case "":
					mu.Lock()
					retried++
					mu.Unlock()
				case mailroom.Conflict, mailroom.NotFound: // it has changed meanwhile
				default:
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return &body[client.Retried]{client.Retried{Matched: matched, Retried: retried}}, err
}

type runRef struct{ id, thread string }

// retriable finds the failed and cancelled runs that a filter matches: how many
// there are, and the oldest of them, oldest first.
func (s *Server) retriable(ctx context.Context, text string) (oldest []runRef, matched int, err error) {
	f, q, err := runsLike("body.", text)
	if err == nil && f.Empty() {
		err = wrong("body.q", "is empty: say which runs", nil)
	}
	if err != nil {
		return nil, 0, err
	}
	ended := []mailroom.Status{mailroom.Failed, mailroom.Cancelled}
	if q.Statuses == nil {
		q.Statuses = ended
	}
	if !slices.Contains(ended, q.Statuses[0]) {
		return nil, 0, nil
	}
	q.Limit, q.Bytes = scanPage, scanBytes
	for {
		var rows []*mailroom.Run
		var visible map[string]bool
		err := s.options.Ledger.View(ctx, func(rd mailroom.Reader) (err error) {
			if rows, err = rd.Runs(q); err != nil {
				return err
			}
			var threads []string
			for _, r := range rows {
				threads = append(threads, r.Thread)
			}
			visible, err = seen(rd, requestOf(ctx).who, threads)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		for _, r := range rows {
			q.From = r.Key
			if visible[r.Thread] && f.Match(rowOf(r)) {
				matched++
				oldest = append(oldest, runRef{r.ID, r.Thread})
			}
		}
		if n := len(oldest); n > 2*retryMost || len(rows) == 0 {
			oldest = slices.Clone(oldest[max(0, n-retryMost):]) // newer ones come first
		}
		if len(rows) == 0 {
			slices.Reverse(oldest)
			return oldest, matched, nil
		}
	}
}
