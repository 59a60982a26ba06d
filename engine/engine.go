// Package engine runs agents on due runs: it claims runs up to its free slots, runs each in its own
// goroutine, renews one lease for all of them, and settles them.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/internal/recovery"
	"mailroom/store"
)

// Agent configures one agent that the engine serves.
type Agent struct {
	Agent    mailroom.Agent
	Version  string
	Limit    int           // maximum concurrent runs; 0: as many as the engine has slots
	Deadline time.Duration // per attempt; 0: Options.Deadline
	// Sticky reports that the agent's state of a thread is of use only on the server that wrote it. The
	// thread's next run starts there while that server runs, see [ledger.Options].
	Sticky bool
	// Ready reports whether a run may start now; nil means always. While it is false, runs stay
	// queued: no attempt is counted, and another engine may claim them. The committer calls it for
	// each batch, so it must be quick and must not call the ledger. Call [Leases.AskClaimers] when it
	// becomes true again; otherwise the engine notices with its next claim. A run that was
	// requested earlier may still start.
	Ready func() bool
	// OldVersion returns the agent in another version, to which a run is pinned, or nil if that version is not kept.
	// It may read the store. A nil function keeps no version.
	OldVersion func(ctx context.Context, version string) (mailroom.Agent, error)
}

// pinned returns the agent in the version that the run was submitted for. It fails if that version
// is no longer kept.
func (a Agent) pinned(ctx context.Context, r *mailroom.Run) (Agent, error) {
	if r.AgentVersion == "" || r.AgentVersion == a.Version {
		return a, nil
	}
	var old mailroom.Agent
	if a.OldVersion != nil {
		var err error
		if old, err = a.OldVersion(ctx, r.AgentVersion); err != nil {
			return a, fmt.Errorf("look up version %s of agent %q: %w", r.AgentVersion, r.Agent, err)
		}
	}
	if old == nil {
		return a, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(
			"version %s of agent %q is no longer kept; retry the run to use version %s", r.AgentVersion, r.Agent, a.Version)}
	}
	a.Agent, a.Version = old, r.AgentVersion
	return a, nil
}

// Options configure an Engine. A zero value selects the default in brackets.
type Options struct {
	Agents        map[string]Agent
	Runs          int           // concurrent runs of all agents [64]
	Lease         time.Duration // duration of the lease, as configured in the ledger [15s]
	Renew         time.Duration // interval of renewals [a third of Lease]
	Sweep         time.Duration // interval of checks for expired leases of other workers [1s]
	Flush         time.Duration // interval of flushes: the streamed text that a crash may lose [1s]
	Deadline      time.Duration // longest time of one attempt [that of the server, for a remote worker, or 1h]
	StopGrace     time.Duration // time for an agent to return after it was stopped [10s]
	ShutdownGrace time.Duration // time for runs to finish after Run's context ended [30s]
	AgentGrace    time.Duration // time until runs of an agent that no worker serves fail [60s]
	Elsewhere     []string      // agents whose runs wait for a worker of another process for any time
	Host          string        // name shown for this worker [the machine's name]
	Node          string        // id of the server; "" for a remote worker
	Program       string        // version of this program, shown for this worker
	Tables        int64         // version of the tables that this program knows; 0: unknown
	Local         bool          // no other process writes to the store
	// NoLastAttempts leaves runs on their last attempt to another engine of this process, so that one
	// that kills the process takes no other with it.
	NoLastAttempts bool
	Blobs          Blobs // stores the blobs of the agents; nil: agents cannot keep blobs
	Observe        Observe
	Log            *slog.Logger
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Lease, 15*time.Second)
	set(&o.Renew, o.Lease/3)
	set(&o.Sweep, time.Second)
	set(&o.Flush, time.Second)
	set(&o.StopGrace, 10*time.Second)
	set(&o.ShutdownGrace, 30*time.Second)
	set(&o.AgentGrace, time.Minute)
	o.Observe.fill()
	if o.Runs == 0 {
		o.Runs = 64
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname() // only displayed; "" if the system does not know its name
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// sharedNode returns the id of the server among others on the store; "" if it is the only one.
func (o *Options) sharedNode() string {
	if o.Local {
		return ""
	}
	return o.Node
}

// Engine is one worker. Run may be called once.
type Engine struct {
	ledger  Ledger
	bus     *bus.Bus
	options Options
	slots   *slots
	state   state // state that Ready reports

	// Owned by the goroutine of Run.
	lease     lease
	answered  int64            // last claim round that has arrived
	served    bool             // the ledger claims for the slots
	endClaims func()           // ends serving claims
	pause     <-chan time.Time // ends the pause after a failed claim
	active    map[mailroom.Claim]*session
	stopping  bool  // claiming has ended
	fatal     error // the error that closed the store

	// Results for the goroutine of Run, sent by goroutines of wg.
	wg          sync.WaitGroup
	claimsEnded chan error
	results     chan *session
	renewed     chan renewal
	swept       chan error
}

// New makes an Engine over a ledger. It publishes streamed text on b, and receives hints from it.
func New(l Ledger, b *bus.Bus, o Options) *Engine {
	o = o.withDefaults()
	return &Engine{
		ledger: l, bus: b, options: o,
		slots:       newSlots(o, b),
		active:      map[mailroom.Claim]*session{},
		endClaims:   func() {},
		claimsEnded: make(chan error, 1),
		results:     make(chan *session, o.Runs),
		renewed:     make(chan renewal, 1),
		swept:       make(chan error, 1),
	}
}

// Ready returns nil while the engine holds a live lease and has swept once; otherwise it returns
// the reason.
func (e *Engine) Ready() error { return e.state.ready() }

// AwaitLease waits until the engine's worker has a lease. lease is done before another server may take over the
// worker's runs and duties.
func (e *Engine) AwaitLease(ctx context.Context) (worker string, lease context.Context, err error) {
	return e.state.awaitLease(ctx)
}

// Run serves the agents until ctx ends. Then it claims nothing more, lets runs finish for
// ShutdownGrace, releases the rest, and gives up its lease. It returns an error if the store closed
// or its own code panicked: it cancels every run then, and none can be settled. An agent that does
// not return in time is abandoned; its claim ends with the lease.
func (e *Engine) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	life, end := context.WithCancel(work)
	defer end()
	if err := recovery.Call(e.options.Log, "the engine", func() error { e.loop(ctx, life); return nil }); err != nil {
		e.fatal = fmt.Errorf("the engine failed: %w", err)
		e.stop()
		e.cancelAll(mailroom.ErrReleased)
	}
	end()
	e.wg.Wait()
	e.takeUnknownLease()
	left := len(e.active) + e.countUnstarted()
	e.lease.stop()
	e.state.dropLease()
	e.state.end(errors.New("the engine has stopped"))
	switch {
	case e.fatal != nil:
		return e.fatal
	case left > 0:
		e.options.Log.Error("runs were not released in time; their claims end with the lease", "worker", e.lease.worker,
			"runs", left)
		return nil
	}
	return e.deregister(work)
}

