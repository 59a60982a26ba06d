package ledger

import (
	"context"
	"slices"
	"sync"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// A due run whose session is on a server that is gone must not wait for ever. A sweep gives it to all servers after a
// grace. How long a server is gone is on the rows of its workers, so no server announces its end, and a crash needs no
// rule of its own. To move sessions at once would begin them again at each restart of a server, and to move all threads
// of a server would change rows that no run needs.

// watch is the time in which a process has swept the store without a long break.
type watch struct {
	mu          sync.Mutex
	since, last time.Time // guarded by mu; times of sweeps
}

// sweep records a sweep and returns how long the process has swept. A server counts as gone only if
// this one looked for it all the time: not when all servers were off, and not when the database was. A
// break of less than grace/2 does not make another server look gone.
func (w *watch) sweep(now time.Time, grace time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) > max(grace/2, 2*time.Minute) || now.Before(w.last) {
		w.since = now
	}
	w.last = now
	return now.Sub(w.since)
}

// freeSessions lets any server start due runs whose server cannot: it has been gone for
// Options.StickyGrace, or it is that of self and the agent is no longer sticky there. A program on
// another machine then starts a new session.
//
// Only due runs are freed, so a server that comes back late keeps the sessions that no run needed.
func (ws Workers) freeSessions(ctx context.Context, self string, workers []*store.Worker, now time.Time) error {
	node := sharedNode(workers, self)
	if node == "" {
		return nil
	}
	grace := ws.ledger.options.StickyGrace
	watched := ws.ledger.watch.sweep(now, grace) >= grace
	var free []string // Due.Agents
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		free = nil
		due, err := r.Threads(store.ThreadQuery{OnePerAgent: true})
		for _, t := range due {
			agent, of := thread.ParseDueAgent(t.Due.Agent)
			switch {
			case of == "" || of == node && ws.ledger.options.Sticky(agent):
			case of == node || watched && isGone(of, workers, now.Add(-grace)):
				free = append(free, t.Due.Agent)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, due := range free {
		if err := ws.freeDue(ctx, due); err != nil {
			return err
		}
	}
	return nil
}

// freeDue frees the due runs with this Due.Agent, expireBatch at a time.
func (ws Workers) freeDue(ctx context.Context, due string) error {
	wants := []store.Capacity{{Agent: due, Slots: expireBatch}, {Agent: due, Slots: expireBatch, LastAttempt: true}}
	for {
		o := op{name: "release_sticky", rank: rankClaim, due: wants}
		n, err := run(ctx, ws.ledger, o, func(tx *transaction) (int, error) { return tx.freeSessions(wants) })
		if err != nil || n == 0 {
			return err
		}
		agent, node := thread.ParseDueAgent(due)
		ws.ledger.options.Log.WarnContext(ctx,
			"runs leave the server of their session; any server may start them with the transcript",
			"agent", agent, "server", node, "runs", n)
	}
}

// freeSessions frees the due runs of these wants and returns how many it changed.
func (tx *transaction) freeSessions(wants []store.Capacity) (n int, err error) {
	for _, w := range wants {
		due, _, err := tx.rows.loadDue(tx.now(), w)
		if err != nil {
			return n, err
		}
		for _, t := range due {
			if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
				return n, err
			}
			if t.FreeSession(w.Agent, tx.now()) {
				n++
			}
		}
	}
	return n, nil
}

// sharedNode returns the id of a worker's server among others on the store; "" if it is the only one.
func sharedNode(workers []*store.Worker, id string) string {
	for _, w := range workers {
		if w.ID == id && !w.Local {
			return w.Node
		}
	}
	return ""
}

// isGone reports whether no worker of a server has had a lease since a time.
func isGone(node string, workers []*store.Worker, since time.Time) bool {
	return !slices.ContainsFunc(workers, func(w *store.Worker) bool {
		return w.Node == node && (!w.Dead || w.LeaseUntil.After(since))
	})
}
