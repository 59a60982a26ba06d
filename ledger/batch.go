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
	"mailroom/internal/recovery"
)

const (
	maxBatch = 256
	maxBytes = 8 << 20
	// largeOp is the size, in bytes, from which on an operation takes the time of many
	// others.
	largeOp  = 256 << 10
	maxLarge = 2 << 20 // bytes of the large operations in one batch, unless the first has more
)

// batchLoad is what a batch carries while it gathers.
type batchLoad struct {
	count, bytes, large int
	noLarge             bool
	blocked             map[string]bool // threads with an operation that waits for a later batch
}

// admit reports whether an operation goes into the batch. One that does not keeps the
// others of its threads behind it.
func (n *batchLoad) admit(o *op) bool {
	fits := n.count < maxBatch && (n.count == 0 || n.bytes+o.size <= maxBytes)
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

// nextBatch moves what has gathered into a batch: renewals before anything else, the
// others as they came, and then by rank; a purge when nothing else waits, and
// alone; and the standing claims for which
// something may be due. Claims alone make a batch only when their time has come.
// Large operations wait while small ones pass, and after a batch with large ones comes
// one without, if there are others: so a small one waits for one large batch at most.
func (l *Ledger) nextBatch(now time.Time) (ops, claims []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.queue, func(a, b *op) int { return cmp.Compare(a.queueRank(), b.queueRank()) })
	if ops = l.gatherBatch(l.wasLarge); len(ops) == 0 {
		ops = l.gatherBatch(false)
	}
	l.inFlight = ops
	slices.SortStableFunc(ops, func(a, b *op) int { return cmp.Compare(a.rank, b.rank) })
	for _, o := range ops {
		if o.onBatch != nil {
			o.onBatch()
		}
	}
	if l.refreshCapacity(); len(ops) > 0 || !l.nextDue(now).After(now) {
		claims, l.claims = l.readyClaims()
	}
	for _, o := range append(slices.Clone(ops), claims...) {
		o.inBatch = true
	}
	return ops, claims
}

// gatherBatch moves operations from the queue into a batch. It is within mu.
func (l *Ledger) gatherBatch(noLarge bool) (ops []*op) {
	n, rest := batchLoad{noLarge: noLarge}, l.queue[:0]
	for i, o := range l.queue {
		if o.rank == rankPurge && i > 0 || n.count == maxBatch || n.count > 0 && ops[0].rank == rankPurge {
			rest = append(rest, l.queue[i:]...)
			break
		}
		if n.admit(o) {
			ops = append(ops, o)
		} else {
			rest = append(rest, o)
		}
	}
	clear(l.queue[len(rest):])
	l.queue, l.wasLarge = rest, n.large > 0
	return ops
}

// queueRank of an operation in the queue: renewals before anything else, a purge
// behind all that waits.
func (o *op) queueRank() int {
	if o.rank == rankClaim {
		return rankPlain
	}
	return o.rank
}

