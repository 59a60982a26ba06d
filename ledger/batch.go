package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/recovery"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

const (
	maxBatch = 256
	maxBytes = 8 << 20
	// largeOp is the size in bytes from which an operation counts as large.
	largeOp  = 256 << 10
	maxLarge = 2 << 20 // bytes of large operations in one batch, unless the first is larger
)

// batchLoad sums up a batch while it is formed.
type batchLoad struct {
	count, bytes, large int
	noLarge             bool
	blocked             map[string]bool // threads with an operation left for a later batch
}

// admit reports whether an operation fits into the batch, and adds it. An operation that does not
// fit, or waits for a lock, blocks later operations of its threads, to keep their order.
func (n *batchLoad) admit(o *op, now time.Time) bool {
	fits := n.count < maxBatch && (n.count == 0 || n.bytes+o.size <= maxBytes) && !o.retryAt.After(now)
	if o.size >= largeOp {
		fits = fits && !n.noLarge && (n.large == 0 || n.large+o.size <= maxLarge)
	}
	for _, id := range o.threads {
		fits = fits && !n.blocked[id]
	}
	if !fits {
		if n.blocked == nil {
			n.blocked = map[string]bool{}
		}
		for _, id := range o.threads {
			n.blocked[id] = true
		}
		return false
	}
	n.count++
	n.bytes += o.size
	if o.size >= largeOp {
		n.large += o.size
	}
	return true
}

// nextBatch forms a batch. Renewals come first, then operations in order of arrival. A purge runs
// alone, when nothing else is queued or it has waited for purgePatience. Waiting claims join if work
// may be due; they form a batch of their own only when their time has come. Small operations pass
// large ones, and a batch with large operations is followed by one without if others are queued, so
// a small operation waits for one large batch at most.
func (c *committer) nextBatch(now time.Time) (ops, claims []*op) {
	ops = c.dequeue(now)
	for _, o := range ops {
		if o.onBatch != nil {
			o.onBatch()
			o.onBatch = nil // a postponed operation enters another batch
		}
	}
	c.refreshCapacity()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ops) > 0 || !c.nextDue(now).After(now) {
		claims, c.claims = c.splitReady(c.claims)
	}
	for _, o := range claims {
		o.inBatch = true
	}
	return ops, claims
}

// dequeue returns the operations of the next batch, in the order in which they are applied.
func (c *committer) dequeue(now time.Time) (ops []*op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.queue, func(a, b *op) int { return cmp.Compare(a.queueRank(now), b.queueRank(now)) })
	if ops = c.gatherBatch(now, c.wasLarge); len(ops) == 0 {
		ops = c.gatherBatch(now, false)
	}
	slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.rank, b.rank) })
	for _, o := range ops {
		o.inBatch = true
	}
	c.inFlight = ops
	return ops
}

// gatherBatch moves operations from the queue into a batch. The caller holds mu.
func (c *committer) gatherBatch(now time.Time, noLarge bool) (ops []*op) {
	n, rest := batchLoad{noLarge: noLarge}, c.queue[:0]
	for i, o := range c.queue {
		if o.rank == rankPurge && i > 0 || n.count == maxBatch || n.count > 0 && ops[0].rank == rankPurge {
			rest = append(rest, c.queue[i:]...)
			break
		}
		if n.admit(o, now) {
			ops = append(ops, o)
		} else {
			rest = append(rest, o)
		}
	}
	clear(c.queue[len(rest):])
	c.queue, c.wasLarge = rest, n.large > 0
	return ops
}

// queueRank returns the operation's rank in the queue: renewals first, purges last, except one that
// has waited long.
func (o *op) queueRank(now time.Time) int {
	if o.rank == rankClaim || o.rank == rankPurge && now.Sub(o.queued) > purgePatience {
		return rankPlain
	}
	return o.rank
}

// nextDue returns when the waiting claims may next find due work, as far as is known.
func (c *committer) nextDue(now time.Time) time.Time {
	c.forgetIdle()
	if len(c.claims) == 0 {
		return now.Add(time.Hour) // a new claim wakes the committer
	}
	if !c.poll.After(now) {
		clear(c.idle)
		c.poll = now.Add(c.options.Poll)
	}
	at := c.poll
	for _, o := range c.claims {
		if o.claim.Slots <= 0 {
			if o.claim.FairSlots > 0 && c.nextFair.Before(at) {
				at = c.nextFair
			}
			continue
		}
		for _, w := range c.options.capacities(o.claim) {
			known, ok := c.idle[w]
			if !ok {
				return now
			}
			if known.Before(at) {
				at = known
			}
		}
	}
	return at
}

