package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/internal/retry"
	"mailroom/store"
)

// LedgerOptions are options of a Ledger.
type LedgerOptions struct {
	Agents []string // names of the agents that the worker serves
	Host   string   // name of the machine, shown in the list of workers
	PID    int      // process id, shown in the list of workers
	// Retry says how failures of the runs are retried. A field that is zero is taken from the server.
	Retry retry.Policy
	// Wait bounds one long poll for claims; 0 is 20 s. Proxies close connections
	// that are idle for a minute.
	Wait time.Duration
	// OnOutage, if set, is called once with the reason when Dial cannot reach the
	// server and retries.
	OnOutage func(error)
	Log      *slog.Logger
}

// Ledger implements engine.Ledger over HTTP. Its methods may be called concurrently.
//
// An unanswered call has the code unavailable. The engine retries writes, as it does inside the server. The ledger
// retries reads, which inside the server cannot fail for lack of an answer.
//
// Claims fence all writes, so a worker that wrongly believes to hold a run can do no harm. A request to claim waits
// at the server until a run is due, like the request of an engine inside the server. Each request has a round number.
// A repeated round returns the runs of that round that the worker still holds; the server finds them in the rows of
// the threads. So the server needs no memory for a lost answer or a restart. The hints that an engine inside the
// server gets from the bus come to this package with the answers to steps, text and renewals.
type Ledger struct {
	// Set by Dial.
	client  *client.Client
	bus     *bus.Bus
	options LedgerOptions
	agents  json.RawMessage
	lease   time.Duration

	wake chan struct{} // one slot: the engine may have more free slots

	// mu guards the fields below.
	mu       sync.Mutex
	spare    string              // id of the worker that Dial registered, until Register uses it
	local    string              // the engine's id of its current worker
	worker   string              // the server's id of the engine's current worker
	contract int                 // number of the worker contract in the last answer to a claim
	round    int64               // number of the last round of claims
	answered int64               // number of the last round of claims that was answered
	held     map[string]*holding // by run: the last claim of the run
	entered  map[string]string   // by run: the id of the claim that the engine has got and the server has not settled
	failures int                 // unanswered calls in a row
	refused  error               // why the server rejects this worker for good
}

// holding is a claim that the engine has got and has not settled yet.
type holding struct {
	claim   mailroom.Claim
	stopped bool // the engine knows that the run was asked to stop
}

const (
	defaultWait = 20 * time.Second
	firstPause  = 50 * time.Millisecond
)

// Dial registers a worker with the server. It fails at once if the server rejects the worker (an unknown token, a
// missing scope, an agent that the server runs itself), or if something other than a Mailroom server answers. While the
// server is unreachable, Dial retries until ctx ends. Hints and live text travel on b, which the engine must use too.
func Dial(ctx context.Context, c *client.Client, b *bus.Bus, o LedgerOptions) (*Ledger, error) {
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	agents, err := json.Marshal(o.Agents)
	if err != nil {
		return nil, fmt.Errorf("encode the names of agents: %w", err)
	}
	l := &Ledger{
		client: c, bus: b, options: o, agents: agents,
		wake: make(chan struct{}, 1), held: map[string]*holding{}, entered: map[string]string{},
	}
	for first := true; ; first = false {
		out, err := l.register(ctx)
		if err == nil {
			l.contract = out.Contract
			l.spare, l.lease = out.Worker, time.Duration(out.LeaseMS)*time.Millisecond
			return l, nil
		}
		if ctx.Err() != nil || !retryable(err) || errors.Is(err, client.ErrForeign) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, l.explain(err)
		}
		if first && o.OnOutage != nil {
			o.OnOutage(err)
		}
		l.pause(ctx, err, 5*time.Second)
	}
}

// LeaseTime returns the server's lease time, which becomes Options.Lease of the engine.
func (l *Ledger) LeaseTime() time.Duration { return l.lease }

// Refused returns why the server rejects this worker for good, or nil if the server accepts it. A rejection ends the
// engine.
func (l *Ledger) Refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// retryable reports whether a repeated call may succeed.
func retryable(err error) bool {
	code := mailroom.CodeOf(err)
	return code == mailroom.CodeUnavailable || code == mailroom.CodeRateLimited
}

// onAnswer counts unanswered calls, and converts the error of a call to the error that the ledger inside the server
// would return.
func (l *Ledger) onAnswer(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || !retryable(err) {
		l.failures = 0
	} else {
		l.failures++
	}
	switch mailroom.CodeOf(err) {
	case mailroom.CodeNotFound: // the thread or the run was deleted
		return mailroom.Errorf(mailroom.CodeLeaseLost, "the server does not know the claim: %w", err)
	case mailroom.CodeUnauthenticated:
		return l.refuse(err)
	case mailroom.CodeInvalid:
		return l.explain(err)
	case mailroom.CodeRateLimited:
		return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the server is rate limiting this worker",
			RetryAfter: retryAfter(err), Cause: err}
	case mailroom.CodeUnavailable:
		l.client.CloseIdle() // other kept connections to the server may be dead too
	}
	return err
}

// explain adds advice to the error of an older server that does not know a part of a request. The caller holds mu.
func (l *Ledger) explain(err error) error {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok || e.Code != mailroom.CodeInvalid || l.contract >= api.WorkerContract {
		return err
	}
	for _, f := range e.Fields {
		if f.Message == "unknown field" {
			return &mailroom.Error{Code: mailroom.CodeInvalid, Fields: e.Fields, Message: fmt.Sprintf(
				"the server is older than this worker and does not know %s: update the server", f.Location)}
		}
	}
	return err
}

// refuse records that the server rejects this worker for good, and returns the rejection as the error of a closed
// store, which ends the engine. The caller holds mu.
func (l *Ledger) refuse(err error) error {
	if l.refused == nil {
		l.refused = err
	}
	return mailroom.Errorf(mailroom.CodeUnavailable,
		"the server refuses this worker: %w", errors.Join(store.ErrClosed, err))
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// pause waits before the next request: exponential backoff with jitter, at most longest, but at least the server's
// Retry-After. The wait ends early with ctx.
func (l *Ledger) pause(ctx context.Context, err error, longest time.Duration) {
	l.mu.Lock()
	wait := min(firstPause<<min(l.failures, 12), longest)
	l.mu.Unlock()
	wait = wait/2 + rand.N(wait/2+1) // jitter, because many workers lose the same server at the same time
	timer := time.NewTimer(max(wait, retryAfter(err)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// retryRead repeats a read until the server answers or a lease has passed, because then the claim is lost anyway.
func retryRead[T any](ctx context.Context, l *Ledger, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.lease)
	defer cancel()
	for {
		out, err := call(ctx)
		err = l.onAnswer(err)
		if !retryable(err) || errors.Is(err, store.ErrClosed) || ctx.Err() != nil {
			return out, err
		}
		l.pause(ctx, err, l.lease/8)
		if ctx.Err() != nil {
			return out, err
		}
	}
}
