// Package ledger runs the transitions of package thread in transactions, many
// at once: one operation is one transaction over the rows of its threads, and
// concurrent operations share one commit.
package ledger

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/price"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
	"mailroom/store"
	"mailroom/thread"
)

// Options configure a Ledger. The zero value works.
type Options struct {
	// DefaultAgent runs on threads without an agent. Defaults to "echo".
	DefaultAgent string
	// Version returns the current version of an agent, "" if it has none.
	Version func(agent string) string
	// KnowsVersion reports whether an agent has or had a version, as far as the caller knows; the ledger also looks
	// at the stored ones. A submit that names another is refused. A nil function knows all versions. It must not block.
	KnowsVersion func(agent, version string) bool
	// Publish receives committed entries, in commit order, before the operations are answered. It
	// must not block.
	Publish func(thread string, entries []mailroom.Entry)
	// Due is called after a commit that leaves a run due, which a worker elsewhere may claim, with the
	// name for its Nudge. It must not block.
	Due func(agent string)
	// Lease is how long a worker keeps its claims without a renewal. Defaults to 15 s.
	Lease time.Duration
	// Deadline is how long one attempt of an agent's run may take; 0 and a nil function mean 1 h.
	// StopGrace is the time that a worker has to end a run after that, or after a stop; it defaults
	// to 10 s. The ledger ends the claim one lease time later, because a worker may learn of a stop
	// that late.
	Deadline  func(agent string) time.Duration
	StopGrace time.Duration
	// LongestAttempt is how long an attempt of an agent's run may take that asks for more time at its steps; 0 and a
	// nil function mean 24 h. Below Deadline: as long as that.
	LongestAttempt func(agent string) time.Duration
	// Retry is how failures of an agent's runs are retried. A policy that the worker names, and a number of
	// attempts that the submit names, take precedence. A zero field and a nil function mean the default.
	Retry func(agent string) retry.Policy
	// CheckOptions returns why an agent does not take the options of a submit, which is then refused. A nil
	// function takes all options. It must not block.
	CheckOptions func(agent string, options json.RawMessage) error
	// CheckBudget returns why the budget of a submit with options cannot bound an agent, which is then refused. A nil
	// function takes all budgets. It must not block.
	CheckBudget func(agent string, options json.RawMessage, b mailroom.Budget) error
	// Prices are what the tokens of models cost, for steps that report no cost. nil: their cost counts as 0.
	Prices *price.List
	// Sticky reports whether the State of an agent is of use only on the server that wrote it, so that a thread's
	// next run must start there. A nil function means that no agent is sticky.
	Sticky func(agent string) bool
	// StickyGrace is how long a run that is due waits for a server that is gone. Defaults to 5 min.
	StickyGrace time.Duration
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
	// Limits bound the starts and the running runs of an agent, over all servers of the store. They may differ between
	// servers, each of which keeps its own. A nil function bounds nothing. It must not block.
	Limits func(agent string) Limits
	// OwnerLimit bounds the starts and the running runs of each owner but the operator, over all servers.
	OwnerLimit thread.Limit
	// Label is the metadata key by whose values ended runs are summed up too, up to store.MaxLabelValues of them. "":
	// none. It has no "=".
	Label string
	// Budgets are what agents may use in a day or a month.
	Budgets Budgets
	// Lanes are further handles of the rows. Each gets a committer of its own, a lane, so that batches
	// on different threads run at the same time: with a database in another process, one committer waits for
	// round trips most of the time. To each other, lanes are like two servers, so they need no rules of their own,
	// unlike goroutines that share one batch. A file has one writer, so there are none.
	Lanes   []store.Store
	Observe Observe
	Log     *slog.Logger
}

// Ledger is the only writer of a store's rows. Its methods may be called concurrently; each waits
// until its commit is durable. An error of CodeUnavailable means that the outcome is unknown:
// repeat the operation with the same key or number.
type Ledger struct {
	lanes   []*committer
	lane    int          // lane of all operations; anyLane: the lane of their thread
	seed    maphash.Seed // chooses the lane of a thread
	options Options

	fence *fence // nil: no restriction
	freed *freedWorkers
	watch *watch
	// limitsWalk is where the sweeps of this process are in the meters of limits.
	limitsWalk *limitsWalk
}

// freedWorkers are dead workers without claims.
type freedWorkers struct {
	mu  sync.Mutex
	ids map[string]bool // guarded by mu
}

const anyLane = -1

