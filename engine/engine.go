// Package engine runs agents on what is due: it claims runs up to its free
// slots, runs each in a goroutine of its own, renews one lease for all of them,
// and settles.
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
)

// Agent is one agent that the engine serves.
type Agent struct {
	Agent    mailroom.Agent
	Version  string
	Limit    int           // runs at once; 0: as many as the engine has slots
	Deadline time.Duration // per attempt; 0: Options.Deadline
	// Ready reports whether a run may be started now; nil: always. While it says no,
	// runs wait as they are: nothing is counted against them, and another engine may
	// take them. The committer asks at each batch, so it must be quick and must not
	// call the ledger. Who makes it true again should call [Leases.Wake]; else that is
	// noticed with the next claim. A run may still come that was asked for before.
	Ready func() bool
	// Kept are the versions before that a run may be pinned to.
	Kept map[string]mailroom.Agent
}

// pinned is the agent in the version that a run was submitted for; never in
// another one.
func (a Agent) pinned(r *mailroom.Run) (Agent, error) {
	if r.AgentVersion == "" || r.AgentVersion == a.Version {
		return a, nil
	}
	old, ok := a.Kept[r.AgentVersion]
	if !ok {
		return a, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(
			"version %s of agent %q is no longer kept; retry the run to use version %s", r.AgentVersion, r.Agent, a.Version)}
	}
	a.Agent, a.Version = old, r.AgentVersion
	return a, nil
}

// Options configure an Engine. A zero duration is the default in brackets.
type Options struct {
	Agents        map[string]Agent
	Runs          int           // at once, of all agents [64]
	Lease         time.Duration // as the ledger's [15s]
	Renew         time.Duration // between renewals [a third of Lease]
	Sweep         time.Duration // between looks at other workers' leases [1s]
	Flush         time.Duration // how long streamed text may be lost with the process [1s]
	Deadline      time.Duration // of one attempt [1h]
	StopGrace     time.Duration // for an agent to return after it was stopped [10s]
	ShutdownGrace time.Duration // for runs to finish after Run's context ended [30s]
	AgentGrace    time.Duration // until runs of an agent that nobody serves fail [60s]
	Host          string        // [the machine's name]
	Local         bool          // the store belongs to this process alone
	Observe       Observe
	Log           *slog.Logger
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
	set(&o.Deadline, time.Hour)
	set(&o.StopGrace, 10*time.Second)
	set(&o.ShutdownGrace, 30*time.Second)
	set(&o.AgentGrace, time.Minute)
	o.Observe.fill()
	if o.Runs == 0 {
		o.Runs = 64
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname() // only shown; "" if the system does not know
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Engine is one worker. Run may be called once.
type Engine struct {
	ledger  Ledger
	bus     *bus.Bus
	options Options
	slots   *slots
	state   state // what Ready reports

	// Owned by the goroutine of Run.
	lease    lease
	answered int64            // last claim round whose answer is here
	standing bool             // the ledger serves the slots
	leave    func()           // ends that
	pause    <-chan time.Time // after a claim that failed
	active   map[mailroom.Claim]*session
	stopping bool  // nothing is claimed any more
	fatal    error // what ended the store

	// Answers to the goroutine of Run, from goroutines of crew, which it waits for.
	crew    sync.WaitGroup
	stood   chan error
	results chan *session
	renewed chan renewal
	swept   chan error
}

// New makes an Engine over a ledger. Live text and hints travel on b.
func New(l Ledger, b *bus.Bus, o Options) *Engine {
	o = o.withDefaults()
	return &Engine{
		ledger: l, bus: b, options: o,
		slots:   newSlots(o, b),
		active:  map[mailroom.Claim]*session{},
		leave:   func() {},
		stood:   make(chan error, 1),
		results: make(chan *session, o.Runs),
		renewed: make(chan renewal, 1),
		swept:   make(chan error, 1),
	}
}

// Ready returns nil while the engine holds a live lease and has looked at the
// others' once; otherwise the reason why it is not.
func (e *Engine) Ready() error { return e.state.ready() }

// Run serves the agents until ctx ends. Then it claims nothing more, lets runs
// finish for ShutdownGrace, releases the rest, and gives up its lease. It
// returns an error if the store closed, or if its own code panicked: then every
// run is cancelled, and none can be settled any more. An agent that does not return when it should is left
// behind; its claim ends with the lease.
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
	e.crew.Wait()
	left := len(e.active) + e.tooLate()
	e.lease.stop()
	e.state.end(errors.New("the engine has stopped"))
	switch {
	case e.fatal != nil:
		return e.fatal
	case left > 0:
		e.options.Log.Error("runs were not given back in time; they are freed with the lease", "worker", e.lease.worker, "runs", left)
		return nil
	}
	return e.retire(work)
}

// loop returns when nothing is active any more after ctx ended, or when what is
// has had its time.
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
	for !e.stopping || len(e.active) > 0 || e.standing {
		e.stand(life)
		select {
		case <-e.slots.ready:
			e.takeAll(life)
		case err := <-e.stood:
			e.onStood(life, err)
		case s := <-e.results:
			e.drop(s)
		case thread := <-asks.C:
			e.flushThread(thread)
		case <-e.pause:
			e.rested()
		case <-renew.C:
			e.renew(life)
		case <-e.lease.again:
			e.renew(life)
		case r := <-e.renewed:
			e.onRenewed(life, r)
		case <-e.lease.end():
			e.lose("the lease could not be renewed in time")
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

// stop ends the claiming.
func (e *Engine) stop() {
	e.stopping = true
	e.slots.forbid()
	e.leave()
}

// closed notes an error that says that the store takes no further write.
// Nothing can be settled then.
func (e *Engine) closed(err error) bool {
	if !errors.Is(err, mailroom.ErrStoreClosed) {
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

// drop forgets a session that has settled and whose agent has returned.
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

// agentNames are the agents that this engine serves.
func (e *Engine) agentNames() []string {
	return slices.Sorted(maps.Keys(e.options.Agents))
}
