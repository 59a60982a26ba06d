package engine

import (
	"context"
	"errors"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/ledger"
)

// asking is the standing claim that is out.
type asking struct {
	request ledger.ClaimRequest
	cancel  context.CancelFunc
}

// claimed is the answer to a standing claim.
type claimed struct {
	worker   string
	round    int64
	sessions []*session
	err      error
}

// ask keeps a standing claim out for the free slots, while there is a lease to
// claim under. It is replaced when an agent that had no slot gets one.
func (e *Engine) ask(ctx context.Context) {
	if e.stopping || e.pause != nil || !e.lease.holds() {
		return
	}
	if e.asking != nil {
		if e.grown(e.asking.request) {
			e.asking.cancel() // its answer comes first, with or without work
		}
		return
	}
	request := e.free()
	if len(request.Agents) == 0 {
		return
	}
	e.round++
	request.Round = e.round
	askCtx, cancel := context.WithCancel(ctx)
	e.asking = &asking{request: request, cancel: cancel}
	var hints []*bus.Subscription // from right behind each claim, so that no stop is missed
	request.Claimed = func(w ledger.Work) {
		hints = append(hints, e.bus.SubscribeEntries(w.Claim.Thread, 4))
	}
	e.crew.Go(func() {
		defer cancel()
		work, err := e.ledger.Claim(askCtx, request)
		e.claims <- claimed{
			worker: request.Worker, round: request.Round, sessions: e.open(ctx, request.Worker, work, hints), err: err,
		}
	})
}

// open makes the sessions of what was claimed, with their subscriptions. If
// other processes write to the store too, whose hints may come late, it looks at
// what became of the runs.
func (e *Engine) open(life context.Context, worker string, work []ledger.Work, hints []*bus.Subscription) []*session {
	var opened []*session
	for i, w := range work {
		opened = append(opened, e.newSession(life, worker, w, hints[i]))
	}
	if e.options.Local {
		return opened
	}
	if err := e.look(life, opened...); err != nil {
		for _, s := range opened {
			s.unsure = err
		}
	}
	return opened
}

func (e *Engine) stopAsking() {
	if e.asking != nil {
		e.asking.cancel()
	}
}

// slots counts what is free for an agent.
func (e *Engine) slots(name string) int {
	n := e.options.Runs - len(e.active)
	if limit := e.options.Agents[name].Limit; limit > 0 {
		n = min(n, limit-e.taken[name])
	}
	return n
}

// free asks for the slots that are not taken.
func (e *Engine) free() ledger.ClaimRequest {
	c := ledger.ClaimRequest{
		Worker: e.lease.worker, Slots: e.options.Runs - len(e.active),
		Agents: map[string]int{}, Alone: e.alone == 0, Wait: true,
	}
	for name := range e.options.Agents {
		if n := e.slots(name); n > 0 {
			c.Agents[name] = n
		}
	}
	return c
}

// grown reports whether something is free that was not when old was asked for.
func (e *Engine) grown(old ledger.ClaimRequest) bool {
	if e.alone == 0 && !old.Alone {
		return true
	}
	if len(old.Agents) == len(e.options.Agents) {
		return false
	}
	for name := range e.options.Agents {
		if old.Agents[name] == 0 && e.slots(name) > 0 {
			return true
		}
	}
	return false
}

// take starts what was claimed. What comes while shutting down, or for a lease
// that is lost meanwhile, is given back without entering the agent.
func (e *Engine) take(life context.Context, c claimed) {
	e.asking = nil
	e.answered = c.round
	for _, s := range c.sessions {
		e.active[s.claim] = s
		e.taken[s.agent]++
		if s.alone {
			e.alone++
		}
		switch {
		case c.worker != e.lease.worker || e.lease.lost:
			s.cancel(mailroom.ErrLeaseLost)
		case e.stopping:
			s.cancel(mailroom.ErrReleased)
		}
		e.crew.Go(func() {
			s.work()
			e.results <- s
		})
	}
	if c.err == nil || errors.Is(c.err, context.Canceled) || e.closed(c.err) {
		return
	}
	// A claim with this error may have been made all the same: a renewal,
	// which does not name it, releases it. It also finds out that the lease
	// has ended.
	e.options.Log.Error("claim failed", "worker", c.worker, "error", c.err)
	e.pause = time.After(e.options.Renew / 10)
	e.renew(life)
}
