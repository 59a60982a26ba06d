package remote

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
	"mailroom/ledger"
)

// idle is how long a taker without room is not asked again, unless it wakes us.
const idle = time.Second

// Wake implements engine.Leases.
func (l *Ledger) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Subscribe implements engine.Leases: one claim after the other, each of which waits
// at the server until something is due. A round whose answer did not arrive is
// asked for again under its number: the server answers with what it has claimed.
func (l *Ledger) Subscribe(ctx context.Context, t ledger.Claimer) error {
	var round ledger.ClaimRequest // the one whose answer is not here; its Slots are 0 if there is none
	defer func() {
		if round.Slots > 0 {
			t.Assign(round, nil, nil) // had it claimed anything, the next renewal gives it back
		}
	}()
	for ctx.Err() == nil {
		want := t.Capacity()
		switch {
		case want.Slots == 0:
			l.rest(ctx)
			continue
		case round.Slots > 0 && want.Worker == round.Worker:
			want.Round = round.Round
		}
		round = want
		out, err := l.claim(ctx, t, round)
		switch {
		case err == nil:
			done := round
			round = ledger.ClaimRequest{}
			if work := l.take(out); len(work) > 0 {
				t.Assign(done, work, nil)
			}
		case errors.Is(err, errMoreRoom), ctx.Err() != nil:
		default:
			if err = l.settled(ctx, err); passing(err) {
				if errors.Is(err, mailroom.ErrStoreClosed) {
					return err
				}
				continue
			}
			done := round
			round = ledger.ClaimRequest{}
			t.Assign(done, nil, err)
			l.rest(ctx) // until the engine has heard
		}
	}
	return nil
}

// rest waits until there may be room.
func (l *Ledger) rest(ctx context.Context) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-l.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

var errMoreRoom = errors.New("there is room for other runs now")

// claim asks for one round. It is called off when there is room for runs that it
// does not ask for, or none any more.
func (l *Ledger) claim(ctx context.Context, t ledger.Claimer, round ledger.ClaimRequest) (api.Claims, error) {
	worker, err := l.known(round.Worker)
	if err != nil {
		return api.Claims{}, err
	}
	slots := map[string]int{} // guests are for the server's own engine
	for name, n := range round.Agents {
		slots[name] = min(n, round.Slots)
	}
	agents, err := json.Marshal(slots)
	if err != nil {
		return api.Claims{}, err
	}
	l.mu.Lock()
	l.round = max(l.round, round.Round)
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type answer struct {
		out api.Claims
		err error
	}
	answered := make(chan answer, 1)
	go func() { // ends with ctx; waited for below
		defer recovery.Handle(l.options.Log, "a claim", func(p *recovery.Panic) { answered <- answer{err: p} })
		out, err := l.client.Claim(ctx, api.ClaimRequest{
			Worker: worker, Round: round.Round, Agents: agents, Max: &round.Slots, LastAttempt: &round.LastAttempt,
		}, l.options.Wait)
		answered <- answer{out, err}
	}()
	for {
		select {
		case a := <-answered:
			return a.out, a.err
		case <-l.wake:
			if outgrown(round, t.Capacity()) {
				cancel(errMoreRoom)
			}
		}
	}
}

// outgrown reports whether a round does not ask for what there is room for now.
// That it could ask for more runs of an agent is no reason to ask anew.
func outgrown(round, now ledger.ClaimRequest) bool {
	if now.Slots == 0 || now.Worker != round.Worker || now.LastAttempt && !round.LastAttempt {
		return true
	}
	for agent := range maps.Keys(now.Agents) {
		if round.Agents[agent] == 0 {
			return true
		}
	}
	return false
}

// take makes of the server's answer what a ledger claims.
func (l *Ledger) take(out api.Claims) []ledger.Assignment {
	_ = l.heard(nil) // which makes nil of nil
	var work []ledger.Assignment
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range out.Claims {
		run := c.Mailroom()
		claim := mailroom.Claim{Thread: run.Thread, Run: run.ID, Attempt: run.Attempt}
		l.held[run.ID] = &holding{claim: claim}
		thread := &mailroom.Thread{ID: run.Thread}
		if s := c.State; len(s) > 0 && string(s) != "null" {
			thread.State = map[string]json.RawMessage{run.Agent: s}
		}
		work = append(work, ledger.Assignment{
			Claim: claim, Run: run, Thread: thread, Due: run.AvailableAt, At: now,
			Input: append([]mailroom.Message{}, c.Messages...),
		})
	}
	return work
}
