package ledger

import (
	"context"
	"time"

	"mailroom/thread"
)

// Subscribe serves t at the end of every batch, including what that batch made due, until ctx ends.
// It returns after the last Assign, with the error that closed the ledger if there was one.
func (ws Workers) Subscribe(ctx context.Context, t thread.Claimer) error {
	s := &subscription{Claimer: t, observe: ws.ledger.options.Observe.Operation}
	o := &op{name: "claim", rank: rankClaim, claimer: s, claim: &thread.ClaimRequest{Wait: true}, done: make(chan error, 1)}
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

// Wake makes the ledger ask the claimers for their capacity again.
func (l *Ledger) Wake() {
	for _, c := range l.lanes {
		c.signal()
	}
}

// subscription is a claimer with its waiting claim.
type subscription struct {
	thread.Claimer
	observe func(name string, err error, took time.Duration)
	work    []thread.Assignment // owned by the goroutine of run
}

func (s *subscription) assign(o *op) {
	if o.err != nil || len(s.work) > 0 {
		s.observe(o.name, o.err, 0)
		s.Assign(*o.claim, s.work, o.err)
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

// splitReady splits waiting claims into those with free capacity and the others.
func (c *committer) splitReady(claims []*op) (ready, others []*op) {
	for _, o := range claims {
		if len(c.options.capacities(o.claim)) > 0 {
			ready = append(ready, o)
		} else {
			others = append(others, o)
		}
	}
	return ready, others
}

// refreshCapacity updates the waiting claims with the current capacity of their claimers. It asks
// them without holding mu; a subscription that ends in the meantime waits for its answer.
func (c *committer) refreshCapacity() {
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
		*o.claim = o.claimer.Capacity()
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
