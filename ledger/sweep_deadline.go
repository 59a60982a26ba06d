package ledger

import (
	"context"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// endDeadlines ends the runs whose deadline has passed, expireBatch at a time. The store finds them by their
// deadlines, so runs without one cost nothing, and neither do runs that have ended.
func (ws Workers) endDeadlines(ctx context.Context) error {
	for {
		var overdue []*mailroom.Run
		err := ws.ledger.View(ctx, func(r store.Reader) (err error) {
			overdue, err = r.Runs(store.RunQuery{Overdue: r.Now(), Limit: expireBatch})
			return err
		})
		if err != nil || len(overdue) == 0 {
			return err
		}
		o := op{name: "deadline", rank: rankPlain, queues: true}
		for _, r := range overdue {
			o.threads, o.runs = append(o.threads, r.Thread), append(o.runs, r.ID)
		}
		err = perform(ctx, ws.ledger, o, func(tx *transaction) error { return tx.endDeadlines(overdue) })
		if err != nil || len(overdue) < expireBatch {
			return err
		}
	}
}

func (tx *transaction) endDeadlines(overdue []*mailroom.Run) error {
	for _, r := range overdue {
		t := tx.rows.thread(r.Thread)
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return err
		}
		thread.EndOverdue(t, r.ID, tx.now())
	}
	return nil
}
