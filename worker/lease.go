package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

// register begins a lease for a new worker.
func (l *Ledger) register(ctx context.Context) (api.Claims, error) {
	none := 0
	out, err := l.client.Work.Claim(ctx, api.ClaimRequest{
		Agents: l.agents, Max: &none, Host: l.options.Host, PID: l.options.PID,
		Retry: api.FormatRetryPolicy(l.options.Retry), // checked by the server at registration, before the first claim
	}, 0)
	switch {
	case err != nil && retryable(err):
		err = l.onAnswer(err)
	case err == nil && (out.Worker == "" || out.LeaseMS <= 0):
		err = mailroom.Errorf(mailroom.CodeInvalid, "its answer names no worker or no lease: build this worker with the "+
			"module of the server's version")
	case err == nil && out.Contract < 1:
		err = mailroom.Errorf(mailroom.CodeInvalid, "it is older than this worker; update the server, or build the worker "+
			"with the module of the server's version")
	}
	return out, err
}

// Register implements engine.Leases. The server assigns a worker id of its own; only the engine knows the id in w.
func (l *Ledger) Register(ctx context.Context, w store.Worker) (time.Time, error) {
	l.mu.Lock()
	worker := l.spare
	l.spare = ""
	l.mu.Unlock()
	if worker != "" { // Dial has registered this worker, maybe some time ago
		if out, err := l.client.Work.Renew(ctx, worker, api.Renewal{Held: []string{}}); err == nil {
			l.setWorker(w.ID, worker)
			return out.LeaseUntil, nil
		}
	}
	out, err := l.register(ctx)
	if err != nil {
		return time.Time{}, l.leaseError(ctx, err)
	}
	l.setWorker(w.ID, out.Worker)
	l.setContract(out.Contract)
	return out.LeaseUntil, nil
}

// setWorker records that the engine's worker id local stands for the server's worker id worker.
func (l *Ledger) setWorker(local, worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.local, l.worker = local, worker
	clear(l.entered) // the claims ended with the lease of the worker before
	l.options.Log.Info("worker registered", "worker", worker, "agents", l.options.Agents)
}

// setContract records the number of the worker contract in an answer of the server. It can change with each answer: a
// server is updated, or several serve this worker.
func (l *Ledger) setContract(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contract = number
}

// serverID returns the server's id for the worker with the engine's id. The error says that the worker has lost its
// lease if another one has taken its place.
func (l *Ledger) serverID(worker string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if worker != l.local {
		return "", mailroom.Errorf(mailroom.CodeLeaseLost, "worker %s has lost its lease", worker)
	}
	return l.worker, nil
}

// leaseError converts the error of a call that registers, renews or claims. If the call got no answer, leaseError
// waits before it returns, because the engine retries at once. Other errors of these calls are final.
func (l *Ledger) leaseError(ctx context.Context, err error) error {
	switch mailroom.CodeOf(err) {
	case mailroom.CodeForbidden, mailroom.CodeConflict, mailroom.CodeInvalid, mailroom.CodeTooLarge:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.refuse(l.explain(err))
	}
	if err = l.onAnswer(err); retryable(err) && !errors.Is(err, store.ErrClosed) {
		l.pause(ctx, err, l.lease/8)
	}
	return err
}

// Renew implements engine.Leases. One request gets a third of a lease, which leaves time for a second request over a
// new connection.
func (l *Ledger) Renew(ctx context.Context, in thread.Renewal) (thread.Renewed, error) {
	worker, err := l.serverID(in.Worker)
	if err != nil {
		return thread.Renewed{}, err
	}
	ask := api.Renewal{Round: in.Round, Held: []string{}, WaitsOn: map[string]string{}}
	of := map[string]mailroom.Claim{}
	for _, c := range in.Held {
		id := api.ClaimID(c)
		of[id] = c
		ask.Held = append(ask.Held, id)
		if text := in.WaitsOn[c]; text != "" {
			ask.WaitsOn[id] = text
		}
	}
	try, cancel := context.WithTimeout(ctx, l.lease/3)
	defer cancel()
	got, err := l.client.Work.Renew(try, worker, ask)
	if len(ask.WaitsOn) > 0 && mailroom.CodeOf(err) == mailroom.CodeInvalid {
		ask.WaitsOn = nil // a server of an older version refuses the field waits_on
		got, err = l.client.Work.Renew(try, worker, ask)
	}
	if err != nil {
		return thread.Renewed{}, l.leaseError(ctx, err)
	}
	_ = l.onAnswer(nil) // an answer resets the count of failed calls
	out := thread.Renewed{Until: got.LeaseUntil}
	for _, id := range got.Lost {
		l.forget(of[id])
		out.Lost = append(out.Lost, of[id])
	}
	for _, stop := range got.Stop {
		out.Stops = append(out.Stops, thread.Stop{Run: of[stop.Claim].Run, Reason: stop.Reason})
	}
	for _, id := range got.Steered {
		out.Steer = append(out.Steer, of[id].Run)
	}
	return out, nil
}

// contractEntered is the first number of the worker contract under which a leaving worker names the claims that it has
// begun to work on.
const contractEntered = 4

// Deregister implements engine.Leases. The server releases claims whose answer never arrived at this worker, and does
// not count them as lost. A renewal that holds no claim first gives back the claims that the engine could not settle.
// An older server releases all claims of the worker at that renewal. A server that does not answer is no error: the
// worker has ended in order, and its lease runs out.
func (l *Ledger) Deregister(ctx context.Context, in thread.Leave) error {
	id, err := l.serverID(in.Worker)
	if err != nil {
		return nil // the lease of this worker has ended
	}
	l.mu.Lock()
	round, older := l.answered, l.contract < contractEntered
	entered := slices.AppendSeq([]string{}, maps.Values(l.entered))
	if older {
		round, entered = l.round, nil
	}
	l.mu.Unlock()
	if older || len(entered) > 0 {
		_, err = l.client.Work.Renew(ctx, id, api.Renewal{Round: round, Held: []string{}})
	}
	if err == nil {
		err = l.client.Work.Leave(ctx, id, entered)
	}
	if err != nil && retryable(err) {
		l.options.Log.Warn("worker left without an answer; its lease runs out", "worker", id, "error", err)
		return nil
	}
	return l.onAnswer(err)
}

// SweepFor implements engine.Leases. It does nothing, because the server sweeps.
func (l *Ledger) SweepFor(context.Context, thread.Sweep) error { return nil }