func (c *committer) idleTime(now time.Time) time.Duration {
	c.refreshCapacity()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.nextDue(now)
	for _, o := range c.queue { // operations that wait for a lock, and those behind them
		if !o.retryAt.IsZero() && o.retryAt.Before(at) {
			at = o.retryAt
		}
	}
	return max(at.Sub(now), 0)
}

// commit runs a batch as one transaction. An operation that a rule refuses fails alone. One that
// panics or cannot be undone by itself is removed, and the batch runs again. So are operations on
// threads that another server holds; they are tried later. If the database refuses the batch, the
// operations run one by one, so that only the faulty one fails. A returned error ends the ledger.
func (c *committer) commit(ctx context.Context, ops, claims []*op) error {
	for {
		b := &batch{c: c, ops: ops, claims: claims}
		begin := time.Now()
		err := c.store.Update(ctx, b.run)
		switch {
		case err == nil:
			took := time.Since(begin)
			b.publish()
			b.answer()
			b.reportCommit(took)
			b.c.logSlow("commit", took-b.applied)
			b.keep()
			return nil
		case b.culprit != nil:
			c.options.Log.ErrorContext(ctx, "operation failed inside its batch; its caller gets the error", "operation", b.culprit.name, "error", err)
			c.failAll([]*op{b.culprit}, err)
			ops, claims = without(ops, b.culprit), without(claims, b.culprit)
			if len(ops)+len(claims) == 0 {
				return nil
			}
		case isLocked(err) && len(ops) > 0:
			rest := b.postpone(err)
			if len(rest) == len(ops) { // an operation needs a locked thread that it did not name
				return c.commitEach(ctx, ops, claims)
			}
			if ops = rest; len(ops)+len(claims) == 0 {
				return nil
			}
		case mailroom.CodeOf(err) == mailroom.CodeUnavailable || len(ops)+len(claims) == 1:
			clear(c.idle) // the batch may be committed
			c.failAll(append(slices.Clone(ops), claims...), err)
			if errors.Is(err, store.ErrClosed) {
				return fmt.Errorf("commit: %w", err)
			}
			return nil
		default:
			return c.commitEach(ctx, ops, claims)
		}
	}
}

func (c *committer) commitEach(ctx context.Context, ops, claims []*op) error {
	for _, o := range ops {
		if err := c.commit(ctx, []*op{o}, nil); err != nil {
			c.failAll(append(without(ops, o), claims...), err)
			return err
		}
	}
	for i, o := range claims {
		if err := c.commit(ctx, nil, []*op{o}); err != nil {
			c.failAll(claims[i+1:], err)
			return err
		}
	}
	return nil
}

// failAll answers the operations of a failed transaction.
func (c *committer) failAll(ops []*op, err error) {
	for _, o := range ops {
		if o.claimer != nil {
			o.claimer.Assign(*o.claim, nil, err)
			c.requeueClaim(o)
			continue
		}
		select {
		case o.done <- err:
		default: // already answered
		}
	}
}

// batch is one transaction: its operations, and what they loaded and changed.
type batch struct {
	c       *committer
	ops     []*op
	claims  []*op
	culprit *op // removed before the next try

	// The rest is empty when the store calls the batch's function, the first time or again.
	rows rows
	// dropped are the deleted threads, workerChanges the changes to the use of workers by owner.
	dropped       map[string]bool
	workerChanges map[string]auth.Use
	projects      map[string]*project.State // loaded projects, by thread
	moved         movedCursors
	changes       store.Changes
	applied       time.Duration // time to apply the operations, without the commit
	// idle and nextFair replace those of the Ledger once the batch is committed.
	idle     map[store.Capacity]time.Time
	nextFair time.Time
}

// abortBatch marks an error after which the loaded values are inconsistent: the batch must run
// again without the operation.
type abortBatch struct{ error }

func (p abortBatch) Unwrap() error { return p.error }

func (b *batch) run(tx store.Tx) error {
	b.checkEpoch()
	*b = batch{
		c: b.c, ops: b.ops, claims: b.claims, rows: newRows(tx, &b.c.cache),
		dropped: map[string]bool{}, workerChanges: map[string]auth.Use{},
		projects: map[string]*project.State{}, idle: maps.Clone(b.c.idle), nextFair: b.c.nextFair,
	}
	all := append(slices.Clone(b.ops), b.claims...)
	if err := b.rows.loadOperations(all, b.expectedWants(all)); err != nil {
		return err
	}
	for _, o := range b.ops {
		if err := b.apply(o); err != nil {
			return err
		}
	}
	for _, o := range b.claims {
		if err := b.apply(o); err != nil {
			return err
		}
	}
	b.saveUse()
	for _, t := range b.rows.order {
		t.Collect(&b.changes)
	}
	for _, p := range b.projects {
		p.Collect(&b.changes)
	}
	b.changes.Cursors = b.moved.collect()
	b.changes.Summaries = store.SumUp(b.changes.Summaries)
	b.hint()
	if b.changes.Empty() {
		return nil // a sweep or a claim that found nothing must not cost a sync
	}
	return tx.Write(&b.changes)
}

