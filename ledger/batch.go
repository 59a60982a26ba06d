package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// commit runs a batch as one transaction. If a rule refuses an operation, only that operation fails. An operation
// that panics, or that cannot be undone by itself, is removed, and the batch runs again without it. Operations on
// threads that another server holds are removed too, and tried later. If the database refuses the batch, the
// operations run one by one, so that only the faulty one fails. A batch that drops many bytes is committed in several
// transactions. A returned error ends the ledger.
func (c *committer) commit(ctx context.Context, g gathered) error {
	for g.len() > 0 {
		b := &batch{c: c, waiting: g}
		begin := time.Now()
		err := c.store.Update(ctx, b.run)
		switch {
		case err == nil:
			took := time.Since(begin)
			b.waiting, g = g.cut(b.tried)
			b.publish()
			b.answer()
			b.reportCommit(took)
			c.logSlow("commit", took-b.applied)
			b.keep()
		case b.culprit != nil:
			c.options.Log.ErrorContext(ctx, "operation failed inside its batch; its caller gets the error",
				"operation", b.culprit.name, "error", err)
			c.failAll([]*op{b.culprit}, err)
			g = g.without(b.culprit)
		case isLocked(err) && len(g.ops) > 0:
			rest := b.postpone(err)
			if len(rest) == len(g.ops) { // an operation needs a locked thread that it did not name
				return c.commitEach(ctx, g)
			}
			g.ops = rest
		case mailroom.CodeOf(err) == mailroom.CodeUnavailable || g.len() == 1:
			clear(c.forecast.idle) // the batch may be committed
			c.failAll(g.all(), err)
			if errors.Is(err, store.ErrClosed) {
				return fmt.Errorf("commit: %w", err)
			}
			return nil
		default:
			return c.commitEach(ctx, g)
		}
	}
	return nil
}

func (c *committer) commitEach(ctx context.Context, g gathered) error {
	for _, o := range g.ops {
		if err := c.commit(ctx, gathered{ops: []*op{o}}); err != nil {
			c.failAll(append(without(g.ops, o), g.claims...), err)
			return err
		}
	}
	for i, o := range g.claims {
		if err := c.commit(ctx, gathered{claims: []*op{o}}); err != nil {
			c.failAll(g.claims[i+1:], err)
			return err
		}
	}
	return nil
}

// failAll answers the operations of a failed transaction.
func (c *committer) failAll(ops []*op, err error) {
	for _, o := range ops {
		if o.claimer != nil {
			o.claimer.OnClaimed(*o.claim, nil, err)
			c.requeueClaim(o)
			continue
		}
		select {
		case o.done <- err:
		default: // already answered
		}
	}
}

// batch is one transaction of the committer. It keeps the operations that wait for an answer apart from the rows
// that were read and changed for them, because the rows are made again when the store repeats the transaction.
type batch struct {
	c       *committer
	waiting gathered
	tx      *transaction // of the last try

	tried   int            // operations and claims that the last try applied, the first ones of waiting
	culprit *op            // operation that failed the last try; removed before the next one
	written *store.Changes // by the last try
	applied time.Duration  // time to apply the operations, without the commit
}

// gathered is the work of the next batch: the operations that the committer took from its queue, and the claims of
// workers. The claims come last, so that they find the runs that the operations make due. The callers wait until
// the batch is committed.
type gathered struct {
	ops, claims []*op
}

func (g gathered) all() []*op { return append(slices.Clone(g.ops), g.claims...) }

func (g gathered) len() int { return len(g.ops) + len(g.claims) }

// cut returns the first n operations and claims, and the others.
func (g gathered) cut(n int) (first, others gathered) {
	ops := min(n, len(g.ops))
	return gathered{g.ops[:ops], g.claims[:n-ops]}, gathered{g.ops[ops:], g.claims[n-ops:]}
}

func (g gathered) without(o *op) gathered { return gathered{without(g.ops, o), without(g.claims, o)} }

// abortBatch marks an error after which the loaded values are inconsistent: the batch must run
// again without the operation.
type abortBatch struct{ error }

func (p abortBatch) Unwrap() error { return p.error }

// run is the function of the store's transaction, which may be called again.
func (b *batch) run(tx store.Tx) error {
	b.c.checkEpoch()
	b.tx, b.tried, b.culprit, b.written, b.applied = b.c.newTransaction(tx), 0, nil, nil, 0
	all := b.waiting.all()
	if err := b.c.labels.load(tx); err != nil {
		return err
	}
	if err := b.c.options.Budgets.owners.refresh(tx, b.c.options.Budgets.Reread); err != nil {
		return err
	}
	if err := b.tx.rows.loadOperations(all, b.tx.expectedWants(all), expectedMeters(b.tx, all)); err != nil {
		return err
	}
	// What an operation drops is known only after it: the names of a step may be those of blobs of any size.
	for dropped := int64(0); b.tried < len(all) && dropped <= dropBytes; b.tried++ {
		o := all[b.tried]
		before := b.tx.droppedBytes(o)
		if err := b.apply(o); err != nil {
			return err
		}
		dropped += b.tx.droppedBytes(o) - before
	}
	if err := recount(b.tx); err != nil {
		return err
	}
	b.written = b.tx.collect()
	b.hint()
	if b.written.Empty() {
		return nil // a sweep or a claim that found nothing must not cost a sync
	}
	return tx.Write(b.written)
}

