// Package ledger runs the transitions of the root package in transactions, many
// at once: one operation is one transaction over the rows of its threads, and
// concurrent operations share one commit.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/auth"
	"mailroom/dispatch"
	"mailroom/internal/recovery"
	"mailroom/store"
)

// Options configure a Ledger. The zero value works.
type Options struct {
	// DefaultAgent runs on threads without an agent. Defaults to "echo".
	DefaultAgent string
	// Version returns the current version of an agent, "" if it has none.
	Version func(agent string) string
	// Publish receives committed entries, in commit order, before the operations are answered. It
	// must not block.
	Publish func(thread string, entries []mailroom.Entry)
	// Lease is how long a worker keeps its claims without a renewal. Defaults to 15 s.
	Lease time.Duration
	// Deadline is how long one attempt of an agent's run may take; 0 and a nil function mean 1 h.
	// StopGrace is the time that a worker has to end a run after that, or after a stop; it defaults
	// to 10 s. The ledger ends the claim one lease time later, because a worker may learn of a stop
	// that late.
	Deadline  func(agent string) time.Duration
	StopGrace time.Duration
	// Poll is how often waiting claims look for due work that this ledger did not commit. Defaults
	// to 1 s.
	Poll time.Duration
	// MaxQueued bounds the runs in one thread's queue. Defaults to 1,000; a negative value means no
	// limit.
	MaxQueued int
	// Quotas are the default quotas of owners. The operator has none. A nil map means no limits.
	Quotas auth.Quotas
	// Reserved lists prefixes of thread ids that only the operator may create. Otherwise a token
	// could create a thread in advance and receive what is meant for another.
	Reserved []string
	Observe  Observe
	Log      *slog.Logger
}

// Ledger is the only writer of a store's rows. Its methods may be called concurrently; each waits
// until its commit is durable. An error of CodeUnavailable means that the outcome is unknown:
// repeat the operation with the same key or number.
type Ledger struct {
	store   store.Store
	options Options

	// Owned by mu.
	mu     sync.Mutex
	queue  []*op           // operations that are not in a batch yet
	claims []*op           // waiting claims, oldest first
	closed error           // set once; no operation is accepted after that
	freed  map[string]bool // dead workers without claims

	// clockStepped is set when a worker's row shows that the clock stepped back. The next sweep
	// then reschedules.
	clockStepped atomic.Bool

	wake chan struct{} // one slot: the queue or the claims changed

	// Owned by the goroutine of Run.
	inFlight []*op // operations of the current batch, answered if the committer panics
	// wasLarge reports that the last batch had large operations.
	wasLarge bool
	idle     map[store.Capacity]time.Time // earliest time at which work may be due
	poll     time.Time                    // when idle is cleared
	// nextFair is when claimFairSlots runs again at the latest.
	nextFair     time.Time
	epoch        int64 // of the store, when the cached rows were read
	cache        threadCache
	reservations reservationCache
}

