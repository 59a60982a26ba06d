package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"mailroom"
)

// pulse knows when the store last answered each engine of a node. An engine renews its lease at regular intervals, and
// each renewal is a commit; so a hanging store is noticed without other work.
type pulse struct {
	silence time.Duration // longest regular time between two answers
	engines []*atomic.Int64
}

// follow returns a function that is called with the result of each renewal of one more engine.
func (p *pulse) follow() func(error) {
	last := &atomic.Int64{}
	p.engines = append(p.engines, last)
	return func(err error) {
		if answered(err) {
			last.Store(time.Now().UnixNano())
		}
	}
}

// answered reports whether err is an answer of the store. A store that refuses a commit, because the disk is full or
// the database is down, answers: another process would fare no better. One that lets a renewal time out does not.
func answered(err error) bool {
	gaveUp := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return !gaveUp || mailroom.CodeOf(err) != mailroom.CodeInternal
}

// check returns an error if the store did not answer an engine for too long.
func (p *pulse) check(now time.Time) error {
	for _, last := range p.engines {
		if now.Sub(time.Unix(0, last.Load())) > p.silence {
			return fmt.Errorf("the store has not answered for more than %s", p.silence)
		}
	}
	return nil
}