// checkEpoch drops the kept rows if the store may have lost or missed commits since they were read.
func (b *batch) checkEpoch() {
	c := b.c
	if epoch := c.store.Epoch(); epoch != c.epoch {
		c.epoch = epoch
		c.cache, c.reservations = newThreadCache(), reservationCache{}
		clear(c.idle)
	}
}

// forward applies, in the same transaction, what the transitions send to other threads: deliveries,
// and ends of runs that others wait for. These may send in turn.
func (b *batch) forward() error {
	for i := 0; i < len(b.rows.order); i++ {
		sends, ended := b.rows.order[i].Outbox.Take()
		if len(sends)+len(ended) == 0 {
			continue
		}
		for _, in := range sends {
			if err := b.forwardSubmit(in); err != nil {
				return err
			}
		}
		for _, e := range ended {
			t, err := b.rows.lock(e.Thread)
			if err != nil {
				return err
			}
			if t.Run(e.Run) == nil {
				if err := b.rows.loadRuns(e.Run); err != nil {
					return err
				}
			}
			if err := b.rows.ensure(t, thread.ScopeHead); err != nil {
				return err
			}
			t.OnChildEnd(e, b.rows.now)
		}
		i = -1 // start over: an earlier thread may have sent again
	}
	return nil
}

func (b *batch) forwardSubmit(in thread.Submit) error {
	if _, err := b.rows.lock(in.Thread); err != nil {
		return err
	}
	if err := in.Check(); err != nil {
		return err
	}
	_, err := b.submit(in, false)
	switch mailroom.CodeOf(err) {
	case mailroom.CodeNotFound, mailroom.CodeForbidden: // another owner has it or may create it
		b.c.options.Log.Warn("message of a run dropped: its target thread belongs to another owner", "run", in.Parent, "target", in.Thread)
		return nil
	}
	return err
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
	o.err = o.apply(b)
	if o.err == nil {
		if err := b.forward(); err != nil {
			o.err = abortBatch{err} // the operation's own changes are already made
		}
	}
	var bad abortBatch
	switch {
	case o.err == nil:
		return nil
	case errors.As(o.err, &bad):
		if mailroom.CodeOf(bad.error) != mailroom.CodeUnavailable && !isLocked(bad.error) { // the store's failure, not the operation's
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

func (b *batch) saveWorker(w *store.Worker) {
	b.rows.workers[w.ID] = w
	b.changes.Workers = slices.DeleteFunc(b.changes.Workers, func(x *store.Worker) bool { return x.ID == w.ID })
	b.changes.Workers = append(b.changes.Workers, w)
}

// hint updates the known due times with what this batch leaves due.
func (b *batch) hint() {
	for _, t := range b.rows.order {
		d := t.Due
		if d.At.IsZero() {
			continue
		}
		w := store.Capacity{Agent: d.Agent, LastAttempt: d.LastAttempt}
		if known, ok := b.idle[w]; ok && d.At.Before(known) {
			b.idle[w] = d.At
		}
	}
}

// keep keeps, after the commit, what the next batches may use.
func (b *batch) keep() {
	b.c.idle, b.c.nextFair = b.idle, b.nextFair
	for _, t := range b.rows.order {
		b.c.cache.put(t)
	}
	for _, p := range b.projects {
		b.c.reservations.put(p)
	}
}

func (b *batch) publish() {
	for _, t := range b.rows.order {
		e := t.Entries()
		if len(e) == 0 {
			continue
		}
		b.c.options.Publish(t.ID, e)
		if d := t.Due; !d.At.IsZero() && !d.At.After(b.rows.now) {
			b.c.announceDue(d.Agent)
		}
	}
}

// answer answers the claimers first, so that due runs start at once and before later entries are
// published, and then the callers. A waiting claim without a result, and every claimer's claim, are
// requeued.
func (b *batch) answer() {
	for _, o := range b.claims {
		switch {
		case o.claimer != nil:
			o.claimer.assign(o)
			b.c.requeueClaim(o)
		case o.err != nil || o.found > 0 || !b.c.requeueClaim(o):
			o.done <- o.err
		}
	}
	for _, o := range b.ops {
		o.done <- o.err
	}
}
