package engine

import (
	"maps"
	"sync"

	"mailroom/bus"
	"mailroom/thread"
)

// slots counts the runs that the engine has room for. The committer asks for them at each batch and claims runs,
// which the goroutine of Engine.Run starts. A slot is free again when its agent has returned and
// the settle is in a batch, so that the next run starts in the commit that settles the previous
// one. If it were free when the agent returns, a claim could come before the settle, and the next run of the same
// thread would wait for another commit; if it were free when the settle is durable, each slot would be idle for a
// commit.
//
// An engine whose slots are full may start guests: one run of each owner without a run on the engine, at most as
// many as it has slots. So runs that never end cannot keep other owners out. Slots reserved for other owners would
// be idle most of the time, and stopping a run for another owner would lose its work.
//
// At most one run on its last attempt is claimed at a time: a run that kills the process takes no other one with it.
type slots struct {
	bus   *bus.Bus
	ready chan struct{}          // capacity 1: runs were claimed
	admit map[string]func() bool // Ready of the agents that have one

	noLastAttempts bool   // see Options
	node           string // among others on the store

	mu           sync.Mutex
	open         bool           // claiming is allowed
	worker       string         // id to claim with
	round        int64          // last round that was requested
	runs         int            // slots in total
	free         int            // negative with guests: runs beyond the slots, of owners that had none
	agents       map[string]int // free slots per agent
	held         map[string]int // used slots per owner of a thread
	lastAttempts int            // used slots of runs on their last attempt
	rounds       []claimRound   // claimed and not started yet
}

// claimRound is the result of one claim round.
type claimRound struct {
	worker string
	round  int64
	work   []thread.ClaimedRun
	hints  []*bus.Subscription // notices of the threads of work, from right behind the claim
	err    error
}

func newSlots(o Options, b *bus.Bus) *slots {
	s := &slots{
		bus: b, ready: make(chan struct{}, 1), runs: o.Runs, free: o.Runs,
		agents: map[string]int{}, held: map[string]int{}, admit: map[string]func() bool{},
		noLastAttempts: o.NoLastAttempts, node: o.sharedNode(),
	}
	for name, a := range o.Agents {
		if a.Ready != nil {
			s.admit[name] = a.Ready
		}
		s.agents[name] = 2 * o.Runs // half of them for guests
		if a.Limit > 0 && a.Limit < o.Runs {
			s.agents[name] = a.Limit
		}
	}
	return s
}

var _ thread.Claimer = (*slots)(nil)

// NextClaim implements [thread.Claimer].
func (s *slots) NextClaim() thread.ClaimRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := max(s.free, 0)
	guests := s.free + s.runs - free // running guests use up as many guest slots
	if !s.open || free+guests <= 0 {
		return thread.ClaimRequest{}
	}
	s.round++
	c := thread.ClaimRequest{
		Worker: s.worker, Round: s.round, Slots: free, LastAttempt: s.lastAttempts == 0 && !s.noLastAttempts,
		Agents: make(map[string]int, len(s.agents)),
		Held:   maps.Clone(s.held), FairSlots: guests, Node: s.node,
	}
	for name, n := range s.agents {
		if ready := s.admit[name]; n > 0 && (ready == nil || ready()) {
			c.Agents[name] = min(n, free+guests)
		}
	}
	if len(c.Agents) == 0 {
		return thread.ClaimRequest{}
	}
	return c
}

// OnClaimed implements [thread.Claimer]. After an error the slots claim nothing until allow is called.
func (s *slots) OnClaimed(asked thread.ClaimRequest, work []thread.ClaimedRun, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := claimRound{worker: asked.Worker, round: asked.Round, work: work, err: err}
	for _, w := range work {
		s.use(w, -1)
		c.hints = append(c.hints, s.bus.SubscribeEntries(w.Claim.Thread, 4))
	}
	if err != nil {
		s.open = false
	}
	s.rounds = append(s.rounds, c)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// use adds by to the free counts that a claimed run affects. The caller holds mu.
func (s *slots) use(w thread.ClaimedRun, by int) {
	s.free += by
	s.agents[w.Run.Agent] += by
	owner := w.Thread.Owner
	if s.held[owner] -= by; s.held[owner] == 0 {
		delete(s.held, owner)
	}
	if w.Run.OnLastAttempt() {
		s.lastAttempts -= by
	}
}

// release frees the slot of a run whose agent has returned.
func (s *slots) release(w thread.ClaimedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(w, 1)
}

// allow enables claiming for a worker.
func (s *slots) allow(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.worker = true, worker
}

// forbid disables claiming.
func (s *slots) forbid() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
}

// drain returns the rounds that were claimed and clears them.
func (s *slots) drain() []claimRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.rounds
	s.rounds = nil
	return left
}
