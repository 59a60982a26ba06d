package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// deadRetention is how long the row of a dead worker records which agents it served. A remote
// worker may come back within that time.
const deadRetention = 24 * time.Hour

// duplicateRetention is how long the row of a dead worker is kept if another row has the same owner
// and agents. Until then the worker learns that its lease was lost.
const duplicateRetention = 10 * time.Minute

// expireBatch is how many claims of a dead worker one operation takes away, and expireBytes how much flushed text it
// reads, and content of uploads it drops, before it stops at the next run.
const (
	expireBatch = 100
	expireBytes = 4 << 20
)

// Workers are the operations of workers: their leases, claims and attempts.
type Workers struct{ ledger *Ledger }

// Workers returns the operations of workers.
func (l *Ledger) Workers() Workers { return Workers{l} }

// LaneWorkers returns the operations of workers in one lane, from 0. A worker in a lane is served by the commits of
// that lane. It finds the due runs of other lanes as it finds those of another server.
func (l *Ledger) LaneWorkers(lane int) Workers {
	fixed := *l
	fixed.lane = lane
	return Workers{&fixed}
}

// View reads one consistent snapshot.
func (ws Workers) View(ctx context.Context, f func(store.Reader) error) error {
	return ws.ledger.View(ctx, f)
}

// AskClaimers asks the claimers for their capacity again.
func (ws Workers) AskClaimers() { ws.ledger.AskClaimers() }

// LeaseTime returns how long a worker keeps its claims without a renewal.
func (ws Workers) LeaseTime() time.Duration { return ws.ledger.options.Lease }

// Register adds a worker with a new id and returns the end of its lease.
func (ws Workers) Register(ctx context.Context, w store.Worker) (time.Time, error) {
	o := op{name: "register", rank: rankRenew, topics: []string{topicAgents}, workers: []string{w.ID}}
	return run(ctx, ws.ledger, o, func(tx *transaction) (time.Time, error) {
		if tx.rows.workers[w.ID] != nil {
			return time.Time{}, mailroom.Errorf(mailroom.CodeConflict, "worker id %s was used before; use a new id", w.ID)
		}
		if err := tx.checkQuota(w.Owner, auth.Use{Workers: 1}); err != nil {
			return time.Time{}, err
		}
		tx.changes.countWorkers(w.Owner, 1)
		row := w
		row.StartedAt, row.LeaseUntil = tx.now(), tx.now().Add(tx.options.Lease)
		tx.saveWorker(&row)
		return row.LeaseUntil, nil
	})
}

// Renew extends a worker's lease, for all of its claims. Unless in.Keep is set, a claim of the given round, or an
// earlier one, that the worker does not hold is released in the same transaction: the answer to that claim request was
// lost.
func (ws Workers) Renew(ctx context.Context, in thread.Renewal) (thread.Renewed, error) {
	threads, err := ws.claimedThreads(ctx, in.Worker, 0)
	if err != nil {
		return thread.Renewed{}, err
	}
	// By run: an agent that ignored its stop may still work on an attempt when the worker has the next one too.
	held := map[string][]mailroom.Claim{}
	for _, c := range in.Held {
		held[c.Run] = append(held[c.Run], c)
		threads = append(threads, c.Thread)
	}
	o := op{name: "renew", rank: rankRenew, workers: []string{in.Worker}, threads: threads}
	return run(ctx, ws.ledger, o, func(tx *transaction) (thread.Renewed, error) { return tx.renew(in, threads, held) })
}

