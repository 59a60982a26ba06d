package ledger

import (
	"cmp"
	"slices"
	"time"
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
func (c *committer) nextBatch(now time.Time) (g gathered) {
	g.ops = c.dequeue(now)
	for _, o := range g.ops {
		if o.onBatch != nil {
			o.onBatch()
			o.onBatch = nil // a postponed operation enters another batch
		}
	}
	c.askClaimers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(g.ops) > 0 || !c.nextDue(now).After(now) {
		g.claims, c.claims = c.splitReady(c.claims)
	}
	for _, o := range g.claims {
		o.inBatch = true
	}
	return g
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
		clear(c.forecast.idle)
		clear(c.forecast.barred)
		c.poll = now.Add(c.options.Poll)
	}
	at := c.poll
	for _, o := range c.claims {
		if o.claim.Slots <= 0 {
			if o.claim.FairSlots > 0 && c.forecast.nextFair.Before(at) {
				at = c.forecast.nextFair
			}
			continue
		}
		for _, w := range c.wants(o) {
			if until, barred := c.forecast.barredUntil(w, o.claim.Worker, now); barred {
				if until.Before(at) {
					at = until
				}
				continue
			}
			known, ok := c.forecast.idle[w]
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
	c.askClaimers()
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