// New returns a Ledger over store. It writes nothing before Run is called.
func New(st store.Store, o Options) *Ledger {
	if o.DefaultAgent == "" {
		o.DefaultAgent = "echo"
	}
	if o.Version == nil {
		o.Version = func(string) string { return "" }
	}
	if o.Publish == nil {
		o.Publish = func(string, []mailroom.Entry) {}
	}
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.Deadline == nil {
		o.Deadline = func(string) time.Duration { return 0 }
	}
	if o.StopGrace == 0 {
		o.StopGrace = 10 * time.Second
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	switch {
	case o.MaxQueued == 0:
		o.MaxQueued = mailroom.MaxQueued
	case o.MaxQueued < 0:
		o.MaxQueued = 0
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Observe.fill()
	return &Ledger{
		store: st, options: o, epoch: st.Epoch(),
		wake:  make(chan struct{}, 1),
		idle:  map[store.Capacity]time.Time{},
		cache: newThreadCache(), freed: map[string]bool{},
		reservations: reservationCache{},
	}
}

// NewID returns an id that grows with time: a UUID, version 7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// View reads one consistent snapshot.
func (l *Ledger) View(ctx context.Context, f func(store.Reader) error) error {
	return l.store.View(ctx, f)
}

// op is one operation.
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
	claim   *dispatch.ClaimRequest
	found   int           // runs claimed; owned by the goroutine of Run
	claimer *subscription // owner of a waiting claim; nil: a caller waits for done

	// apply runs the transitions. It runs again if the batch does.
	apply func(b *batch) error
	// onBatch is called when the operation enters a batch, before the claimers are asked for
	// capacity.
	onBatch func()

	// Owned by Ledger.mu.
	inBatch   bool // it is in a batch
	abandoned bool // the caller's context has ended

	// Owned by the goroutine of Run. retryAt is when an operation whose threads another server
	// holds is tried again, lockedSince when it first met them locked; zero: not locked.
	retryAt, lockedSince time.Time

	err  error      // owned by the goroutine of Run until done is sent
	done chan error // one slot
}

const (
	rankRenew = iota
	rankPlain
	rankClaim
	rankPurge // only when nothing else is queued
)

// run passes an operation to the committer and waits for its result.
func run[T any](ctx context.Context, l *Ledger, o op, f func(b *batch) (T, error)) (T, error) {
	var out, none T
	o.apply = func(b *batch) (err error) {
		out, err = f(b)
		return err
	}
	for {
		once := o
		err := l.do(ctx, &once)
		if err == nil {
			return out, nil
		}
		if !l.finishDelete(ctx, err) {
			return none, err
		}
	}
}

func (l *Ledger) do(ctx context.Context, o *op) error {
	begin := time.Now()
	err := l.execute(ctx, o)
	took := time.Since(begin)
	if o.claim != nil && o.claim.Wait {
		took = 0
	}
	l.options.Observe.Operation(o.name, err, took)
	return err
}

func (l *Ledger) execute(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.done = make(chan error, 1)
	if err := l.enqueue(o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if l.withdraw(o) {
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

func (l *Ledger) enqueue(o *op) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return mailroom.Errorf(mailroom.CodeUnavailable, "%s was not accepted: %w", o.name, l.closed)
	}
	if o.claim != nil && o.claim.Wait {
		l.claims = append(l.claims, o)
	} else {
		l.queue = append(l.queue, o)
	}
	l.signal()
	return nil
}

// signal wakes the committer.
func (l *Ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// withdraw removes an operation that is not in a batch yet.
func (l *Ledger) withdraw(o *op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.inBatch {
		o.abandoned = true
		return false
	}
	l.queue = without(l.queue, o)
	l.claims = without(l.claims, o)
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

// Run is the committer: it forms batches, commits them and answers their operations. It returns nil
// after ctx has ended and the accepted operations are answered, or the error that closed the store.
// A panic of the committer itself ends it in the same way, because its memory may be inconsistent;
// a restart reads the store again.
func (l *Ledger) Run(ctx context.Context) error {
	err := recovery.Call(l.options.Log, "the committer", func() error { return l.loop(ctx) })
	if p, ok := errors.AsType[*recovery.Panic](err); ok {
		err = fmt.Errorf("committer failed: %w: %w", p, store.ErrClosed)
		l.failAll(l.inFlight, mailroom.Errorf(mailroom.CodeUnavailable, "the outcome is unknown: %w", err))
	}
	l.mu.Lock()
	l.closed = err
	if l.closed == nil {
		l.closed = errors.New("ledger is closed")
	}
	left := append(l.queue, l.claims...)
	l.queue, l.claims = nil, nil
	for _, o := range left {
		o.inBatch = true
	}
	closed := l.closed
	l.mu.Unlock()
	for _, o := range left {
		o.done <- mailroom.Errorf(mailroom.CodeUnavailable, "%s was not accepted: %w", o.name, closed)
	}
	return err
}

func (l *Ledger) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	work := context.WithoutCancel(ctx)
	for {
		ops, claims := l.nextBatch(time.Now())
		if len(ops)+len(claims) > 0 {
			if err := l.commit(work, ops, claims); err != nil {
				return err
			}
			l.inFlight = nil
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(l.idleTime(time.Now()))
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}
