package poll

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel"
)

// viewBatch is how many rows are looked at in one snapshot.
const viewBatch = 200

// Pauses before a delivery that died, other than of a refusal, is tried again: as
// long as it took to die, within these.
const (
	minRetryAge = time.Minute
	maxRetryAge = 10 * time.Minute
)

// handledRows finds out which rows are handled: their run has ended, and so has the
// delivery of what it said. A delivery that the platform has refused for good is
// a dead letter and handled too; one that died of anything else is put back in
// its queue, since the platform has not had it.
func (r *receiver) handledRows(ctx context.Context) (map[pending]bool, error) {
	done := map[pending]bool{}
	var dead []string
	for rows := range slices.Chunk(r.position.Rows, viewBatch) {
		err := r.host.View(ctx, func(rd mailroom.Reader) error {
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

// runsOf finds the run of each row. A row without one was purged, or its thread was
// deleted: there is nothing left to do for it.
func runsOf(rd mailroom.Reader, rows []pending) (map[pending]*mailroom.Run, error) {
	keys := map[string][]string{}
	for _, p := range rows {
		keys[p.Thread] = append(keys[p.Thread], p.Key)
	}
	type place struct{ thread, key string }
	at := map[place]string{}
	var ids []string
	for thread, of := range keys {
		known, err := rd.Keys(thread, of)
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
	found, err := rd.Runs(mailroom.RunQuery{IDs: slices.Compact(ids)})
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

// isDelivered reports whether all that a run said has reached the platform, or was
// refused by it for good. again are deliveries that died of something else, some
// time ago.
func (r *receiver) isDelivered(rd mailroom.Reader, run *mailroom.Run) (all bool, again []string, err error) {
	if run == nil {
		return true, nil, nil
	}
	children, err := rd.Runs(mailroom.RunQuery{Parent: run.ID})
	if err != nil {
		return false, nil, err
	}
	all, again = deliveriesDone(children, channel.AgentName(r.host.Name()), time.Now())
	return all, again, nil
}

// deliveriesDone judges the deliveries among the runs that descend from one.
func deliveriesDone(children []*mailroom.Run, agent string, now time.Time) (all bool, again []string) {
	all = true
	for _, c := range children {
		switch {
		case c.Agent != agent || !c.IsDelivery():
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
