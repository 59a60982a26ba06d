package ledger

import (
	"cmp"
	"context"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// claimant returns the limits of a claim for a run of agent.
func (o *Options) claimant(r *thread.ClaimRequest, agent string) thread.Claimant {
	grace := o.StopGrace + o.Lease
	return thread.Claimant{
		Worker: r.Worker, Round: r.Round,
		Limit: cmp.Or(o.Deadline(agent), time.Hour) + grace, StopGrace: grace,
		Longest: cmp.Or(o.LongestAttempt(agent), 24*time.Hour) + grace,
		Retry:   r.Retry.Over(o.Retry(agent)),
	}
}

// endOverruns ends overdue claims, expireBatch at a time, and extends those of self. Overdue claims
// have due columns, so it reads only those.
func (ws Workers) endOverruns(ctx context.Context, self string) error {
	for {
		o := op{name: "overrun", rank: rankClaim, due: []store.Capacity{{Slots: expireBatch}}}
		n, err := run(ctx, ws.ledger, o, func(tx *transaction) (int, error) { return tx.endOverdueClaims(self) })
		if err != nil || n < expireBatch {
			return err
		}
	}
}

// endOverdueClaims returns how many overdue claims it found: expireBatch or more if there may be
// others, also if it stopped after expireBytes of text and uploads.
func (tx *transaction) endOverdueClaims(self string) (int, error) {
	want := store.Capacity{Slots: expireBatch}
	var due []*thread.State
	for _, t := range tx.rows.order {
		if matches(t.Due, want, tx.now()) {
			due = append(due, t)
		}
	}
	others, _, err := tx.rows.loadDue(tx.now(), want)
	if err != nil {
		return 0, err
	}
	due = append(due, others...)
	read := 0
	for _, t := range due {
		if read >= expireBytes {
			return expireBatch, nil
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return 0, err
		}
		if t.Worker != "" && t.Worker == self {
			t.Extend(tx.now().Add(tx.options.StopGrace+tx.options.Lease), tx.now())
			continue
		}
		var text *thread.PartialText
		if t.Current != "" {
			stored, err := tx.rows.stored.Partials(t.Current)
			if err != nil {
				return 0, err
			}
			read += textBytes(stored) + thread.UploadBytes(t)
			text = t.Partials.Text(t.Current, stored)
		}
		t.Revoke(thread.Revoke{Cause: thread.RevokeOverdue, Text: text}, tx.now())
	}
	return len(due), nil
}