func (tx *transaction) renew(in thread.Renewal, threads []string,
	held map[string][]mailroom.Claim) (thread.Renewed, error) {
	w, err := tx.rows.worker(in.Worker)
	if err != nil {
		return thread.Renewed{}, err
	}
	tx.checkClock(w)
	w.LeaseUntil = tx.now().Add(tx.options.Lease)
	tx.saveWorker(w)
	out := thread.Renewed{Until: w.LeaseUntil, WaitsOn: map[mailroom.Claim]string{}}
	for _, id := range threads {
		t := tx.rows.thread(id)
		if in.Keep && t.Worker == in.Worker {
			out.Claims = append(out.Claims, mailroom.Claim{Thread: id, Run: t.Current, Attempt: t.Run(t.Current).Attempt})
		}
		holds := func(c mailroom.Claim) bool { return t.Holds(in.Worker, c) }
		if in.Keep || t.Worker != in.Worker || t.Round > in.Round || slices.ContainsFunc(held[t.Current], holds) {
			continue
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return thread.Renewed{}, err
		}
		t.Revoke(thread.Revoke{Cause: thread.RevokeUnheld, Worker: in.Worker, Round: in.Round}, tx.now())
	}
	for _, c := range append(out.Claims, in.Held...) {
		t := tx.rows.thread(c.Thread)
		if !t.Holds(in.Worker, c) {
			out.Lost = append(out.Lost, c)
			continue
		}
		if text := thread.WaitsOn(in.WaitsOn[c]); thread.SetWaitsOn(t, c, text, tx.now()) && text != "" {
			out.WaitsOn[c] = text
		}
		r := t.Run(c.Run)
		if r.Stop != "" {
			out.Stops = append(out.Stops, thread.Stop{Run: c.Run, Reason: r.Stop})
		}
		if len(r.Steers) > 0 {
			out.Steer = append(out.Steer, r.ID)
		}
	}
	return out, nil
}

// claimedThreads returns the threads whose current run the worker holds, at most limit.
func (ws Workers) claimedThreads(ctx context.Context, worker string, limit int) ([]string, error) {
	var ids []string
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		ids = nil
		rows, err := r.Threads(store.ThreadQuery{Worker: worker, Limit: limit})
		for _, t := range rows {
			ids = append(ids, t.ID)
		}
		return err
	})
	return ids, err
}

// Deregister ends a worker's lease. The next sweep takes away its remaining claims. With in.Release the same
// transaction gives back those that the worker has not begun to work on.
func (ws Workers) Deregister(ctx context.Context, in thread.Leave) error {
	if !in.Release {
		return ws.endWorker(ctx, in.Worker, false, func(*store.Worker, time.Time) bool { return true })
	}
	threads, err := ws.claimedThreads(ctx, in.Worker, 0)
	if err != nil {
		return err
	}
	o := op{name: "end_lease", rank: rankRenew, workers: []string{in.Worker}, threads: threads}
	return perform(ctx, ws.ledger, o, func(tx *transaction) error { return tx.leave(in) })
}

// leave releases claims that were never entered, and ends the lease. It looks for claims again: one may have been
// committed since the operation named its threads.
func (tx *transaction) leave(in thread.Leave) error {
	w := tx.rows.workers[in.Worker]
	if w == nil || w.Dead {
		return nil
	}
	held, err := tx.rows.stored.Threads(store.ThreadQuery{Worker: in.Worker})
	if err != nil {
		return err
	}
	for _, row := range held {
		t, err := tx.rows.lock(row.ID)
		if err != nil {
			return err
		}
		if t == nil || t.Worker != in.Worker ||
			slices.ContainsFunc(in.Entered, func(c mailroom.Claim) bool { return c.Run == t.Current && t.Holds(in.Worker, c) }) {
			continue
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return err
		}
		t.Revoke(thread.Revoke{Cause: thread.RevokeUnentered, Worker: in.Worker}, tx.now())
	}
	endLease(tx, w, false)
	return nil
}

// EndLocalWorkers ends the leases of the workers of the process that used this store before, so
// that a restart does not wait for them. With uncharged, which is for a crash that no run caused,
// their claims do not count as crashes.
func (ws Workers) EndLocalWorkers(ctx context.Context, uncharged bool) error {
	return ws.endWorkers(ctx, uncharged, func(w *store.Worker, _ time.Time) bool { return w.Local })
}

// EndNodeWorkers is EndLocalWorkers for the workers of an earlier process of this server, on a store that the
// server shares with others.
func (ws Workers) EndNodeWorkers(ctx context.Context, node string, uncharged bool) error {
	return ws.endWorkers(ctx, uncharged, func(w *store.Worker, _ time.Time) bool { return node != "" && w.Node == node })
}

