package ledger

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// Revocation ends a token.
type Revocation struct {
	Name string // name of the row of the revoked token
	// Cancel cancels the open runs of the name's threads that were created before the revocation.
	Cancel bool
	By     string // name of the caller that cancels the runs
}

// Revoked says what a revocation ended: runs, leases and derived tokens.
type Revoked struct {
	Cancelled int // runs, including those that were asked to stop
	Open      int // runs of the name's threads that have not ended, without Cancel
}

const (
	// maxRevokedRuns bounds the runs that a transaction cancels, and so the time in which others wait for it.
	maxRevokedRuns = 500
	// revokeScan is how many open runs are read at a time, of all owners.
	revokeScan = 1000
)

// openStatuses are the statuses of runs that have not ended.
func openStatuses() []mailroom.Status {
	return []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting}
}

// RevokeToken revokes a token and cancels nothing, see Revoke.
func (as Accounts) RevokeToken(ctx context.Context, name string) error {
	_, err := as.Revoke(ctx, Revocation{Name: name})
	return err
}

// Revoke revokes a token, drops what was derived from it, ends the leases of its workers, which are bound to its name,
// so that the next token of the name does not get their claims, and cancels its runs, all in one transaction. What goes
// beyond [maxRevokedRuns] is cancelled in further ones, which a repeat after a crash makes too. Its name keeps its
// threads and reservations. A token that acts for another one is dropped.
func (as Accounts) Revoke(ctx context.Context, in Revocation) (out Revoked, err error) {
	plan, ended := revocation{in: in}, revocationEnd{}
	for {
		if err := as.read(ctx, &plan, time.Time{}); err != nil {
			return out, err
		}
		if ended, err = as.revoke(ctx, &plan); !errors.Is(err, errRegistered) {
			break
		}
	}
	if err != nil {
		return out, err
	}
	ctx = WithCaller(context.WithoutCancel(ctx), nil) // of the server: the caller may have ended itself
	out.Cancelled = ended.cancelled
	for in.Cancel { // ends with a look that finds nothing: runs may have come after the first one
		if err := as.read(ctx, &plan, ended.at); err != nil || len(plan.threads) == 0 {
			if err != nil {
				return out, err
			}
			break
		}
		n, err := as.cancelMore(ctx, &plan, ended.at)
		if out.Cancelled += n; err != nil {
			return out, err
		}
		if n == 0 { // all of them ended by themselves since the look
			break
		}
	}
	for _, w := range ended.workers {
		if err := as.ledger.Workers().freeClaims(ctx, w); err != nil {
			return out, err
		}
	}
	if ended.ofToken && !in.Cancel {
		out.Open, err = as.countOpen(ctx, in.Name)
	}
	return out, err
}

// revocation is what a transaction that revokes a token needs.
type revocation struct {
	in      Revocation
	workers []string            // live ones of the token
	threads []string            // threads with runs to cancel
	runs    map[string][]string // runs by thread, the newest first
}

// revocationEnd is what a transaction that revokes a token did.
type revocationEnd struct {
	ofToken   bool      // it has a name of its own
	at        time.Time // time of the revocation
	workers   []*store.Worker
	cancelled int
}

// read reads the workers of a token, and the newest open runs of its threads that were created until a time; zero:
// until now. Runs that were asked to stop are left out.
func (as Accounts) read(ctx context.Context, plan *revocation, until time.Time) error {
	plan.workers, plan.threads, plan.runs = nil, nil, map[string][]string{}
	return as.ledger.View(ctx, func(r store.Reader) error {
		workers, err := r.Workers()
		if err != nil {
			return err
		}
		for _, w := range workers {
			if w.Owner == plan.in.Name && !w.Dead {
				plan.workers = append(plan.workers, w.ID)
			}
		}
		if !plan.in.Cancel {
			return nil
		}
		return plan.readRuns(r, until)
	})
}

// readRuns reads the open runs of all owners, the newest first, until it has seen as many of the token as the store
// counts: none for a token without open runs. An index of the open runs by owner would cost each run two writes.
func (p *revocation) readRuns(r store.Reader, until time.Time) error {
	counts, err := r.Count(store.CountQuery{Owner: &p.in.Name, Statuses: openStatuses()})
	if err != nil {
		return err
	}
	owned, left := map[string]bool{}, counts.Sum()
	for from, found := int64(0), 0; left > 0 && found < maxRevokedRuns; {
		rows, err := r.Runs(store.RunQuery{Statuses: openStatuses(), From: from, Limit: revokeScan})
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := p.readOwners(r, rows, owned); err != nil {
			return err
		}
		for _, row := range rows {
			from = row.Key
			if owned[row.Thread] {
				left--
			}
			if !owned[row.Thread] || row.Stop != "" || !until.IsZero() && row.CreatedAt.After(until) || found >= maxRevokedRuns {
				continue
			}
			if found++; p.runs[row.Thread] == nil {
				p.threads = append(p.threads, row.Thread)
			}
			p.runs[row.Thread] = append(p.runs[row.Thread], row.ID)
		}
	}
	return nil
}

