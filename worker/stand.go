package worker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/thread"
)

// idle is how often a claimer that has no free slots is asked whether it has some again, unless AskClaimers is
// called.
const idle = time.Second

// AskClaimers implements engine.Leases. It makes ServeClaims ask its claimer again at once.
func (l *Ledger) AskClaimers() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// ServeClaims implements engine.Leases with one long poll after another. A round whose answer is lost is repeated
// under its number, so that the server returns the runs that it has claimed for the round.
func (l *Ledger) ServeClaims(ctx context.Context, t thread.Claimer) error {
	var round thread.ClaimRequest // the unanswered round; its Slots are 0 if every round was answered
	defer func() {
		if round.Slots > 0 {
			t.OnClaimed(round, nil, nil) // the next renewal releases the runs that the server claimed for this round
		}
	}()
	for ctx.Err() == nil {
		want := t.NextClaim()
		switch {
		case want.Slots == 0:
			l.waitForSlots(ctx)
			continue
		case round.Slots > 0 && want.Worker == round.Worker:
			want.Round = round.Round
		}
		round = want
		out, err := l.claim(ctx, t, round)
		switch {
		case err == nil:
			done := round
			round = thread.ClaimRequest{}
			if work := l.claimedRuns(out); len(work) > 0 {
				t.OnClaimed(done, work, nil)
			}
		case errors.Is(err, errOutgrown), ctx.Err() != nil:
		default:
			if err = l.leaseError(ctx, err); retryable(err) {
				if errors.Is(err, store.ErrClosed) {
					return err
				}
				continue
			}
			done := round
			round = thread.ClaimRequest{}
			t.OnClaimed(done, nil, err)
			l.waitForSlots(ctx) // gives the engine time to handle the error
		}
	}
	return nil
}

// waitForSlots waits until the claimer may have free slots.
func (l *Ledger) waitForSlots(ctx context.Context) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-l.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

var errOutgrown = errors.New("the claim no longer fits the slots of the worker")

// claim sends one round. It cancels the request when the claimer no longer has room for the runs that the round asks
// for.
func (l *Ledger) claim(ctx context.Context, t thread.Claimer, round thread.ClaimRequest) (api.Claims, error) {
	worker, err := l.serverID(round.Worker)
	if err != nil {
		return api.Claims{}, err
	}
	slots := map[string]int{} // a remote worker claims no guests: they run only inside the server
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
	go func() { // ends with ctx; this function waits for it below
		defer recovery.Handle(l.options.Log, "a claim", func(p *recovery.Panic) { answered <- answer{err: p} })
		out, err := l.client.Work.Claim(ctx, api.ClaimRequest{
			Worker: worker, Round: round.Round, Agents: agents, Max: &round.Slots, LastAttempt: &round.LastAttempt,
			Retry: api.FormatRetryPolicy(l.options.Retry),
		}, l.options.Wait)
		answered <- answer{out, err}
	}()
	for {
		select {
		case a := <-answered:
			return a.out, a.err
		case <-l.wake:
			if outgrown(round, t.NextClaim()) {
				cancel(errOutgrown)
			}
		}
	}
}

// outgrown reports whether a round asks for runs for which the claimer has no room now: for another worker, without
// free slots, or for an agent that the claimer no longer asks for. More free slots are no reason to cancel a round.
func outgrown(round, now thread.ClaimRequest) bool {
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

// claimedRuns converts the server's answer and records its claims as held by the engine.
func (l *Ledger) claimedRuns(out api.Claims) []thread.ClaimedRun {
	_ = l.onAnswer(nil) // an answer resets the count of failed calls
	l.setContract(out.Contract)
	var work []thread.ClaimedRun
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = max(l.answered, out.Round)
	for _, c := range out.Claims {
		run := c.Mailroom()
		claim := mailroom.Claim{Thread: run.Thread, Run: run.ID, Attempt: run.Attempt}
		l.held[run.ID] = &holding{claim: claim}
		l.entered[run.ID] = c.Claim
		of := &mailroom.Thread{ID: run.Thread}
		if s := c.State; len(s) > 0 && string(s) != "null" {
			of.State = map[string]json.RawMessage{run.Agent: s}
		}
		work = append(work, thread.ClaimedRun{
			Claim: claim, Run: run, Thread: of, Due: run.AvailableAt, At: now,
			Input: append([]mailroom.Message{}, c.Messages...), Limit: time.Duration(c.DeadlineMS) * time.Millisecond,
		})
	}
	return work
}