// Sweep takes away the claims of workers whose lease has ended, strictly after its end. It spares
// self, because an engine that slept renews its lease first. It also ends overdue claims of all
// workers but self, which ends its own, ends runs whose deadline has passed, and frees runs that wait for a server that
// is gone.
func (ws Workers) Sweep(ctx context.Context, self string) error {
	err := ws.endWorkers(ctx, false, func(w *store.Worker, now time.Time) bool {
		return w.ID != self && now.After(w.LeaseUntil)
	})
	if err != nil {
		return err
	}
	if err := ws.endOverruns(ctx, self); err != nil {
		return err
	}
	if err := ws.endDeadlines(ctx); err != nil {
		return err
	}
	workers, now, err := ws.workers(ctx)
	if err != nil {
		return err
	}
	if err := ws.replanAfterClockStep(ctx, workers, now); err != nil {
		return err
	}
	for _, w := range ws.ledger.freed.missing(workers) {
		if err := ws.freeClaims(ctx, w); err != nil {
			return err
		}
		ws.ledger.freed.add(w.ID)
	}
	if err := ws.freeSessions(ctx, self, workers, now); err != nil {
		return err
	}
	if err := ws.sweepLimits(ctx, now); err != nil {
		return err
	}
	if err := ws.dropWorkers(ctx, workers, now); err != nil {
		return err
	}
	return ws.ledger.dropDeleted(ctx)
}

// missing returns the dead workers that may have claims. A worker that was freed once can have none.
func (f *freedWorkers) missing(workers []*store.Worker) (dead []*store.Worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	freed := map[string]bool{}
	for _, w := range workers {
		switch {
		case !w.Dead:
		case f.ids[w.ID]:
			freed[w.ID] = true
		default:
			dead = append(dead, w)
		}
	}
	f.ids = freed // forget the workers whose rows were dropped
	return dead
}

func (f *freedWorkers) add(worker string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids[worker] = true
}