// readOwners records in owned which threads of these runs belong to the name of the token.
func (p *revocation) readOwners(r store.Reader, runs []*mailroom.Run, owned map[string]bool) error {
	var ids []string
	for _, row := range runs {
		if _, known := owned[row.Thread]; !known {
			owned[row.Thread] = false
			ids = append(ids, row.Thread)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: ids})
	for _, t := range rows {
		owned[t.ID] = t.Owner == p.in.Name
	}
	return err
}

// op returns an operation that locks and loads the workers, threads and runs of the plan.
func (p *revocation) op(name string, topics ...string) op {
	o := op{name: name, rank: rankPlain, topics: topics, workers: p.workers, threads: p.threads,
		queues: len(p.threads) > 0}
	for _, id := range p.threads {
		o.runs = append(o.runs, p.runs[id]...)
	}
	return o
}

// revoke is the transaction of a revocation. It returns errRegistered if a worker registered since the plan was read.
func (as Accounts) revoke(ctx context.Context, plan *revocation) (revocationEnd, error) {
	name := plan.in.Name
	revoke := func(tx *transaction) (end revocationEnd, err error) {
		changed := false
		there, err := tx.rows.token(name)
		switch {
		case err != nil:
			return end, err
		case there == nil:
			return end, mailroom.Errorf(mailroom.CodeNotFound, "no token %q", name)
		case there.Terms.Kind != auth.KindToken && plan.in.Cancel:
			return end, mailroom.Errorf(mailroom.CodeInvalid,
				"%q acts for %s, whose threads have the runs: revoke it without cancelling, or cancel runs by their thread",
				name, there.Terms.For)
		}
		if end.ofToken = there.Terms.Kind == auth.KindToken; end.ofToken {
			if end.workers, err = liveWorkersOf(tx, name, plan.workers); err != nil {
				return end, err
			}
		}
		if err := plan.load(tx); err != nil {
			return end, err
		}
		if err := dropDerived(tx, there); err != nil {
			return end, err
		}
		switch {
		case !end.ofToken:
			tx.dropToken(name)
			return end, recordToken(tx, "token.revoke", there, nil)
		case there.RevokedAt.IsZero():
			there.RevokedAt, changed = tx.now(), true
			tx.saveToken(there)
		}
		for _, w := range end.workers {
			endLease(tx, w, true) // the runs are not to blame
		}
		end.at = there.RevokedAt
		end.cancelled, err = plan.cancel(tx, end.at)
		if err != nil || !changed && end.cancelled == 0 {
			return end, err
		}
		return end, recordToken(tx, "token.revoke", there, map[string]string{"cancelled_runs": strconv.Itoa(end.cancelled)})
	}
	o := plan.op("revoke token", topicTokens, topicAgents)
	o.audits = true
	return run(ctx, as.ledger, o, revoke)
}

// liveWorkersOf returns the live workers of an owner, which must be among those that were loaded.
func liveWorkersOf(tx *transaction, owner string, loaded []string) (live []*store.Worker, err error) {
	all, err := tx.allWorkers()
	for _, w := range all {
		switch {
		case w.Owner != owner || w.Dead:
		case !slices.Contains(loaded, w.ID):
			return nil, errRegistered
		default:
			live = append(live, w)
		}
	}
	return live, err
}

// cancelMore cancels further runs of a token that was revoked at a time. The name may have another token since, whose
// runs go on.
func (as Accounts) cancelMore(ctx context.Context, plan *revocation, revokedAt time.Time) (int, error) {
	return run(ctx, as.ledger, plan.op("cancel revoked"), func(tx *transaction) (int, error) {
		if err := plan.load(tx); err != nil {
			return 0, err
		}
		return plan.cancel(tx, revokedAt)
	})
}

// load loads what cancel changes.
func (p *revocation) load(tx *transaction) error {
	for _, id := range p.threads {
		if err := tx.rows.ensure(tx.rows.thread(id), thread.ScopeAll); err != nil {
			return err
		}
	}
	return nil
}

// cancel cancels the runs of the plan that were created until a time, in each thread the newest first, so that none
// starts because the one before it was cancelled.
func (p *revocation) cancel(tx *transaction, until time.Time) (n int, err error) {
	for _, id := range p.threads {
		t := tx.rows.thread(id)
		if t.Owner != p.in.Name || !t.DeletedAt.IsZero() { // deleted since, and created by another
			continue
		}
		for _, run := range p.runs[id] {
			r := t.Run(run)
			if r == nil || r.Status.Finished() || r.Stop != "" || r.CreatedAt.After(until) {
				continue
			}
			if _, err := t.Cancel(run, p.in.By, tx.now()); err != nil {
				return n, abortBatch{err} // the token is revoked already: a bug
			}
			n++
		}
	}
	return n, nil
}

// countOpen counts the open runs of an owner's threads.
func (as Accounts) countOpen(ctx context.Context, owner string) (n int, err error) {
	err = as.ledger.View(ctx, func(r store.Reader) error {
		counts, err := r.Count(store.CountQuery{Owner: &owner, Statuses: openStatuses()})
		n = counts.Sum()
		return err
	})
	return n, err
}
