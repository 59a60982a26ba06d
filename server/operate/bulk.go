package operate

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
	"mailroom/thread"
)

const (
	// maxBulkScan bounds the runs that one request scans, rounded up to a batch.
	maxBulkScan = 5_000
	// bulkConcurrency is how many threads are changed at a time, so that the operations share commits.
	bulkConcurrency = 64
)

// BulkHandlers serve operations on many runs.
type BulkHandlers struct {
	lists  *ListHandlers // finds the runs
	ledger Runs
	log    *slog.Logger
}

// bulk is an operation on all runs that a filter matches. One request does a bounded part, in each
// thread one run after the other, and returns where the next continues.
type bulk struct {
	name     string            // name of the operation and its cursors
	statuses []mailroom.Status // statuses of the runs that the operation changes
	oldest   bool              // oldest run first, otherwise the newest
	change   func(ctx context.Context, run, by string) error
}

// matched counts the runs that one request of a bulk operation found and changed.
type matched struct {
	found, changed int
	next           *string // cursor of the rest, nil at the end
}

type retryRunsInput struct{ Body api.RetryMany }

// RetryRuns queues failed and cancelled runs again, in each thread in the order of submission.
func (h *BulkHandlers) RetryRuns(ctx context.Context, in *retryRunsInput) (*body[api.Retried], error) {
	done, err := h.changeMany(ctx, in.Body, bulk{
		name: "retry", statuses: []mailroom.Status{mailroom.StatusFailed, mailroom.StatusCancelled}, oldest: true,
		change: func(ctx context.Context, run, by string) error {
			_, err := h.ledger.Retry(ctx, thread.Retry{Run: run, By: by})
			return err
		},
	})
	return &body[api.Retried]{api.Retried{Matched: done.found, Retried: done.changed, Next: done.next}}, err
}

type cancelRunsInput struct{ Body api.CancelMany }

// CancelRuns cancels open runs, in each thread the newest first, so that no queued run starts because
// the one before it was cancelled.
func (h *BulkHandlers) CancelRuns(ctx context.Context, in *cancelRunsInput) (*body[api.CancelledMany], error) {
	done, err := h.changeMany(ctx, api.RetryMany(in.Body), bulk{
		name: "cancel", statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting},
		change: func(ctx context.Context, run, by string) error {
			_, err := h.ledger.Cancel(ctx, run, by)
			return err
		},
	})
	return &body[api.CancelledMany]{api.CancelledMany{Matched: done.found, Cancelled: done.changed, Next: done.next}}, err
}

func (h *BulkHandlers) changeMany(ctx context.Context, in api.RetryMany, b bulk) (matched, error) {
	runs, next, err := h.findMany(ctx, in, b)
	done := matched{found: len(runs), next: next}
	if err != nil || in.DryRun {
		return done, err
	}
	byThread := map[string][]string{}
	var threads []string
	for _, r := range runs {
		if byThread[r.thread] == nil {
			threads = append(threads, r.thread)
		}
		byThread[r.thread] = append(byThread[r.thread], r.id)
	}
	var mu sync.Mutex // owns done.changed
	by := request.CallerOf(ctx).Name
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bulkConcurrency)
	for _, threadID := range threads {
		group.Go(func() (err error) {
			defer recovery.Error(h.log, b.name+" of runs", &err)
			for _, id := range byThread[threadID] {
				err := b.change(ctx, id, by)
				switch mailroom.CodeOf(err) {
				case "":
					mu.Lock()
					done.changed++
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
	return done, err
}

type runRef struct{ id, thread string }

// findMany returns the runs that a filter matches and b changes, in its order, within the rows that
// one request scans. next is the cursor of the rest, nil at the end.
func (h *BulkHandlers) findMany(
	ctx context.Context, in api.RetryMany, b bulk,
) (found []runRef, next *string, err error) {
	who := request.CallerOf(ctx)
	f, conditions, err := parseRunFilter("body.", in.Q, who)
	if err == nil && f.Empty() {
		err = request.Invalid("body.q", "is empty: filter the runs to "+b.name+", such as status:"+string(b.statuses[0]), nil)
	}
	if err != nil {
		return nil, nil, err
	}
	cursors := list[*mailroom.Run, api.Run]{name: b.name}
	from, err := cursors.parseCursor(h.lists.pages, who, in.Cursor)
	if err != nil {
		return nil, nil, request.Invalid("body.cursor",
			"is not a cursor of a "+b.name+": use next of its previous answer", in.Cursor)
	}
	if len(conditions.Statuses) == 0 {
		conditions.Statuses = b.statuses
	}
	others := func(s mailroom.Status) bool { return !slices.Contains(b.statuses, s) }
	conditions.Statuses = slices.DeleteFunc(slices.Clone(conditions.Statuses), others)
	if len(conditions.Statuses) == 0 {
		return nil, nil, nil
	}
	scan, err := h.lists.newRunScan(ctx, f, conditions, b.oldest)
	if err != nil {
		return nil, nil, err
	}
	done, err := scan.read(ctx, h.lists.find, from, maxBulkScan, func(r *mailroom.Run) {
		if slices.Contains(b.statuses, r.Status) {
			found = append(found, runRef{r.ID, r.Thread})
		}
	})
	if err != nil || done.end {
		return found, nil, err
	}
	c := cursors.cursor(h.lists.pages, who, done.last)
	return found, &c, nil
}
