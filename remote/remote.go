// Package remote lets an engine work for a server elsewhere: its [Ledger] is
// that server's, over HTTP. The engine is the same as inside, and so are the
// rules: one lease, numbered claims and steps, writes fenced by their claim.
//
// What is not answered is Unavailable, and is repeated: by the engine where it
// repeats it inside too, and here where inside it cannot fail, which is where
// something is read. A server may be away for less than a lease and nothing is
// lost; when it is away for longer, the engine gives its runs up before anybody
// else may claim them.
package remote

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
	"mailroom/bus"
	"mailroom/client"
)

// Options of a Ledger.
type Options struct {
	Agents []string // that are served
	Host   string   // where, to be shown
	PID    int      // to be shown
	// Wait is how long one claim stands; 0 is 20 s. Proxies cut connections
	// that are silent for a minute.
	Wait time.Duration
	// Away, if set, is told why the server is not there, once, while Dial
	// waits for it.
	Away func(error)
	Log  *slog.Logger
}

// Ledger is a server's ledger as far as an engine needs it. Its methods may be
// called concurrently.
type Ledger struct {
	// Set by Dial.
	client  *client.Client
	bus     *bus.Bus
	options Options
	agents  json.RawMessage
	lease   time.Duration

	wake chan struct{} // one slot: there may be more room than before

	// Owned by mu.
	mu      sync.Mutex
	spare   string              // id of a worker that Dial registered and that nobody has yet
	asked   string              // id under which the engine registered last
	worker  string              // what the server calls that worker
	round   int64               // last one that was asked for
	held    map[string]*holding // by run: what was claimed last
	away    int                 // calls in a row that were not answered
	refused error               // why the server wants no more of us
}

// holding is a claim that was handed to the engine and is not settled.
type holding struct {
	claim   mailroom.Claim
	stopped bool // the engine was told to stop it
}

const (
	defaultWait = 20 * time.Second
	firstPause  = 50 * time.Millisecond
)

// Dial registers a worker with the server, so that what it refuses is known at
// once: no such token, no scope for it, an agent that it runs itself. While the
// server is not there Dial waits for it, until ctx ends. Hints and live text
// travel on b, which the engine must be given too.
func Dial(ctx context.Context, c *client.Client, b *bus.Bus, o Options) (*Ledger, error) {
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
		wake: make(chan struct{}, 1), held: map[string]*holding{},
	}
	for first := true; ; first = false {
		out, err := l.register(ctx)
		if err == nil {
			l.spare, l.lease = out.Worker, time.Duration(out.LeaseMS)*time.Millisecond
			return l, nil
		}
		if ctx.Err() != nil || !passing(err) {
			return nil, err
		}
		if first && o.Away != nil {
			o.Away(err)
		}
		l.pause(ctx, err, 5*time.Second)
	}
}

// LeaseTime is how long the server lets a worker own its claims without
// renewal: the Options.Lease of the engine.
func (l *Ledger) LeaseTime() time.Duration { return l.lease }

// Refused returns why the server wants no more of this worker, nil while it
// does. The engine has ended then.
func (l *Ledger) Refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// passing errors go away by themselves: who repeats the call will be answered.
func passing(err error) bool {
	code := mailroom.CodeOf(err)
	return code == mailroom.CodeUnavailable || code == mailroom.CodeRateLimited
}

// heard gives an error of a call the meaning that it has inside. It also counts
// the calls that were not answered.
func (l *Ledger) heard(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || !passing(err) {
		l.away = 0
	} else {
		l.away++
	}
	switch mailroom.CodeOf(err) {
	case mailroom.CodeNotFound: // purged, deleted, or so old that nobody remembers
		return mailroom.Errorf(mailroom.CodeLeaseLost, "the server does not know it any more: %w", err)
	case mailroom.CodeUnauthenticated:
		return l.refuse(err)
	case mailroom.CodeRateLimited:
		return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the server has no time", RetryAfter: retryAfter(err), Cause: err}
	case mailroom.CodeUnavailable:
		l.client.CloseIdle() // connections that were made before may be dead too
	}
	return err
}

// refuse notes what no repeat will change: for the engine the store is closed.
// It is within mu.
func (l *Ledger) refuse(err error) error {
	if l.refused == nil {
		l.refused = err
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "the server refuses this worker: %w", errors.Join(mailroom.ErrStoreClosed, err))
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// pause waits before the next try, the longer the more were not answered, and
// at least as long as the server asked for; at most for longest, unless that was
// more. It ends with ctx.
func (l *Ledger) pause(ctx context.Context, err error, longest time.Duration) {
	l.mu.Lock()
	wait := min(firstPause<<min(l.away, 12), longest)
	l.mu.Unlock()
	wait = wait/2 + rand.N(wait/2+1) // workers that lost one server must not come back all at once
	timer := time.NewTimer(max(wait, retryAfter(err)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// patiently repeats a call until it is answered, or a lease has passed: then
// what it is for is lost.
func patiently[T any](ctx context.Context, l *Ledger, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.lease)
	defer cancel()
	for {
		out, err := call(ctx)
		err = l.heard(err)
		if !passing(err) || errors.Is(err, mailroom.ErrStoreClosed) || ctx.Err() != nil {
			return out, err
		}
		l.pause(ctx, err, l.lease/8)
		if ctx.Err() != nil {
			return out, err
		}
	}
}
