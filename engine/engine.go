// Package engine runs agents on what is due: it claims runs up to its free
// slots, runs each in a goroutine of its own, renews one lease for all of them,
// and settles.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/ledger"
)

// Agent is one agent that the engine serves.
type Agent struct {
	Agent    mailroom.Agent
	Version  string
	Limit    int           // runs at once; 0: as many as the engine has slots
	Deadline time.Duration // per attempt; 0: Options.Deadline
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
	ledger  *ledger.Ledger
	bus     *bus.Bus
	options Options
	state   state // what Ready reports

	// Owned by the goroutine of Run.
	worker   string
	round    int64 // last claim round that was asked for
	answered int64 // last claim round whose answer is here
	active   map[mailroom.Claim]*session
	byRun    map[string]*session // the latest of a run
	asking   *asking             // the standing claim
	lease    lease

	claims  chan claimed
	results chan *session
	renewed chan renewal
	swept   chan error
}

// New makes an Engine over a ledger. Live text and hints travel on b.
func New(l *ledger.Ledger, b *bus.Bus, o Options) *Engine {
	o = o.withDefaults()
	return &Engine{
		ledger: l, bus: b, options: o,
		active:  map[mailroom.Claim]*session{},
		byRun:   map[string]*session{},
		claims:  make(chan claimed, 1),
		results: make(chan *session, o.Runs),
		renewed: make(chan renewal, 1),
		swept:   make(chan error, 1),
	}
}

// asking is the standing claim that is out.
type asking struct {
	request ledger.ClaimRequest
	cancel  context.CancelFunc
}

// claimed is the answer to a standing claim.
type claimed struct {
	round int64
	work  []ledger.Work
	err   error
}

// Ready returns nil while the engine holds a live lease and has looked at the
// others' once; otherwise the reason why it is not.
func (e *Engine) Ready() error { return e.state.ready() }

// Run serves the agents until ctx ends. Then it claims nothing more, lets runs
// finish for ShutdownGrace, releases the rest, and gives up its lease.
func (e *Engine) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	hints := e.bus.Subscribe("", 4096)
	defer hints.Close()
	asks := e.bus.Asks(256)
	defer asks.Close()
	if err := e.register(work); err != nil {
		return err
	}
	defer e.state.end(errors.New("the engine has stopped"))

	renew := time.NewTicker(e.options.Renew)
	defer renew.Stop()
	sweep := time.NewTicker(e.options.Sweep)
	defer sweep.Stop()
	e.sweep(work)

	quit := ctx.Done()
	var grace, cut <-chan time.Time
	for {
		if quit != nil {
			e.ask(work)
		} else if len(e.active) == 0 && e.asking == nil && e.lease.quiet() {
			return e.leave(work)
		}
		select {
		case c := <-e.claims:
			e.take(work, c, quit == nil)
		case s := <-e.results:
			e.drop(s)
		case n := <-hints.C:
			e.hint(n)
		case thread := <-asks.C:
			e.flushThread(thread)
		case <-renew.C:
			e.renew(work)
		case r := <-e.renewed:
			if err := e.onRenewed(work, r); err != nil {
				return err
			}
		case <-e.lease.again:
			e.renew(work)
		case <-e.lease.end():
			e.loseAll("the lease could not be renewed in time")
		case <-sweep.C:
			e.sweep(work)
		case err := <-e.swept:
			e.onSwept(err)
		case <-quit:
			quit = nil
			e.state.end(errors.New("shutting down"))
			e.stopAsking()
			grace = time.After(e.options.ShutdownGrace)
		case <-grace:
			e.cancelAll(mailroom.ErrReleased)
			cut = time.After(e.options.StopGrace)
		case <-cut:
			e.options.Log.Error("agents did not return in time; their runs are freed with the lease", "runs", len(e.active))
			return e.leave(work)
		}
	}
}

// ask keeps a standing claim out for the free slots. It is replaced when an
// agent that had none gets one.
func (e *Engine) ask(ctx context.Context) {
	free := e.free()
	if e.asking != nil {
		old := e.asking.request
		grown := free.Alone && !old.Alone
		for agent := range free.Agents {
			grown = grown || old.Agents[agent] == 0
		}
		if grown {
			e.asking.cancel() // its answer comes first, with or without work
		}
		return
	}
	if free.Slots == 0 || len(free.Agents) == 0 {
		return
	}
	e.round++
	free.Round = e.round
	askCtx, cancel := context.WithCancel(ctx)
	e.asking = &asking{request: free, cancel: cancel}
	go func() { // ends with the claim; take waits for it
		defer cancel()
		work, err := e.ledger.Claim(askCtx, free)
		e.claims <- claimed{round: free.Round, work: work, err: err}
	}()
}

func (e *Engine) stopAsking() {
	if e.asking != nil {
		e.asking.cancel()
	}
}

// free counts the slots that are not taken.
func (e *Engine) free() ledger.ClaimRequest {
	c := ledger.ClaimRequest{
		Worker: e.worker, Slots: e.options.Runs - len(e.active),
		Agents: map[string]int{}, Alone: true, Wait: true,
	}
	taken := map[string]int{}
	for _, s := range e.active {
		taken[s.agent]++
		c.Alone = c.Alone && !s.alone
	}
	for name, a := range e.options.Agents {
		n := c.Slots
		if a.Limit > 0 {
			n = min(n, a.Limit-taken[name])
		}
		if n > 0 {
			c.Agents[name] = n
		}
	}
	return c
}

// take starts what was claimed. Claims that come while shutting down are
// released at once.
func (e *Engine) take(ctx context.Context, c claimed, quitting bool) {
	e.asking = nil
	e.answered = c.round
	switch {
	case c.err == nil, errors.Is(c.err, context.Canceled):
	case mailroom.CodeOf(c.err) == mailroom.LeaseLost:
		e.lease.expireNow()
	default:
		e.options.Log.Error("claim failed", "worker", e.worker, "error", c.err)
	}
	for _, w := range c.work {
		s := e.newSession(ctx, w)
		e.active[w.Claim], e.byRun[w.Claim.Run] = s, s
		if quitting {
			s.cancel(mailroom.ErrReleased)
		}
		go func() { // owned by Run, which waits for its result
			s.work()
			e.results <- s
		}()
	}
}

// drop forgets a session that has settled and whose agent has returned.
func (e *Engine) drop(s *session) {
	delete(e.active, s.claim)
	if run := s.claim.Run; e.byRun[run] == s {
		delete(e.byRun, run)
	}
}

// hint reacts to what was committed for runs that are active here.
func (e *Engine) hint(n bus.Notice) {
	for _, entry := range n.Entries {
		s := e.byRun[entry.Run]
		if s == nil {
			continue
		}
		switch entry.Kind {
		case mailroom.KindStop:
			s.cancel(mailroom.ErrStopped)
		case mailroom.KindMessage:
			s.steered.Store(true)
		}
	}
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