// loop handles events until ctx has ended and no session is active, or until the grace periods have
// passed.
func (e *Engine) loop(ctx, life context.Context) {
	asks := e.bus.SubscribeFlushRequests(256)
	defer asks.Close()
	renew := time.NewTicker(e.options.Renew)
	defer renew.Stop()
	sweep := time.NewTicker(e.options.Sweep)
	defer sweep.Stop()
	e.renew(life)

	quit := ctx.Done()
	var grace, cut <-chan time.Time
	for !e.stopping || len(e.active) > 0 || e.served {
		e.serveClaims(life)
		select {
		case <-e.slots.ready:
			e.startAll(life)
		case err := <-e.claimsEnded:
			e.onClaimsEnded(life, err)
		case s := <-e.results:
			e.drop(s)
		case thread := <-asks.C:
			e.flushThread(thread)
		case <-e.pause:
			e.resumeClaims()
		case <-renew.C:
			e.renew(life)
		case <-e.lease.again:
			e.renew(life)
		case r := <-e.renewed:
			e.onRenewed(life, r)
		case <-e.lease.end():
			e.dropLease("the lease could not be renewed in time")
		case <-sweep.C:
			e.sweep(life)
		case err := <-e.swept:
			e.onSwept(err)
		case <-quit:
			quit = nil
			e.state.end(errors.New("shutting down"))
			e.stop()
			grace = time.After(e.options.ShutdownGrace)
		case <-grace:
			e.cancelAll(mailroom.ErrReleased)
			cut = time.After(e.options.StopGrace)
		case <-cut:
			return
		}
		if e.fatal != nil && cut == nil {
			cut = time.After(e.options.StopGrace)
		}
	}
}

// stop ends claiming.
func (e *Engine) stop() {
	e.stopping = true
	e.slots.forbid()
	e.endClaims()
}

// closed reports whether err says that the store is closed. No run can be settled then, so the
// first such error ends the engine.
func (e *Engine) closed(err error) bool {
	if !errors.Is(err, store.ErrClosed) {
		return false
	}
	if e.fatal == nil {
		e.fatal = err
		e.state.end(err)
		e.stop()
		e.cancelAll(mailroom.ErrLeaseLost)
	}
	return true
}

// drop removes a session that has settled and whose agent has returned.
func (e *Engine) drop(s *session) {
	delete(e.active, s.claim)
}

func (e *Engine) flushThread(thread string) {
	for _, s := range e.active {
		if s.claim.Thread == thread {
			s.wantFlush()
		}
	}
}

func (e *Engine) cancelAll(cause error) {
	for _, s := range e.active {
		s.cancel(cause)
	}
}

// agentNames returns the agents that this engine serves, sorted.
func (e *Engine) agentNames() []string {
	return slices.Sorted(maps.Keys(e.options.Agents))
}