func (c *committer) newTransaction(tx store.Tx) *transaction {
	return &transaction{
		options: &c.options, rows: newRows(tx, c), changes: newChanges(),
		forecast: forecast{idle: maps.Clone(c.forecast.idle), limited: maps.Clone(c.forecast.limited),
			noticed: maps.Clone(c.forecast.noticed), barred: maps.Clone(c.forecast.barred),
			nextFair: c.forecast.nextFair},
		freed: map[string]bool{}, gates: map[string]bool{}, missed: map[string]int{}, tried: map[string]int{},
		full:         map[string]bool{},
		clockStepped: &c.clockStepped,
	}
}

// checkEpoch drops the kept rows if the store may have lost or missed commits since they were read.
func (c *committer) checkEpoch() {
	if epoch := c.store.Epoch(); epoch != c.epoch {
		c.epoch = epoch
		c.cache, c.reservations = newThreadCache(), reservationCache{}
		clear(c.forecast.idle)
	}
}

// apply runs one operation. It returns only errors that must end this try of the batch.
func (b *batch) apply(o *op) (fatal error) {
	begin := time.Now()
	defer func() {
		took := time.Since(begin)
		b.applied += took
		b.c.logSlow(o.name, took)
		if v := recover(); v != nil {
			p := recovery.NewPanic(v)
			b.culprit = o
			fatal = &mailroom.Error{
				Code:    mailroom.CodeInternal,
				Message: "operation " + o.name + " failed",
				Cause:   fmt.Errorf("%w\n%s", p, p.Stack),
			}
		}
	}()
	o.err = b.c.apply(o, b.tx)
	if o.err == nil {
		if err := b.tx.forward(); err != nil {
			o.err = abortBatch{err} // the operation's own changes are already made
		}
	}
	var bad abortBatch
	switch {
	case o.err == nil:
		return nil
	case errors.As(o.err, &bad):
		storesFault := mailroom.CodeOf(bad.error) == mailroom.CodeUnavailable || isLocked(bad.error)
		if !storesFault {
			b.culprit = o
		}
		return bad.error
	case isRefusal(o.err):
		return nil
	}
	return o.err
}

// isRefusal reports whether err is a refusal by a rule, not a failure of the store.
func isRefusal(err error) bool {
	code := mailroom.CodeOf(err)
	return code != mailroom.CodeInternal && code != mailroom.CodeUnavailable
}

// hint updates the known due times with what this batch leaves due.
func (b *batch) hint() {
	for _, t := range b.tx.rows.order {
		d := t.Due
		if d.At.IsZero() {
			continue
		}
		w := store.Capacity{Agent: d.Agent, LastAttempt: d.LastAttempt}
		agent, _ := thread.ParseDueAgent(d.Agent)
		if b.tx.forecast.limited[agent].After(b.tx.now()) || b.tx.full[t.Owner] {
			continue // it starts no run now, and restFull and leaveOutLimited have noted when it may
		}
		if known, ok := b.tx.forecast.idle[w]; ok && d.At.Before(known) {
			b.tx.forecast.idle[w] = d.At
		}
	}
}

// keep keeps the rows that the next batches may use, after the commit.
func (b *batch) keep() {
	b.c.forecast = b.tx.forecast
	tryMissed(b.c, b.tx)
	for _, t := range b.tx.rows.order {
		b.c.cache.put(t)
	}
	for _, p := range b.tx.rows.projects {
		b.c.reservations.put(p)
	}
}

func (b *batch) publish() {
	for _, t := range b.tx.rows.order {
		e := t.Entries()
		if len(e) == 0 {
			continue
		}
		b.c.options.Publish(t.ID, e)
		_, waits := thread.GateAgent(t.Due.Agent)
		if d := t.Due; !waits && !d.At.IsZero() && !d.At.After(b.tx.now()) {
			b.c.announceDue(d.Agent)
		}
	}
	for agent := range b.tx.freed { // another server or lane may have a slot for the next run
		b.c.announceDue(agent)
	}
}

// answer answers the claimers first, so that due runs start at once and before later entries are
// published, and then the callers. A waiting claim without a result, and every claimer's claim, are
// requeued.
func (b *batch) answer() {
	for _, o := range b.waiting.claims {
		switch {
		case o.claimer != nil:
			o.claimer.onClaimed(o)
			b.c.requeueClaim(o)
		case o.err != nil || o.found > 0 || !b.c.requeueClaim(o):
			o.done <- o.err
		}
	}
	for _, o := range b.waiting.ops {
		o.done <- o.err
	}
}
