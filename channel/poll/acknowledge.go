package poll

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/store"
	"mailroom/thread"
)

// viewBatch is the number of rows read in one snapshot.
const viewBatch = 200

// A failed delivery is retried after the time it took to fail, within these bounds.
const (
	minRetryAge = time.Minute
	maxRetryAge = 10 * time.Minute
)

// handledRows reports which rows are handled: the run has ended, and its deliveries have too. A
// delivery that the platform refused permanently counts as handled. Other failed deliveries are
// queued again, because the platform has not received them.
func (r *receiver) handledRows(ctx context.Context) (map[pending]bool, error) {
	done := map[pending]bool{}
	var dead []string
	for rows := range slices.Chunk(r.position.Rows, viewBatch) {
		err := r.host.View(ctx, func(rd store.Reader) error {
			runs, err := runsOf(rd, rows)
			if err != nil {
				return err
			}
			for _, p := range rows {
				run := runs[p]
				if run != nil && !run.Status.Finished() {
					continue
				}
				delivered, again, err := r.isDelivered(rd, run)
				if err != nil {
					return err
				}
				done[p] = delivered
				dead = append(dead, again...)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, id := range dead {
		if err := r.host.Retry(ctx, id); err != nil && ctx.Err() == nil {
			r.host.ReportError(err)
		}
	}
	return done, nil
}

// runsOf finds the run of each row. A row has no run if the run was purged or its thread deleted;
// such a row is done.
func runsOf(rd store.Reader, rows []pending) (map[pending]*mailroom.Run, error) {
	keys := map[string][]string{}
	for _, p := range rows {
		keys[p.Thread] = append(keys[p.Thread], p.Key)
	}
	type place struct{ thread, key string }
	at := map[place]string{}
	var ids []string
	for thread, of := range keys {
		known, err := rd.Keys(store.KeyQuery{Thread: thread, Keys: of})
		if err != nil {
			return nil, err
		}
		for _, k := range known {
			at[place{thread, k.Key}] = k.Result.Run
			ids = append(ids, k.Result.Run)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	found, err := rd.Runs(store.RunQuery{IDs: slices.Compact(ids)})
	if err != nil {
		return nil, err
	}
	byID := map[string]*mailroom.Run{}
	for _, run := range found {
		byID[run.ID] = run
	}
	runs := map[pending]*mailroom.Run{}
	for _, p := range rows {
		runs[p] = byID[at[place{p.Thread, p.Key}]]
	}
	return runs, nil
}

// isDelivered reports whether the platform has received or permanently refused the messages
// of a run. again lists the failed deliveries to retry now.
func (r *receiver) isDelivered(rd store.Reader, run *mailroom.Run) (all bool, again []string, err error) {
	if run == nil {
		return true, nil, nil
	}
	children, err := rd.Runs(store.RunQuery{Parent: run.ID})
	if err != nil {
		return false, nil, err
	}
	all, again = deliveriesDone(children, channel.AgentName(r.host.Name()), time.Now())
	return all, again, nil
}

// deliveriesDone evaluates the deliveries among the child runs of a run.
func deliveriesDone(children []*mailroom.Run, agent string, now time.Time) (all bool, again []string) {
	all = true
	for _, c := range children {
		switch {
		case c.Agent != agent || !thread.IsDelivery(c.View()):
		case !c.Status.Finished():
			all = false
		case c.Status == mailroom.StatusFailed && (c.Error == nil || c.Error.Class != mailroom.ClassPermanent):
			all = false
			if lived := c.FinishedAt.Sub(c.CreatedAt); now.Sub(c.FinishedAt) >= min(max(lived, minRetryAge), maxRetryAge) {
				again = append(again, c.ID)
			}
		}
	}
	return all, again
}
