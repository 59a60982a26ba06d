package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mailroom"
)

// Renewal is a worker's sign of life.
type Renewal struct {
	Worker string
	Round  int64 // the last claim round whose answer it has
	Held   []mailroom.Claim
}

// Renewed is the answer to a Renewal.
type Renewed struct {
	Until time.Time        // the lease's end
	Lost  []mailroom.Claim // of those held, no longer this worker's
	Stops []Stop           // of those held, asked to stop
	Steer []string         // runs of those held, with steered messages
}

// Stop says that a run was asked to stop.
type Stop struct {
	Run    string
	Reason mailroom.Reason
}

// deadRetention is how long the row of a dead worker tells which agents it served;
// one from elsewhere may come back within that time.
const deadRetention = 24 * time.Hour

// duplicateRetention is how long the row of a dead worker stays although another one tells
// the same: for that long the worker hears that its lease was lost.
const duplicateRetention = 10 * time.Minute

// frees is how many claims of a lost worker one operation takes away, and freesBytes
// how much flushed text of theirs it reads, to the end of one run's.
const (
	expireBatch = 100
	expireBytes = 4 << 20
)

// LeaseTime is how long a worker owns its claims without renewal.
func (l *Ledger) LeaseTime() time.Duration { return l.options.Lease }

// Register adds a worker with a new id and a fresh lease; it returns the lease's
// end.
func (l *Ledger) Register(ctx context.Context, w mailroom.Worker) (time.Time, error) {
	o := op{name: "register", rank: rankRenew, workers: []string{w.ID}}
	return run(ctx, l, o, func(b *batch) (time.Time, error) {
		if b.workers[w.ID] != nil {
			return time.Time{}, mailroom.Errorf(mailroom.CodeConflict, "worker id %s was used before", w.ID)
		}
		one := mailroom.Use{Workers: 1}
		if err := b.checkQuota(w.Owner, one); err != nil {
			return time.Time{}, err
		}
		b.workerChanges[w.Owner] = b.workerChanges[w.Owner].Plus(one)
		row := w
		row.StartedAt, row.LeaseUntil = b.now, b.now.Add(b.l.options.Lease)
		b.saveWorker(&row)
		return row.LeaseUntil, nil
	})
}

// Renew extends a worker's lease, for all its claims at once. A claim of the
// named round, or an earlier one, which the worker does not hold is released in
// the same transaction: its answer was lost.
func (l *Ledger) Renew(ctx context.Context, in Renewal) (Renewed, error) {
	threads, err := l.claimedThreads(ctx, in.Worker, 0)
	if err != nil {
		return Renewed{}, err
	}
	held := map[string]mailroom.Claim{}
	for _, c := range in.Held {
		held[c.Run] = c
		threads = append(threads, c.Thread)
	}
	o := op{name: "renew", rank: rankRenew, workers: []string{in.Worker}, threads: threads}
	return run(ctx, l, o, func(b *batch) (Renewed, error) { return b.renew(in, threads, held) })
}

func (b *batch) renew(in Renewal, threads []string, held map[string]mailroom.Claim) (Renewed, error) {
	w, err := b.worker(in.Worker)
	if err != nil {
		return Renewed{}, err
	}
	b.checkClock(w)
	w.LeaseUntil = b.now.Add(b.l.options.Lease)
	b.saveWorker(w)
	out := Renewed{Until: w.LeaseUntil}
	for _, id := range threads {
		t := b.thread(id)
		c, holds := held[t.Current]
		if t.Worker != in.Worker || holds && t.Holds(in.Worker, c) || t.Round > in.Round {
			continue
		}
		if err := b.ensure(t, mailroom.ScopeHead); err != nil {
			return Renewed{}, err
		}
		t.ReleaseUnheld(in.Worker, in.Round, b.now)
	}
	for _, c := range in.Held {
		t := b.thread(c.Thread)
		if !t.Holds(in.Worker, c) {
			out.Lost = append(out.Lost, c)
			continue
		}
		r := t.Run(c.Run)
		if r.Stop != "" {
			out.Stops = append(out.Stops, Stop{Run: c.Run, Reason: r.Stop})
		}
		if len(r.Steers) > 0 {
			out.Steer = append(out.Steer, r.ID)
		}
	}
	return out, nil
}