// nextDue is when the standing claims may find something next, as far as is known.
func (l *Ledger) nextDue(now time.Time) time.Time {
	at := now.Add(l.options.Poll)
	if len(l.claims) == 0 {
		return at
	}
	if !l.poll.After(now) {
		clear(l.idle)
		l.poll = now.Add(l.options.Poll)
	}
	at = l.poll
	for _, o := range l.claims {
		if o.claim.Slots <= 0 {
			if o.claim.FairSlots > 0 && l.nextFair.Before(at) {
				at = l.nextFair
			}
			continue
		}
		for _, w := range o.claim.capacities() {
			known, ok := l.idle[w]
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

func (l *Ledger) idleTime(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refreshCapacity()
	return max(l.nextDue(now).Sub(now), 0)
}

// commit makes one transaction of a batch. An operation that the rules refuse
// fails alone. One that cannot be undone by itself, or panics, is taken out and
// the batch begins again. If the database refuses, the operations go one by
// one, so that only the culprit fails. A returned error ends the ledger.
func (l *Ledger) commit(ctx context.Context, ops, claims []*op) error {
	for {
		b := &batch{l: l, ops: ops, claims: claims}
		begin := time.Now()
		err := l.store.Update(ctx, b.run)
		switch {
		case err == nil:
			took := time.Since(begin)
			b.publish()
			b.answer()
			b.reportCommit(took)
			b.l.logSlow("commit", took-b.applied)
			for _, t := range b.order {
				l.cache.put(t)
			}
			for _, p := range b.projects {
				l.reservations.put(p)
			}
			return nil
		case b.culprit != nil:
			l.options.Log.ErrorContext(ctx, "operation taken out of its batch", "operation", b.culprit.name, "error", err)
			l.failAll([]*op{b.culprit}, err)
			ops, claims = without(ops, b.culprit), without(claims, b.culprit)
			if len(ops)+len(claims) == 0 {
				return nil
			}
		case mailroom.CodeOf(err) == mailroom.CodeUnavailable || len(ops)+len(claims) == 1:
			l.failAll(append(slices.Clone(ops), claims...), err)
			if errors.Is(err, mailroom.ErrStoreClosed) {
				return fmt.Errorf("commit: %w", err)
			}
			return nil
		default:
			return l.commitEach(ctx, ops, claims)
		}
	}
}

func (l *Ledger) commitEach(ctx context.Context, ops, claims []*op) error {
	for _, o := range ops {
		if err := l.commit(ctx, []*op{o}, nil); err != nil {
			l.failAll(append(without(ops, o), claims...), err)
			return err
		}
	}
	for i, o := range claims {
		if err := l.commit(ctx, nil, []*op{o}); err != nil {
			l.failAll(claims[i+1:], err)
			return err
		}
	}
	return nil
}

// failAll answers operations whose transaction failed.
func (l *Ledger) failAll(ops []*op, err error) {
	for _, o := range ops {
		if o.claimer != nil {
			o.claimer.Assign(*o.claim, nil, err)
			l.requeueClaim(o)
			continue
		}
		select {
		case o.done <- err:
		default: // answered already
		}
	}
}

// batch is one transaction: what its operations have loaded and changed.
type batch struct {
	l       *Ledger
	ops     []*op
	claims  []*op
	culprit *op // must not be in the next try

	tx      mailroom.Tx
	now     time.Time
	threads map[string]*mailroom.ThreadState
	order   []*mailroom.ThreadState
	wasDue  map[string]mailroom.Due // of the rows as they were locked
	workers map[string]*mailroom.Worker
	tokens  []*mailroom.Token // all there are, once an operation asked for them
	// usedBefore are the rows of threads as they were locked, dropped those that are no
	// longer there, and workersMore what became of the owners' workers.
	usedBefore    map[string]threadUse
	dropped       map[string]bool
	workerChanges map[string]mailroom.Use
	tokensByName  map[string]*mailroom.Token // those asked for by name; nil: there is none
	// Those that an operation asked for, by thread.
	projects map[string]*mailroom.Project
	locked   map[string]revision // of the projects' threads, as they were locked
	changes  mailroom.Changes
	applied  time.Duration // by its operations, without the commit itself
}

// abortBatch marks an error after which the loaded values cannot be trusted.
type abortBatch struct{ error }

func (p abortBatch) Unwrap() error { return p.error }

func (b *batch) run(tx mailroom.Tx) error {
	b.tx, b.now = tx, tx.Now()
	b.threads = map[string]*mailroom.ThreadState{}
	b.wasDue = map[string]mailroom.Due{}
	b.workers = map[string]*mailroom.Worker{}
	b.projects = map[string]*mailroom.Project{}
	b.locked = map[string]revision{}
	b.usedBefore, b.dropped = map[string]threadUse{}, map[string]bool{}
	b.workerChanges, b.tokensByName = map[string]mailroom.Use{}, map[string]*mailroom.Token{}
	if err := b.lock(); err != nil {
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
	if err := b.saveUse(); err != nil {
		return err
	}
	for _, t := range b.order {
		t.Collect(&b.changes)
	}
	for _, p := range b.projects {
		p.Collect(&b.changes)
	}
	b.hint()
	return tx.Write(&b.changes)
}

// lock takes the union of what the operations name, in one step and in order,
// and loads the current runs and the runs named.
func (b *batch) lock() error {
	workers, threads := map[string]bool{}, map[string]bool{}
	for _, o := range append(slices.Clone(b.ops), b.claims...) {
		for _, id := range o.workers {
			workers[id] = true
		}
		for _, id := range o.threads {
			threads[id] = true
		}
	}
	workerIDs, threadIDs := slices.Sorted(maps.Keys(workers)), slices.Sorted(maps.Keys(threads))
	ws, ts, err := b.tx.Lock(workerIDs, threadIDs)
	if err != nil {
		return err
	}
	for i, w := range ws {
		if w != nil {
			b.workers[workerIDs[i]] = w
		}
	}
	if err := b.load(ts); err != nil {
		return err
	}
	var runs []string
	for _, o := range b.ops {
		for _, id := range o.runs {
			if !slices.ContainsFunc(o.threads, func(thread string) bool { return b.threads[thread].Run(id) != nil }) {
				runs = append(runs, id)
			}
		}
	}
	return b.loadRuns(runs)
}

// batchLoad adds locked rows to the batch, with their current runs.
func (b *batch) load(rows []*mailroom.Thread) error {
	var runs []string
	for _, row := range rows {
		t := b.l.cache.pop(row)
		b.threads[row.ID] = t
		b.order = append(b.order, t)
		b.wasDue[row.ID] = row.Due
		if _, ok := mailroom.ProjectOf(row.ID); ok {
			b.locked[row.ID] = revisionOf(row)
		}
		b.usedBefore[row.ID] = useOfThread(row, row.Key != 0)
		if row.Current != "" && t.Run(row.Current) == nil {
			runs = append(runs, row.Current)
		}
	}
	if err := b.loadRuns(runs); err != nil {
		return err
	}
	for _, row := range rows {
		b.threads[row.ID].ReplanAfterClockStep(b.now)
	}
	return nil
}

func (b *batch) loadRuns(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	rows, err := b.tx.Runs(mailroom.RunQuery{IDs: slices.Compact(ids)})
	if err != nil {
		return err
	}
	var asked []string
	for _, r := range rows {
		if t := b.threads[r.Thread]; t != nil && t.Run(r.ID) == nil {
			t.AddRun(r)
			if r.Asked > 0 {
				asked = append(asked, r.ID)
			}
		}
	}
	return b.loadTickets(asked)
}

// loadTickets loads what runs have asked: only those that did cost a query.
func (b *batch) loadTickets(runs []string) error {
	if len(runs) == 0 {
		return nil
	}
	rows, err := b.tx.Tickets(mailroom.TicketQuery{Runs: runs})
	if err != nil {
		return err
	}
	for _, k := range rows {
		b.threads[k.Thread].AddTicket(k)
	}
	return nil
}

// lockThread returns a thread that turned out to be needed, loading it if no
// operation of the batch named it.
func (b *batch) lockThread(id string) (*mailroom.ThreadState, error) {
	if t := b.threads[id]; t != nil {
		return t, nil
	}
	_, rows, err := b.tx.Lock(nil, []string{id})
	if err != nil {
		return nil, err
	}
	if err := b.load(rows); err != nil {
		return nil, err
	}
	return b.threads[id], nil
}

// forward brings what the transitions sent to other threads there, in the same
// transaction: replies to where a thread delivers, ends of runs to who waits
// for them. What arrives may send again.
func (b *batch) forward() error {
	for i := 0; i < len(b.order); i++ {
		sends, ended := b.order[i].Outgoing()
		if len(sends)+len(ended) == 0 {
			continue
		}
		for _, in := range sends {
			if err := b.forwardSubmit(in); err != nil {
				return err
			}
		}
		for _, e := range ended {
			t, err := b.lockThread(e.Thread)
			if err != nil {
				return err
			}
			if err := b.loadRuns([]string{e.Run}); err != nil {
				return err
			}
			if err := b.ensure(t, mailroom.ScopeHead); err != nil {
				return err
			}
			t.OnChildEnd(e, b.now)
		}
		i = -1 // what arrived may have sent to a thread that was passed
	}
	return nil
}

func (b *batch) forwardSubmit(in mailroom.Submit) error {
	if _, err := b.lockThread(in.Thread); err != nil {
		return err
	}
	if err := in.Check(); err != nil {
		return err
	}
	_, err := b.submit(in)
	switch mailroom.CodeOf(err) {
	case mailroom.CodeNotFound, mailroom.CodeForbidden: // it is somebody else's, or for somebody else to make
		b.l.options.Log.Warn("a delivery was dropped: its thread belongs to another owner", "run", in.Parent)
		return nil
	}
	return err
}

// apply runs one operation. Only what must end this try comes back as an error.
func (b *batch) apply(o *op) (fatal error) {
	begin := time.Now()
	defer func() {
		took := time.Since(begin)
		b.applied += took
		b.l.logSlow(o.name, took)
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
			o.err = abortBatch{err} // its own changes are made already
		}
	}
	var bad abortBatch
	switch {
	case o.err == nil:
		return nil
	case errors.As(o.err, &bad):
		b.culprit = o
		return bad.error
	case isRefusal(o.err):
		return nil
	}
	return o.err
}

// isRefusal tells a rule's no from a failure of the store.
func isRefusal(err error) bool {
	code := mailroom.CodeOf(err)
	return code != mailroom.CodeInternal && code != mailroom.CodeUnavailable
}

// thread returns a thread that the operation named, existing or not.
func (b *batch) thread(id string) *mailroom.ThreadState { return b.threads[id] }

// ensure loads as much of t's queue as a transition of this scope looks at.
func (b *batch) ensure(t *mailroom.ThreadState, s mailroom.Scope) error {
	for {
		queue, held := t.RowsNeeded(s, b.now)
		if queue == 0 && held == 0 {
			return nil
		}
		if err := b.fill(t, mailroom.RunsScheduled, held); err != nil {
			return err
		}
		if err := b.fill(t, mailroom.RunsQueued, queue); err != nil {
			return err
		}
	}
}

func (b *batch) fill(t *mailroom.ThreadState, set mailroom.RunSet, n int) error {
	if n == 0 {
		return nil
	}
	q := mailroom.RunQuery{Thread: t.ID, Set: set, Limit: n}
	if n > maxBatch*maxBatch {
		q.Limit = 0
	}
	rows, err := b.tx.Runs(q)
	if err != nil {
		return err
	}
	t.SetQueue(set, rows, q.Limit == 0 || len(rows) < n)
	return nil
}

// worker returns a worker that may still claim and renew.
func (b *batch) worker(id string) (*mailroom.Worker, error) {
	w := b.workers[id]
	if w == nil || w.Dead {
		return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "the lease of worker %s has ended", id)
	}
	return w, nil
}

func (b *batch) saveWorker(w *mailroom.Worker) {
	b.workers[w.ID] = w
	b.changes.Workers = slices.DeleteFunc(b.changes.Workers, func(x *mailroom.Worker) bool { return x.ID == w.ID })
	b.changes.Workers = append(b.changes.Workers, w)
}

// hint notes for the standing claims what this batch leaves to be done.
func (b *batch) hint() {
	for _, t := range b.order {
		d := t.Due
		if d.At.IsZero() {
			continue
		}
		w := mailroom.Capacity{Agent: d.Agent, LastAttempt: d.LastAttempt}
		if known, ok := b.l.idle[w]; ok && d.At.Before(known) {
			b.l.idle[w] = d.At
		}
	}
}

func (b *batch) publish() {
	for _, t := range b.order {
		if e := t.Entries(); len(e) > 0 {
			b.l.options.Publish(t.ID, e)
		}
	}
}

// answer tells the takers, so that what is due starts at once and before
// anything later is published, and the callers. A claim that found nothing, and
// a taker, goes on standing.
func (b *batch) answer() {
	for _, o := range b.claims {
		switch {
		case o.claimer != nil:
			o.claimer.assign(o)
			b.l.requeueClaim(o)
		case o.err != nil || o.claim.found > 0 || !b.l.requeueClaim(o):
			o.done <- o.err
		}
	}
	for _, o := range b.ops {
		o.done <- o.err
	}
}
