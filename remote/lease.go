package remote

import (
	"context"
	"errors"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/ledger"
)

// register begins a lease for a new worker.
func (l *Ledger) register(ctx context.Context) (api.Claims, error) {
	none := 0
	out, err := l.client.Claim(ctx, api.ClaimRequest{
		Agents: l.agents, Max: &none, Host: l.options.Host, PID: l.options.PID,
	}, 0)
	if err != nil && passing(err) {
		err = l.heard(err)
	}
	return out, err
}

// Register implements engine.Leases. The id of the worker is for the engine
// alone: the server gives another.
func (l *Ledger) Register(ctx context.Context, w mailroom.Worker) (time.Time, error) {
	l.mu.Lock()
	worker := l.spare
	l.spare = ""
	l.mu.Unlock()
	if worker != "" { // its lease may have begun some time ago
		if out, err := l.client.RenewWorker(ctx, worker, api.Renewal{}); err == nil {
			l.is(w.ID, worker)
			return out.LeaseUntil, nil
		}
	}
	out, err := l.register(ctx)
	if err != nil {
		return time.Time{}, l.settled(ctx, err)
	}
	l.is(w.ID, out.Worker)
	return out.LeaseUntil, nil
}

// is notes who the engine is from now on.
func (l *Ledger) is(asked, worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.worker = asked, worker
	l.options.Log.Info("working", "worker", worker, "agents", l.options.Agents)
}

// known is what the server calls a worker of the engine; one before the last has
// lost its lease.
func (l *Ledger) known(worker string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if worker != l.asked {
		return "", mailroom.Errorf(mailroom.CodeLeaseLost, "worker %s has lost its lease", worker)
	}
	return l.worker, nil
}

// settled is the error of a call that begins or extends a lease, or claims. A
// refusal stays one; after a call without an answer it takes its time, because
// the engine asks again at once.
func (l *Ledger) settled(ctx context.Context, err error) error {
	switch mailroom.CodeOf(err) {
	case mailroom.CodeForbidden, mailroom.CodeConflict, mailroom.CodeInvalid, mailroom.CodeTooLarge:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.refuse(err)
	}
	if err = l.heard(err); passing(err) && !errors.Is(err, mailroom.ErrStoreClosed) {
		l.pause(ctx, err, l.lease/8)
	}
	return err
}

// Renew implements engine.Leases. One try has a third of a lease, so that there
// is time for another over a connection that is not dead.
func (l *Ledger) Renew(ctx context.Context, in ledger.Renewal) (ledger.Renewed, error) {
	worker, err := l.known(in.Worker)
	if err != nil {
		return ledger.Renewed{}, err
	}
	ask := api.Renewal{Round: in.Round}
	of := map[string]mailroom.Claim{}
	for _, c := range in.Held {
		id := api.ClaimID(c)
		of[id] = c
		ask.Held = append(ask.Held, id)
	}
	try, cancel := context.WithTimeout(ctx, l.lease/3)
	defer cancel()
	got, err := l.client.RenewWorker(try, worker, ask)
	if err != nil {
		return ledger.Renewed{}, l.settled(ctx, err)
	}
	_ = l.heard(nil) // which makes nil of nil
	out := ledger.Renewed{Until: got.LeaseUntil}
	for _, id := range got.Lost {
		out.Lost = append(out.Lost, of[id])
	}
	for _, stop := range got.Stop {
		out.Stops = append(out.Stops, ledger.Stop{Run: of[stop.Claim].Run, Reason: stop.Reason})
	}
	for _, id := range got.Steered {
		out.Steer = append(out.Steer, of[id].Run)
	}
	return out, nil
}

// Deregister implements engine.Leases. What was claimed for the worker and never
// arrived is given back before, so that it does not count as lost.
func (l *Ledger) Deregister(ctx context.Context, worker string) error {
	id, err := l.known(worker)
	if err != nil {
		return nil // it has no lease to give up
	}
	l.mu.Lock()
	round := l.round
	l.mu.Unlock()
	if _, err := l.client.RenewWorker(ctx, id, api.Renewal{Round: round}); err != nil {
		return l.heard(err)
	}
	return l.heard(l.client.LeaveWorker(ctx, id))
}

// Sweep implements engine.Leases: the server judges.
func (l *Ledger) Sweep(context.Context, string) error { return nil }

// Orphans implements engine.Leases: the server judges.
func (l *Ledger) Orphans(context.Context, []string, time.Duration) error { return nil }