// claimedThreads are the threads whose current run a worker holds, at most limit.
func (l *Ledger) claimedThreads(ctx context.Context, worker string, limit int) ([]string, error) {
	var ids []string
	err := l.View(ctx, func(r mailroom.Reader) error {
		ids = nil
		rows, err := r.Threads(mailroom.ThreadQuery{Worker: worker, Limit: limit})
		for _, t := range rows {
			ids = append(ids, t.ID)
		}
		return err
	})
	return ids, err
}

// Deregister ends a worker's lease. Claims that it still has are taken away by the
// next sweep.
func (l *Ledger) Deregister(ctx context.Context, worker string) error {
	return l.endWorker(ctx, worker, false, func(*mailroom.Worker, time.Time) bool { return true })
}

// EndLocalWorkers ends the leases of the workers that lived in a process which owned
// this store before: a restart does not wait for a lease. uncharged says that the
// process crashed and that no run caused it: no claim of these workers counts as a
// crash then.
func (l *Ledger) EndLocalWorkers(ctx context.Context, uncharged bool) error {
	return l.endWorkers(ctx, uncharged, func(w *mailroom.Worker, _ time.Time) bool { return w.Local })
}

// Sweep takes away the claims of workers whose lease has run out, strictly
// after its end, except self's: an engine that slept renews before it judges.
// It also ends claims that outlived their deadline or a stop, of every worker
// but self, which ends its own.
func (l *Ledger) Sweep(ctx context.Context, self string) error {
	err := l.endWorkers(ctx, false, func(w *mailroom.Worker, now time.Time) bool {
		return w.ID != self && now.After(w.LeaseUntil)
	})
	if err != nil {
		return err
	}
	if err := l.endOverruns(ctx, self); err != nil {
		return err
	}
	workers, err := l.workers(ctx)
	if err != nil {
		return err
	}
	if err := l.replanAfterClockStep(ctx, workers); err != nil {
		return err
	}
	for _, w := range l.workersToFree(workers) {
		if err := l.freeClaims(ctx, w); err != nil {
			return err
		}
		l.mu.Lock()
		l.freed[w.ID] = true
		l.mu.Unlock()
	}
	if err := l.dropWorkers(ctx, workers); err != nil {
		return err
	}
	return l.dropDeleted(ctx)
}

// workersToFree are the dead workers that may have claims. One that was freed once has
// none for good.
func (l *Ledger) workersToFree(workers []*mailroom.Worker) (dead []*mailroom.Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := map[string]bool{}
	for _, w := range workers {
		switch {
		case !w.Dead:
		case l.freed[w.ID]:
			freed[w.ID] = true
		default:
			dead = append(dead, w)
		}
	}
	l.freed = freed // without those that are gone
	return dead
}