// New returns a Ledger over store. It writes nothing before Run is called.
func New(st store.Store, o Options) *Ledger {
	if o.DefaultAgent == "" {
		o.DefaultAgent = "echo"
	}
	if o.Version == nil {
		o.Version = func(string) string { return "" }
	}
	if o.KnowsVersion == nil {
		o.KnowsVersion = func(string, string) bool { return true }
	}
	if o.CheckOptions == nil {
		o.CheckOptions = func(string, json.RawMessage) error { return nil }
	}
	if o.CheckBudget == nil {
		o.CheckBudget = func(string, json.RawMessage, mailroom.Budget) error { return nil }
	}
	if o.Publish == nil {
		o.Publish = func(string, []mailroom.Entry) {}
	}
	if o.Due == nil {
		o.Due = func(string) {}
	}
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.Deadline == nil {
		o.Deadline = func(string) time.Duration { return 0 }
	}
	if o.Retry == nil {
		o.Retry = func(string) retry.Policy { return retry.Policy{} }
	}
	if o.StopGrace == 0 {
		o.StopGrace = 10 * time.Second
	}
	if o.LongestAttempt == nil {
		o.LongestAttempt = func(string) time.Duration { return 0 }
	}
	if o.Sticky == nil {
		o.Sticky = func(string) bool { return false }
	}
	if o.StickyGrace == 0 {
		o.StickyGrace = 5 * time.Minute
	}
	if o.Limits == nil {
		o.Limits = func(string) Limits { return Limits{} }
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
	o.Budgets.owners = &ownerBudgets{}
	if o.Budgets.Reread == 0 {
		o.Budgets.Reread = 5 * o.Poll
	}
	o.Observe.fill()
	l := &Ledger{lane: anyLane, seed: maphash.MakeSeed(), options: o, freed: &freedWorkers{ids: map[string]bool{}},
		watch: &watch{}, limitsWalk: &limitsWalk{}}
	for _, handle := range append([]store.Store{st}, o.Lanes...) {
		l.lanes = append(l.lanes, newCommitter(handle, o))
	}
	for i, c := range l.lanes {
		c.others = slices.Concat(l.lanes[:i], l.lanes[i+1:])
		c.begun, c.labels = l.lanes[0].begun, l.lanes[0].labels
	}
	return l
}

// Lanes returns the number of lanes, at least 1.
func (l *Ledger) Lanes() int { return len(l.lanes) }

// committer returns the committer of operations that name no thread.
func (l *Ledger) committer() *committer { return l.lanes[max(l.lane, 0)] }

// committerOf returns the committer of an operation. Operations on one thread have the same one, so that
// their transactions seldom wait for each other.
func (l *Ledger) committerOf(o *op) *committer {
	if l.lane != anyLane || len(l.lanes) == 1 || len(o.threads) == 0 {
		return l.committer()
	}
	return l.lanes[maphash.String(l.seed, o.threads[0])%uint64(len(l.lanes))]
}

// Nudge informs the ledger that a run with this Due.Agent may be due in the store, or any run with
// "", so that waiting claims look for it now and not with the next poll.
func (l *Ledger) Nudge(agent string) {
	for _, c := range l.lanes {
		c.nudge(agent)
	}
}

// NewID returns an id that grows with time: a UUID, version 7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// View reads one consistent snapshot.
func (l *Ledger) View(ctx context.Context, f func(store.Reader) error) error {
	return l.lanes[0].store.View(ctx, func(r store.Reader) error { return f(reader{r, &l.options}) })
}

// run passes an operation to the committer and waits for its result.
func run[T any](ctx context.Context, l *Ledger, o op, f func(tx *transaction) (T, error)) (T, error) {
	var out, none T
	if err := o.checkNames(); err != nil {
		return none, err
	}
	o.apply = func(tx *transaction) (err error) {
		out, err = f(tx)
		return err
	}
	o.auditBy(ctx)
	o.ofCaller(ctx)
	for {
		once := o
		err := l.fence.restrict(&once)
		if err == nil {
			err = l.committerOf(&once).do(ctx, &once)
		}
		if err == nil {
			return out, nil
		}
		if !l.finishDelete(ctx, err) {
			return none, err
		}
	}
}

// perform is run for an operation without a result.
func perform(ctx context.Context, l *Ledger, o op, f func(tx *transaction) error) error {
	_, err := run(ctx, l, o, func(tx *transaction) (struct{}, error) { return struct{}{}, f(tx) })
	return err
}

// checkNames refuses names that not every store can look up. One check for all operations, because each would
// need it for each of its names.
func (o *op) checkNames() error {
	lists := [][]string{o.topics, o.threads, o.runs, o.workers, o.tokens}
	for _, k := range o.keys {
		lists = append(lists, []string{k.Thread, k.Key})
	}
	for _, want := range o.due {
		lists = append(lists, []string{want.Agent})
	}
	if o.claim != nil {
		lists = append(lists, slices.Collect(maps.Keys(o.claim.Agents)))
	}
	for _, list := range lists {
		for _, name := range list {
			if !check.IsClean(name) {
				return check.Invalid("name", "has a NUL or is not valid UTF-8", strings.ToValidUTF8(name, "\ufffd"))
			}
		}
	}
	return nil
}

// Run commits operations until ctx has ended and the accepted ones are answered; then it returns
// nil. Otherwise it returns the error that closed the store. A panic of the committer itself ends
// Run in the same way, because its memory may be inconsistent; a restart reads the store again.
func (l *Ledger) Run(ctx context.Context) error {
	if err := l.options.Budgets.owners.read(ctx, l.lanes[0].store); err != nil {
		l.options.Log.Warn("budgets of tokens not read; they hold once the store answers", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range l.lanes {
		group.Go(func() (err error) {
			defer recovery.Error(l.options.Log, "committer", &err)
			return c.run(ctx)
		})
	}
	return group.Wait()
}