// dropWorkers drops the rows of dead workers that are no longer needed.
func (ws Workers) dropWorkers(ctx context.Context, workers []*store.Worker, now time.Time) error {
	newest := map[string]*store.Worker{} // by owner and agents
	same := func(w *store.Worker) string { return fmt.Sprintf("%q %q", w.Owner, w.Agents) }
	for _, w := range workers {
		if n := newest[same(w)]; n == nil || n.Dead && (!w.Dead || w.LeaseUntil.After(n.LeaseUntil)) {
			newest[same(w)] = w
		}
	}
	grace := ws.ledger.options.StickyGrace // isGone reads the rows
	var old []string
	for _, w := range workers {
		if age := now.Sub(w.LeaseUntil); w.Dead &&
			(age >= max(deadRetention, grace) || age >= max(duplicateRetention, grace) && newest[same(w)] != w) {
			old = append(old, w.ID)
		}
	}
	for some := range slices.Chunk(old, expireBatch) {
		o := op{name: "end_workers", rank: rankRenew, topics: []string{topicAgents}, workers: some, pauses: true}
		err := perform(ctx, ws.ledger, o, func(tx *transaction) error {
			tx.changes.dropWorkers(some)
			for key, p := range tx.rows.pauses {
				if _, worker := p.Of(); worker != "" && slices.Contains(some, worker) {
					tx.dropPause(key)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// workers returns all worker rows, and the time that judges their leases.
func (ws Workers) workers(ctx context.Context) (workers []*store.Worker, now time.Time, err error) {
	err = ws.ledger.View(ctx, func(r store.Reader) error {
		now = r.Now()
		workers, err = r.Workers()
		return err
	})
	return workers, now, err
}

// endWorkers ends the leases of the live workers for which ended reports true.
func (ws Workers) endWorkers(ctx context.Context, uncharged bool, ended func(*store.Worker, time.Time) bool) error {
	workers, now, err := ws.workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if !w.Dead && ended(w, now) {
			if err := ws.endWorker(ctx, w.ID, uncharged, ended); err != nil {
				return err
			}
		}
	}
	return nil
}

// endWorker marks one worker as dead before its claims are freed, so that it cannot renew in
// between.
func (ws Workers) endWorker(ctx context.Context, id string, uncharged bool,
	ended func(*store.Worker, time.Time) bool) error {
	o := op{name: "end_lease", rank: rankRenew, workers: []string{id}}
	return perform(ctx, ws.ledger, o, func(tx *transaction) error {
		w := tx.rows.workers[id]
		if w != nil && !w.Dead && ended(w, tx.now()) {
			endLease(tx, w, uncharged)
		}
		return nil
	})
}

// endLease marks a live worker as dead. The ledger refuses all further writes under the worker's claims.
func endLease(tx *transaction, w *store.Worker, uncharged bool) {
	tx.checkClock(w)
	w.Dead, w.Uncharged = true, uncharged
	tx.changes.countWorkers(w.Owner, -1)
	if w.LeaseUntil.After(tx.now()) {
		w.LeaseUntil = tx.now()
	}
	tx.saveWorker(w)
}

// freeClaims takes away a dead worker's claims, expireBatch at a time.
func (ws Workers) freeClaims(ctx context.Context, w *store.Worker) error {
	for {
		threads, err := ws.claimedThreads(ctx, w.ID, expireBatch)
		if err != nil {
			return err
		}
		if len(threads) == 0 {
			return nil
		}
		o := op{name: "expire", rank: rankPlain, threads: threads, queues: true}
		if err := perform(ctx, ws.ledger, o, func(tx *transaction) error { return tx.expire(w, threads) }); err != nil {
			return err
		}
	}
}

// expire takes away the claims of a dead worker on threads. After expireBytes of flushed text and of uploads it leaves
// the rest to the next operation.
func (tx *transaction) expire(worker *store.Worker, threads []string) error {
	read := 0
	for _, id := range threads {
		if read >= expireBytes {
			return nil
		}
		t := tx.rows.thread(id)
		if t.Worker != worker.ID {
			continue
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return err
		}
		stored, err := tx.rows.stored.Partials(t.Current)
		if err != nil {
			return err
		}
		read += textBytes(stored) + thread.UploadBytes(t)
		text := t.Partials.Text(t.Current, stored)
		t.Revoke(thread.Revoke{Cause: thread.RevokeDead, Worker: worker.ID, Uncharged: worker.Uncharged, Text: text},
			tx.now())
	}
	return nil
}

func textBytes(list []store.Partial) (n int) {
	for _, p := range list {
		n += len(p.Text)
	}
	return n
}

// SweepFor sweeps, and fails orphans if in has a Grace.
func (ws Workers) SweepFor(ctx context.Context, in thread.Sweep) error {
	if err := ws.Sweep(ctx, in.Worker); err != nil || in.Grace == 0 {
		return err
	}
	return ws.FailOrphans(ctx, in.Agents, in.Grace)
}

// FailOrphans fails runs that have been due for at least grace for agents that no worker serves:
// the agent is not configured or paused, no token declares it, and no worker that is alive, or died within
// grace, serves it. For remote workers the period is at least deadRetention, because a closed
// laptop comes back. The caller must have been running for grace itself.
func (ws Workers) FailOrphans(ctx context.Context, configured []string, grace time.Duration) error {
	var lost []string
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		due, err := r.Threads(store.ThreadQuery{OnePerAgent: true})
		if err != nil {
			return err
		}
		workers, err := r.Workers()
		if err != nil {
			return err
		}
		tokens, err := r.Tokens()
		if err != nil {
			return err
		}
		rows, err := r.Agents()
		if err != nil {
			return err
		}
		configured := slices.Concat(configured, auth.DeclaredAgents(tokens, r.Now()))
		for _, t := range due {
			if a, _ := thread.ParseDueAgent(t.Due.Agent); a != "" && !slices.Contains(configured, a) &&
				!servedSince(workers, a, r.Now(), grace) && !isPaused(rows.Pauses, a) {
				lost = append(lost, t.Due.Agent)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, due := range lost {
		o := op{name: "adopt_unclaimed", rank: rankClaim}
		if err := perform(ctx, ws.ledger, o, func(tx *transaction) error { return tx.failOrphans(due, grace) }); err != nil {
			return err
		}
	}
	return nil
}

func servedSince(workers []*store.Worker, agent string, now time.Time, grace time.Duration) bool {
	return slices.ContainsFunc(workers, func(w *store.Worker) bool {
		within := grace
		if w.Owner != "" {
			within = max(grace, deadRetention)
		}
		return slices.Contains(w.Agents, agent) && (!w.Dead || w.LeaseUntil.After(now.Add(-within)))
	})
}

func (tx *transaction) failOrphans(due string, grace time.Duration) error {
	for _, alone := range []bool{false, true} {
		fresh, _, err := tx.rows.loadDue(tx.now().Add(-grace),
			store.Capacity{Agent: due, Slots: expireBatch, LastAttempt: alone})
		if err != nil {
			return err
		}
		for _, t := range fresh {
			if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
				return err
			}
			t.FailOrphaned(due, tx.now())
		}
	}
	return nil
}
