package exec

import (
	"context"
	"sync"
	"time"
)

// aloneTimeout bounds the wait for the first process of an agent. A process that says nothing must not keep the
// others from their own time limits for longer.
const aloneTimeout = versionTimeout

// Alone lets the first process of a program run alone until it has answered. A program that was installed or updated
// prepares the files of its user when it starts: of two that do so at once one may fail, as opencode does. Several
// agents with the same program share one Alone. The zero value is not usable; see [NewAlone].
type Alone struct {
	turn     chan struct{} // holds a value while no first process runs
	answered chan struct{} // closed after a process has answered
	once     sync.Once
}

// NewAlone returns an Alone whose program has not answered yet.
func NewAlone() *Alone {
	a := &Alone{turn: make(chan struct{}, 1), answered: make(chan struct{})}
	a.turn <- struct{}{}
	return a
}

// enter waits until a process may start, at most for [aloneTimeout]. leave must be called when the process has
// answered, or has ended; ok is whether it answered. A second call of leave does nothing. A nil Alone does not wait.
func (a *Alone) enter(ctx context.Context) (leave func(ok bool)) {
	none := func(bool) {}
	if a == nil {
		return none
	}
	late := time.NewTimer(aloneTimeout)
	defer late.Stop()
	select {
	case <-a.answered:
		return none
	default:
	}
	select {
	case <-a.answered:
		return none
	case <-late.C:
		return none
	case <-ctx.Done():
		return none
	case <-a.turn:
	}
	var once sync.Once
	return func(ok bool) {
		once.Do(func() {
			if ok {
				a.once.Do(func() { close(a.answered) })
			}
			a.turn <- struct{}{}
		})
	}
}
