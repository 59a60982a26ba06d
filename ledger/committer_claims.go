package ledger

import (
	"context"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// ServeClaims claims for t at the end of every batch, including what that batch made due, until ctx ends.
// It returns after the last OnClaimed, with the error that closed the ledger if there was one.
func (ws Workers) ServeClaims(ctx context.Context, t thread.Claimer) error {
	s := &servedClaimer{Claimer: t, observe: ws.ledger.options.Observe.Operation}
	o := &op{name: "claim", rank: rankClaim, claimer: s, claim: &thread.ClaimRequest{Wait: true},
		done: make(chan error, 1)}
	o.apply = func(tx *transaction) (err error) {
		s.work, err = tx.claim(o.claim)
		return err
	}
	if err := ws.ledger.committer().enqueue(o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if ws.ledger.committer().withdraw(o) {
		return nil
	}
	<-o.done
	return nil
}

// AskClaimers makes the ledger ask the claimers for their next claim now.
func (l *Ledger) AskClaimers() {
	for _, c := range l.lanes {
		c.signal()
	}
}

// servedClaimer is a claimer with its waiting claim.
type servedClaimer struct {
	thread.Claimer
	observe func(name string, err error, took time.Duration)
	work    []thread.ClaimedRun // owned by the goroutine of run
}

func (s *servedClaimer) onClaimed(o *op) {
	if o.err != nil || len(s.work) > 0 {
		s.observe(o.name, o.err, 0)
		s.OnClaimed(*o.claim, s.work, o.err)
	}
	s.work = nil
}

// requeueClaim makes a claim wait for the next batch. It returns false if its caller has gone.
func (c *committer) requeueClaim(o *op) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.inBatch = false
	switch {
	case !o.abandoned:
		c.claims = append(c.claims, o)
	case o.claimer != nil:
		o.done <- nil
	}
	return !o.abandoned
}

// maxClaimsEach bounds the waiting claims of remote workers that enter a batch for the same agent, so that a batch
// does not cost more the more workers are idle. If they find more runs than they have slots, the next batch follows
// at once, and begins with the claims that this one left out.
const maxClaimsEach = 32

// splitReady returns the waiting claims that enter the next batch, which have free slots, and the others.
func (c *committer) splitReady(claims []*op) (ready, others []*op) {
	entered := map[store.Capacity]int{}
	for _, o := range claims {
		enters := false
		for _, w := range c.wants(o) {
			enters = enters || o.claimer != nil || entered[w] < maxClaimsEach
		}
		if enters {
			ready = append(ready, o)
			for _, w := range c.wants(o) {
				entered[w]++
			}
		} else {
			others = append(others, o)
		}
	}
	return ready, others
}

// wants returns what a waiting claim asks the store for. Only a claimer changes its request while it waits.
func (c *committer) wants(o *op) []store.Capacity {
	if o.claimer != nil {
		return c.options.capacities(o.claim)
	}
	if o.wanted == nil {
		o.wanted = c.options.capacities(o.claim)
	}
	return o.wanted
}

// askClaimers updates the waiting claims with what their claimers have room for now. It asks
// them without holding mu; one whose ServeClaims ends in the meantime waits for its answer.
func (c *committer) askClaimers() {
	c.mu.Lock()
	var asked []*op
	for _, o := range c.claims {
		if o.claimer != nil {
			o.inBatch = true
			asked = append(asked, o)
		}
	}
	c.mu.Unlock()
	for _, o := range asked {
		*o.claim = o.claimer.NextClaim()
		o.claim.Wait = true
		o.workers = []string{o.claim.Worker}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range asked {
		if o.inBatch = false; o.abandoned {
			c.claims = without(c.claims, o)
			o.done <- nil
		}
	}
}
