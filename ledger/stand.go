package ledger

import (
	"context"
	"time"
)

// Claimer is a worker that takes what is due as long as it stands. Its methods
// are called by the committer: they must be quick, and must not call the ledger.
type Claimer interface {
	// Capacity says what it has room for now, and numbers the round that may serve
	// it. It is asked at the beginning of each batch; without slots it is
	// passed over. Wait is ignored.
	Capacity() ClaimRequest
	// Assign hands over what a round claimed, after the claims were published
	// and before anything later is: who subscribes here to the threads misses
	// no stop and no steer. After an error it is unknown whether anything was
	// claimed.
	Assign(asked ClaimRequest, work []Assignment, err error)
}

// Subscribe serves t at the end of every batch, with what the batch made due among
// the rest, until ctx ends. Then, or with the error that closed the ledger, it
// returns after the last Take.
func (l *Ledger) Subscribe(ctx context.Context, t Claimer) error {
	s := &subscription{Claimer: t, observe: l.options.Observe.Operation}
	o := &op{name: "claim", rank: rankClaim, claimer: s, claim: &ClaimRequest{Wait: true}, done: make(chan error, 1)}
	o.apply = func(b *batch) (err error) {
		s.work, err = b.claim(o.claim)
		return err
	}
	if err := l.enqueue(o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if l.withdraw(o) {
		return nil
	}
	<-o.done
	return nil
}

// Wake has the takers asked again: one has room that it did not have before.
func (l *Ledger) Wake() { l.signal() }

// subscription is a taker with the claim that is made for it.
type subscription struct {
	Claimer
	observe func(name string, err error, took time.Duration)
	work    []Assignment // owned by the goroutine of Run
}

func (s *subscription) assign(o *op) {
	if o.err != nil || len(s.work) > 0 {
		s.observe(o.name, o.err, 0)
		s.Assign(*o.claim, s.work, o.err)
	}
	s.work = nil
}

// requeueClaim puts a claim back until the next batch. It reports false if its caller
// has gone.
func (l *Ledger) requeueClaim(o *op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.inBatch = false
	switch {
	case !o.abandoned:
		l.claims = append(l.claims, o)
	case o.claimer != nil:
		o.done <- nil
	}
	return !o.abandoned
}

// readyClaims parts the standing claims that want something from those that do not.
// It is within mu.
func (l *Ledger) readyClaims() (hungry, others []*op) {
	for _, o := range l.claims {
		if len(o.claim.capacities()) > 0 {
			hungry = append(hungry, o)
		} else {
			others = append(others, o)
		}
	}
	return hungry, others
}

// refreshCapacity brings what the takers have room for up to date. It is within mu.
func (l *Ledger) refreshCapacity() {
	for _, o := range l.claims {
		if o.claimer != nil {
			*o.claim = o.claimer.Capacity()
			o.claim.Wait = true
			o.workers = []string{o.claim.Worker}
		}
	}
}
