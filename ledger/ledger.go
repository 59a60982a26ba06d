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
	"mailroom/internal/recovery"
)

// Options configure a Ledger. The zero value works.
type Options struct {
	// DefaultAgent runs on threads that name none; "" is "echo".
	DefaultAgent string
	// Version returns the current version of an agent, "" if it has none.
	Version func(agent string) string
	// Publish is given what was committed, in commit order, before the
	// operations are answered. It must not block.
	Publish func(thread string, entries []mailroom.Entry)
	// Lease is how long a worker owns its claims without renewal; 0 is 15 s.
	Lease time.Duration
	// Deadline is how long one attempt of an agent's run may take; nil, or 0 from
	// it, is 1 h. StopGrace is what a worker has to end a run after that, or after a
	// stop; 0 is 10 s. The ledger waits a lease longer, within which every worker
	// hears of a stop, and ends the claim then.
	Deadline  func(agent string) time.Duration
	StopGrace time.Duration
	// Poll is how often a standing claim looks for due work that nobody
	// announced; 0 is 1 s.
	Poll time.Duration
	// MaxQueued bounds the runs in one thread's queue; 0 is 1,000, less is
	// any number.
	MaxQueued int
	// Quotas bound what owners may have, but for the operator, where their tokens
	// say nothing else; nil is no bound.
	Quotas mailroom.Quotas
	// Reserved are beginnings of thread ids: only the operator makes such
	// threads, or somebody could wait in one for what arrives there.
	Reserved []string
	Observe  Observe
	Log      *slog.Logger
}

// Ledger is the only writer of a store's rows. Its methods may be called
// concurrently; each waits until its commit is durable. An error of code
// Unavailable means that the outcome is unknown: repeat the operation, with its
// key or number.
type Ledger struct {
	store   mailroom.Store
	options Options

	// Owned by mu.
	mu     sync.Mutex
	queue  []*op           // operations that are in no batch yet
	claims []*op           // standing claims, oldest first
	closed error           // set once: no further operation is taken
	freed  map[string]bool // dead workers that have no claims any more

	// clockStepped says that a worker's row was from later than now: the next sweep
	// plans again what was planned by a clock that went back.
	clockStepped atomic.Bool

	wake chan struct{} // one slot: the queue or the claims changed

	// Owned by the goroutine of Run.
	inFlight []*op // of the batch under way; answered at once if the committer panics
	// wasLarge: the last batch had large operations.
	wasLarge bool
	idle     map[mailroom.Capacity]time.Time // nothing is due for the want before then
	poll     time.Time                       // when idle is forgotten
	// nextFair is when owners without a run are looked for again, should there be no
	// batch before.
	nextFair     time.Time
	cache        threadCache
	reservations reservationCache
}

// New makes a Ledger over store. Nothing is written before Run is called.
func New(store mailroom.Store, o Options) *Ledger {
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
		store: store, options: o,
		wake:  make(chan struct{}, 1),
		idle:  map[mailroom.Capacity]time.Time{},
		cache: newThreadCache(), freed: map[string]bool{},
		reservations: reservationCache{},
	}
}

// NewID makes an id that grows with time: a UUID, version 7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// View reads one consistent snapshot.
func (l *Ledger) View(ctx context.Context, f func(mailroom.Reader) error) error {
	return l.store.View(ctx, f)
}

// op is one operation on its way through a batch.
type op struct {
	name    string
	rank    int // order within a batch: renewals, everything else, claims
	size    int // bytes it carries
	workers []string
	threads []string
	runs    []string // loaded beside the threads' current runs
	claim   *ClaimRequest
	claimer *subscription // whose claim it is; nil: a caller's that waits for done

	// apply runs the transitions. It may run again if the batch is.
	apply func(b *batch) error
	// onBatch is called when it is in a batch, before the takers are asked for
	// that batch; within mu.
	onBatch func()

	// Owned by Ledger.mu.
	inBatch   bool // it is in a batch
	abandoned bool // its caller's context ended meanwhile

	err  error      // owned by the goroutine of Run until done is sent
	done chan error // one slot
}

const (
	rankRenew = iota
	rankPlain
	rankClaim
	rankPurge // only when nothing else waits
)

// run sends an operation through the committer and waits for its result.
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
		return <-o.done // a claim that is being made must not get lost
	}
	select {
	case err := <-o.done:
		return err
	default:
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "%s was not waited for, its outcome is unknown: %w", o.name, ctx.Err())
}

func (l *Ledger) enqueue(o *op) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return mailroom.Errorf(mailroom.CodeUnavailable, "%s was not taken: %w", o.name, l.closed)
	}
	if o.claim != nil && o.claim.Wait {
		l.claims = append(l.claims, o)
	} else {
		l.queue = append(l.queue, o)
	}
	l.signal()
	return nil
}

// signal wakes the committer; one pending wake-up is enough.
func (l *Ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// withdraw takes an operation back that is in no batch yet.
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

// Run is the committer: it takes what has gathered, commits it, and answers. It
// returns nil after ctx ended and what was taken is answered, or the error that
// closed the store. A panic of its own code ends it like such an error: what it
// holds in memory cannot be trusted any more, and a restart reads it again.
func (l *Ledger) Run(ctx context.Context) error {
	err := recovery.Call(l.options.Log, "the committer", func() error { return l.loop(ctx) })
	if p, ok := errors.AsType[*recovery.Panic](err); ok {
		err = fmt.Errorf("the committer failed: %w: %w", p, mailroom.ErrStoreClosed)
		l.failAll(l.inFlight, mailroom.Errorf(mailroom.CodeUnavailable, "the outcome is unknown: %w", err))
	}
	l.mu.Lock()
	l.closed = err
	if l.closed == nil {
		l.closed = errors.New("the ledger is closed")
	}
	left := append(l.queue, l.claims...)
	l.queue, l.claims = nil, nil
	for _, o := range left {
		o.inBatch = true
	}
	closed := l.closed
	l.mu.Unlock()
	for _, o := range left {
		o.done <- mailroom.Errorf(mailroom.CodeUnavailable, "%s was not taken: %w", o.name, closed)
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