// dropWorkers drops the rows of dead workers that tell nothing any more.
func (l *Ledger) dropWorkers(ctx context.Context, workers []*mailroom.Worker) error {
	now := time.Now()
	newest := map[string]*mailroom.Worker{} // by what they tell
	same := func(w *mailroom.Worker) string { return fmt.Sprintf("%q %q", w.Owner, w.Agents) }
	for _, w := range workers {
		if n := newest[same(w)]; n == nil || n.Dead && (!w.Dead || w.LeaseUntil.After(n.LeaseUntil)) {
			newest[same(w)] = w
		}
	}
	var old []string
	for _, w := range workers {
		if age := now.Sub(w.LeaseUntil); w.Dead && (age >= deadRetention || age >= duplicateRetention && newest[same(w)] != w) {
			old = append(old, w.ID)
		}
	}
	for some := range slices.Chunk(old, expireBatch) {
		o := op{name: "forget", rank: rankRenew, workers: some}
		_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
			b.changes.DropWorkers = append(b.changes.DropWorkers, some...)
			return struct{}{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) workers(ctx context.Context) (workers []*mailroom.Worker, err error) {
	err = l.View(ctx, func(r mailroom.Reader) error {
		workers, err = r.Workers()
		return err
	})
	return workers, err
}

// endWorkers marks the live workers dead for which ended holds.
func (l *Ledger) endWorkers(ctx context.Context, uncharged bool, ended func(*mailroom.Worker, time.Time) bool) error {
	workers, err := l.workers(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, w := range workers {
		if !w.Dead && ended(w, now) {
			if err := l.endWorker(ctx, w.ID, uncharged, ended); err != nil {
				return err
			}
		}
	}
	return nil
}

// endWorker marks one worker dead before its claims are freed, so that it cannot
// renew in between.
func (l *Ledger) endWorker(ctx context.Context, id string, uncharged bool, ended func(*mailroom.Worker, time.Time) bool) error {
	o := op{name: "bury", rank: rankRenew, workers: []string{id}}
	_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
		w := b.workers[id]
		if w != nil && !w.Dead && ended(w, b.now) {
			b.checkClock(w)
			w.Dead, w.Uncharged = true, uncharged
			b.workerChanges[w.Owner] = b.workerChanges[w.Owner].Minus(mailroom.Use{Workers: 1})
			if w.LeaseUntil.After(b.now) {
				w.LeaseUntil = b.now
			}
			b.saveWorker(w)
		}
		return struct{}{}, nil
	})
	return err
}

// freeClaims takes a dead worker's claims away, some at a time.
func (l *Ledger) freeClaims(ctx context.Context, w *mailroom.Worker) error {
	for {
		threads, err := l.claimedThreads(ctx, w.ID, expireBatch)
		if err != nil {
			return err
		}
		if len(threads) == 0 {
			return nil
		}
		o := op{name: "expire", rank: rankPlain, threads: threads}
		if _, err := run(ctx, l, o, func(b *batch) (struct{}, error) { return struct{}{}, b.expire(w, threads) }); err != nil {
			return err
		}
	}
}

// expire takes the claims on threads away from a worker that is dead, after which its
// row does not change. It leaves the rest to the next operation once it has read
// enough.
func (b *batch) expire(worker *mailroom.Worker, threads []string) error {
	read := 0
	for _, id := range threads {
		if read >= expireBytes {
			return nil
		}
		t := b.thread(id)
		if t.Worker != worker.ID {
			continue
		}
		if err := b.ensure(t, mailroom.ScopeHead); err != nil {
			return err
		}
		stored, err := b.tx.Partials(t.Current)
		if err != nil {
			return err
		}
		read += textBytes(stored)
		t.Expire(worker, t.PartialText(t.Current, stored), b.now)
	}
	return nil
}

func textBytes(list []mailroom.Partial) (n int) {
	for _, p := range list {
		n += len(p.Text)
	}
	return n
}

// FailOrphans fails what has been due for at least grace for agents that nobody
// serves: not served (by the caller's configuration), and by no worker that is
// alive or was within grace, or within a day if it is one from elsewhere: a
// laptop that is closed comes back. What a token names for its workers waits for
// them. A node alone never judges: the caller must
// have been up for grace itself.
func (l *Ledger) FailOrphans(ctx context.Context, configured []string, grace time.Duration) error {
	var lost []string
	err := l.View(ctx, func(r mailroom.Reader) error {
		due, err := r.Threads(mailroom.ThreadQuery{OnePerAgent: true})
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
		configured := slices.Concat(configured, mailroom.DeclaredAgents(tokens))
		for _, t := range due {
			if a := t.Due.Agent; a != "" && !slices.Contains(configured, a) && !servedSince(workers, a, time.Now(), grace) {
				lost = append(lost, a)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, agent := range lost {
		o := op{name: "orphan", rank: rankClaim}
		if _, err := run(ctx, l, o, func(b *batch) (struct{}, error) { return struct{}{}, b.failOrphans(agent, grace) }); err != nil {
			return err
		}
	}
	return nil
}

func servedSince(workers []*mailroom.Worker, agent string, now time.Time, grace time.Duration) bool {
	return slices.ContainsFunc(workers, func(w *mailroom.Worker) bool {
		within := grace
		if w.Owner != "" {
			within = max(grace, deadRetention)
		}
		return slices.Contains(w.Agents, agent) && (!w.Dead || w.LeaseUntil.After(now.Add(-within)))
	})
}

func (b *batch) failOrphans(agent string, grace time.Duration) error {
	for _, alone := range []bool{false, true} {
		rows, _, err := b.tx.Due(b.now.Add(-grace), []mailroom.Capacity{{Agent: agent, Slots: expireBatch, LastAttempt: alone}})
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(row *mailroom.Thread) bool { return b.threads[row.ID] != nil })
		n := len(b.order)
		if err := b.load(rows); err != nil {
			return err
		}
		for _, t := range b.order[n:] {
			if err := b.ensure(t, mailroom.ScopeHead); err != nil {
				return err
			}
			t.FailOrphaned(agent, b.now)
		}
	}
	return nil
}
