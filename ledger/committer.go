package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// op is one operation that waits for the committer.
type op struct {
	name string
	rank int // order within a batch: renewals, everything else, claims
	size int // size in bytes
	// What the operation reads is loaded before it, in one step with the other operations.
	topics  []string
	workers []string
	threads []string
	queues  bool     // with the heads of the threads' queues
	runs    []string // besides the current ones
	keys    []store.KeyRef
	tokens  []string // names
	due     []store.Capacity
	pauses  bool // the operation reads the pauses of agents; claims always do
	audits  bool // what a caller does with the operation is recorded in the audit log
	claim   *thread.ClaimRequest
	found   int            // runs claimed; owned by the goroutine of run
	claimer *servedClaimer // owner of a waiting claim; nil: a caller waits for done

	// apply runs the transitions. It runs again if the batch does.
	apply func(tx *transaction) error
	// onBatch is called when the operation enters a batch, before the claimers are asked for
	// capacity.
	onBatch func()

	// Owned by committer.mu.
	inBatch   bool             // the operation is in a batch
	abandoned bool             // the caller's context has ended
	queued    time.Time        // when it was enqueued
	wanted    []store.Capacity // see committer.wants

	// Owned by the goroutine of run. retryAt is when an operation whose threads another server
	// holds is tried again, lockedSince when it first met them locked; zero: not locked.
	retryAt, lockedSince time.Time

	err  error      // owned by the goroutine of run until done is sent
	done chan error // gets the result; one slot
}

const (
	rankRenew = iota
	rankPlain
	rankClaim
	rankPurge // runs only when no other operation is queued, or after purgePatience
)

// purgePatience is how long a purge lets all other operations pass. After that it has its turn, so that
// a server at full load keeps up with its retention.
const purgePatience = 20 * time.Millisecond

// committer forms batches of operations, commits them and answers the operations.
//
// A commit waits for the disk, which takes longer than the operations in it. So one goroutine commits all operations
// that arrived during the last commit, and the load decides how many these are. With a transaction for each caller,
// each one would wait for a sync of its own, and callers that write one thread for the locks of each other. No timer
// waits for a batch to fill: it delays a lone caller by its length, and under load the next batch is full anyhow.
type committer struct {
	store   store.Store
	options Options
	others  []*committer // committers of the other lanes
	begun   *firstRead   // of all lanes
	labels  *labels      // of all lanes; nil: no label is set

	// Owned by mu.
	mu     sync.Mutex
	queue  []*op               // operations that are not in a batch yet
	claims []*op               // waiting claims, oldest first
	closed error               // set once; no operation is accepted after that
	nudged map[string]struct{} // agents for which the forecast is cleared; "": all

	// clockStepped is set when a worker's row shows that the clock stepped back. The next sweep
	// then reschedules.
	clockStepped atomic.Bool

	wake chan struct{} // one slot: the queue or the claims changed

	// Owned by the goroutine of run.
	inFlight []*op // operations of the current batch, answered if the committer panics
	// wasLarge reports that the last batch had large operations.
	wasLarge bool
	forecast forecast  // forecast after the last batch
	poll     time.Time // when forecast.idle is cleared
	epoch    int64     // epoch of the store when the cached rows were read
	// unpriced are the agents and models that logUnpriced has logged.
	unpriced     map[[2]string]bool
	cache        threadCache
	reservations reservationCache

	// apply runs an operation in a batch. Tests look at the transaction before and after it.
	apply func(o *op, tx *transaction) error
}

func newCommitter(st store.Store, o Options) *committer {
	return &committer{
		store: st, options: o, begun: &firstRead{}, labels: newLabels(o), epoch: st.Epoch(),
		wake: make(chan struct{}, 1), nudged: map[string]struct{}{},
		forecast: forecast{idle: map[store.Capacity]time.Time{}, limited: map[string]time.Time{}},
		cache:    newThreadCache(), reservations: reservationCache{},
		apply: func(o *op, tx *transaction) error { return o.apply(tx) },
	}
}

func (c *committer) do(ctx context.Context, o *op) error {
	begin := time.Now()
	err := c.execute(ctx, o)
	took := time.Since(begin)
	if o.claim != nil && o.claim.Wait {
		took = 0
	}
	c.options.Observe.Operation(o.name, err, took)
	return err
}

func (c *committer) execute(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.done = make(chan error, 1)
	if err := c.enqueue(o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if c.withdraw(o) {
		return ctx.Err()
	}
	if o.claim != nil {
		return <-o.done // a claim in progress must not be lost
	}
	select {
	case err := <-o.done:
		return err
	default:
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "outcome of %s is unknown: %w", o.name, ctx.Err())
}

func (c *committer) enqueue(o *op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return mailroom.Errorf(mailroom.CodeUnavailable, "%s was not accepted: %w", o.name, c.closed)
	}
	o.queued = time.Now()
	if o.claim != nil && o.claim.Wait {
		c.claims = append(c.claims, o)
	} else {
		c.queue = append(c.queue, o)
	}
	c.signal()
	return nil
}

// signal wakes the committer.
func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// maxNudged bounds the agents of nudges that wait for the committer.
const maxNudged = 100

func (c *committer) nudge(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nudged) >= maxNudged {
		agent = ""
	}
	c.nudged[agent] = struct{}{}
	c.signal()
}

// announceDue informs the other lanes and servers that a run is due for which this lane has no slot.
func (c *committer) announceDue(agent string) {
	c.options.Due(agent)
	for _, other := range c.others {
		other.nudge(agent)
	}
}

// forgetIdle makes claims look for due work again, for the agents of nudges. The caller holds mu.
func (c *committer) forgetIdle() {
	for agent := range c.nudged {
		if agent == "" {
			clear(c.forecast.idle)
			clear(c.forecast.barred)
		}
		delete(c.forecast.idle, store.Capacity{Agent: agent})
		delete(c.forecast.idle, store.Capacity{Agent: agent, LastAttempt: true})
	}
	clear(c.nudged)
}

// withdraw removes an operation that is not in a batch yet.
func (c *committer) withdraw(o *op) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.inBatch {
		o.abandoned = true
		return false
	}
	c.queue = without(c.queue, o)
	c.claims = without(c.claims, o)
	return true
}

func without(ops []*op, o *op) []*op {
	kept := ops[:0]
	for _, x := range ops {
		if x != o {
			kept = append(kept, x)
		}
	}
	return kept
}

// run is [Ledger.Run].
func (c *committer) run(ctx context.Context) error {
	err := recovery.Call(c.options.Log, "the committer", func() error { return c.loop(ctx) })
	if p, ok := errors.AsType[*recovery.Panic](err); ok {
		err = fmt.Errorf("committer failed: %w: %w", p, store.ErrClosed)
		c.failAll(c.inFlight, mailroom.Errorf(mailroom.CodeUnavailable, "the outcome is unknown: %w", err))
	}
	c.mu.Lock()
	c.closed = err
	if c.closed == nil {
		c.closed = errors.New("ledger is closed")
	}
	left := append(c.queue, c.claims...)
	c.queue, c.claims = nil, nil
	for _, o := range left {
		o.inBatch = true
	}
	closed := c.closed
	c.mu.Unlock()
	for _, o := range left {
		o.done <- mailroom.Errorf(mailroom.CodeUnavailable, "%s was not accepted: %w", o.name, closed)
	}
	return err
}

func (c *committer) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	work := context.WithoutCancel(ctx)
	for {
		if g := c.nextBatch(time.Now()); g.len() > 0 {
			if err := c.commit(work, g); err != nil {
				return err
			}
			c.inFlight = nil
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(c.idleTime(time.Now()))
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}
