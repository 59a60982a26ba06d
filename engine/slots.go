package engine

import (
	"maps"
	"sync"

	"mailroom/bus"
	"mailroom/ledger"
)

// slots are what an engine has room for. The committer asks them at each batch
// and leaves there what it claimed, for the goroutine of Engine.Run to take. A
// slot is free again when its agent has returned and the settle is in a batch: the
// next run starts in the commit that settles the last one.
type slots struct {
	bus   *bus.Bus
	ready chan struct{}          // one slot: something was left
	admit map[string]func() bool // of the agents that are not always ready

	mu     sync.Mutex
	open   bool           // there is a lease to claim under, and nothing forbids it
	worker string         // that claims
	round  int64          // last round that was asked for
	runs   int            // in all
	free   int            // below 0 with guests: runs beyond, of owners that had none
	agents map[string]int // free per agent
	held   map[string]int // taken, by the owners of the runs' threads
	alone  int            // taken by runs on their last chance
	left   []claimed
}

// claimed is what one round left.
type claimed struct {
	worker string
	round  int64
	work   []ledger.Assignment
	hints  []*bus.Subscription // to the threads of work, from right behind the claim
	err    error
}

func newSlots(o Options, b *bus.Bus) *slots {
	s := &slots{
		bus: b, ready: make(chan struct{}, 1), runs: o.Runs, free: o.Runs,
		agents: map[string]int{}, held: map[string]int{}, admit: map[string]func() bool{},
	}
	for name, a := range o.Agents {
		if a.Ready != nil {
			s.admit[name] = a.Ready
		}
		s.agents[name] = 2 * o.Runs // with as many guests
		if a.Limit > 0 && a.Limit < o.Runs {
			s.agents[name] = a.Limit
		}
	}
	return s
}

var _ ledger.Claimer = (*slots)(nil)

// Capacity implements [ledger.Claimer].
func (s *slots) Capacity() ledger.ClaimRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := max(s.free, 0)
	guests := s.free + s.runs - free // those there are fill up as many slots again
	if !s.open || free+guests <= 0 {
		return ledger.ClaimRequest{}
	}
	s.round++
	c := ledger.ClaimRequest{
		Worker: s.worker, Round: s.round, Slots: free, LastAttempt: s.alone == 0, Agents: make(map[string]int, len(s.agents)),
		Held: maps.Clone(s.held), FairSlots: guests,
	}
	for name, n := range s.agents {
		if ready := s.admit[name]; n > 0 && (ready == nil || ready()) {
			c.Agents[name] = min(n, free+guests)
		}
	}
	if len(c.Agents) == 0 {
		return ledger.ClaimRequest{}
	}
	return c
}

// Assign implements [ledger.Claimer]. After an error nothing more is asked for
// until allow.
func (s *slots) Assign(asked ledger.ClaimRequest, work []ledger.Assignment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := claimed{worker: asked.Worker, round: asked.Round, work: work, err: err}
	for _, w := range work {
		s.use(w, -1)
		c.hints = append(c.hints, s.bus.SubscribeEntries(w.Claim.Thread, 4))
	}
	if err != nil {
		s.open = false
	}
	s.left = append(s.left, c)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// use changes what is free for a claimed run, by one. It is within mu.
func (s *slots) use(w ledger.Assignment, by int) {
	s.free += by
	s.agents[w.Run.Agent] += by
	owner := w.Thread.Owner
	if s.held[owner] -= by; s.held[owner] == 0 {
		delete(s.held, owner)
	}
	if w.Run.OnLastAttempt() {
		s.alone -= by
	}
}

// give frees the slot of a run whose agent has returned.
func (s *slots) give(w ledger.Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(w, 1)
}

// allow begins the claiming under a lease, forbid ends it.
func (s *slots) allow(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.worker = true, worker
}

func (s *slots) forbid() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
}

// take empties what the committer left.
func (s *slots) take() []claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left = nil
	return left
}
