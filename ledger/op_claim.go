package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// capacities returns the store's queries for a request, one per agent and kind. A sticky agent has
// further ones for the threads with a session on the worker's server.
func (o *Options) capacities(c *thread.ClaimRequest) []store.Capacity {
	var wants []store.Capacity
	add := func(agent string) {
		wants = append(wants, store.Capacity{Agent: agent})
		if c.LastAttempt {
			wants = append(wants, store.Capacity{Agent: agent, LastAttempt: true})
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[agent] <= 0 || c.Slots <= 0 && c.FairSlots <= 0 {
			continue
		}
		add(thread.DueAgent(agent, ""))
		if c.Node != "" && o.Sticky(agent) {
			add(thread.DueAgent(agent, c.Node))
		}
	}
	return wants
}

// expectedWants returns the wants for which the operations will probably ask the store, so that it can find the
// threads with the rest of what the batch reads. It uses the clock of this process, because a wrong guess costs only
// time.
func (tx *transaction) expectedWants(ops []*op) []store.Capacity {
	var wants []store.Capacity
	now := time.Now()
	for _, o := range ops {
		wants = append(wants, o.due...)
		if o.claim == nil {
			continue
		}
		s := newShares(o.claim.Held, o.claim.Slots)
		for _, w := range tx.options.capacities(o.claim) {
			idle, ok := tx.forecast.idle[w]
			if ok && idle.After(now) && o.claim.Wait {
				continue
			}
			agent, _ := thread.ParseDueAgent(w.Agent)
			most := o.claim.Agents[agent]
			if w.Slots = min(o.claim.Slots, most); w.Slots > 0 {
				wants = addSlots(wants, w)
				if ok {
					continue // few threads are due, so that their owners need no shares
				}
				w.Slots, w.Share = 2*w.Slots+o.claim.FairSlots, s.remaining(s.limit())
			} else {
				w.Slots, w.Share = min(o.claim.FairSlots, most), s.remaining(1)
			}
			wants = append(wants, w)
		}
	}
	return wants
}

// addSlots adds w to wants, without a share. Claims that ask for the same runs share one want, which has the slots
// of all of them.
func addSlots(wants []store.Capacity, w store.Capacity) []store.Capacity {
	for i, x := range wants {
		if x.Share == nil && x.Agent == w.Agent && x.LastAttempt == w.LastAttempt {
			wants[i].Slots += w.Slots
			return wants
		}
	}
	return append(wants, w)
}

// Claim starts due runs for a worker, at most as many as requested. With Wait it waits until a run
// is due and is served by the commit that makes it due. When ctx ends during that commit, Claim
// returns the claimed runs: a claim is never lost.
func (ws Workers) Claim(ctx context.Context, c thread.ClaimRequest) ([]thread.ClaimedRun, error) {
	o := op{name: "claim", rank: rankClaim, workers: []string{c.Worker}, claim: &c}
	var work []thread.ClaimedRun
	o.apply = func(tx *transaction) (err error) {
		work, err = tx.claim(&c)
		o.found = len(work)
		return err
	}
	o.ofCaller(ctx)
	if err := ws.ledger.committer().do(ctx, &o); err != nil {
		return nil, err
	}
	if len(work) == 0 && c.Wait {
		return nil, ctx.Err()
	}
	return work, nil
}

func (tx *transaction) claim(c *thread.ClaimRequest) ([]thread.ClaimedRun, error) {
	if _, err := tx.rows.worker(c.Worker); err != nil {
		return nil, err
	}
	if err := recount(tx); err != nil {
		return nil, err
	}
	c = tx.withoutPaused(c)
	c, err := withoutSpent(tx, c)
	if err == nil {
		c, err = withinLimits(tx, c)
	}
	if err != nil {
		return nil, err
	}
	r := &round{ClaimRequest: c, slots: c.Slots, lastAttempt: c.LastAttempt, agents: map[string]int{},
		shares: newShares(c.Held, c.Slots)}
	if r.shares.spent, err = spentOwners(tx); err != nil {
		return nil, err
	}
	for ; r.slots > 0 && r.looks < maxGateLooks && (r.looks == 0 || r.gated > 0); r.looks++ {
		r.gated = 0
		if err := look(tx, r); err != nil {
			return nil, err
		}
	}
	if r.slots <= 0 && c.Slots > 0 {
		clear(tx.forecast.idle) // more runs may be due
	}
	if r.slots <= 0 && c.FairSlots > 0 {
		if err := tx.claimFairSlots(r); err != nil {
			return nil, err
		}
	}
	if len(r.full.owners) > 0 && len(r.work) == 0 && r.gated == 0 {
		restFull(tx, c, r.full.next)
	}
	noteProbes(tx, c.Worker, r.work)
	return r.work, nil
}

// look starts due runs while slots are free: of owners below their share first, then of the rest. Threads that it sends
// to the gates of their keys use no slot, and the threads behind them need another look.
func look(tx *transaction, r *round) error {
	due, err := tx.candidates(r, r.shares.first(r.slots))
	if err != nil {
		return err
	}
	passed, err := tx.start(r, due, r.shares.full)
	if err != nil {
		return err
	}
	if len(r.full.owners) > 0 && r.slots > 0 {
		if err := r.full.findAll(tx); err != nil {
			return err
		}
	}
	if len(passed)+len(r.full.owners) == 0 || r.slots <= 0 {
		return nil
	}
	if due, err = tx.candidates(r, r.full.without(r.shares.remaining(r.shares.limit()))); err != nil {
		return err
	}
	if _, err := tx.start(r, due, r.shares.full); err != nil {
		return err
	}
	_, err = tx.start(r, passed, r.shares.barred)
	return err
}

// claimFairSlots starts runs beyond the slots for owners that have none on the worker.
func (tx *transaction) claimFairSlots(r *round) error {
	tx.forecast.nextFair = tx.now().Add(tx.options.Poll)
	r.slots = r.FairSlots
	due, err := tx.candidates(r, r.full.without(r.shares.remaining(1)))
	if err != nil {
		return err
	}
	_, err = tx.start(r, due, func(owner string) bool { return r.shares.held[owner] > 0 || r.shares.barred(owner) })
	return err
}

// round is the state of one request to claim runs.
type round struct {
	*thread.ClaimRequest
	slots       int            // free slots left
	lastAttempt bool           // a run on its last attempt may still be started
	agents      map[string]int // started runs, by agent
	shares      *shares
	full        fullOwners // left out
	gated       int        // threads that the last look has sent to the gate of their key
	looks       int        // so far
	work        []thread.ClaimedRun
}

// start starts due runs while slots are free. It returns the threads it skipped because over
// reported that their owner has its share.
func (tx *transaction) start(r *round, due []*thread.State,
	over func(owner string) bool) (passed []*thread.State, err error) {
	if err := loadOwnerMeters(tx, due); err != nil {
		return nil, err
	}
	if err := loadKeyMeters(tx, due); err != nil {
		return nil, err
	}
	for _, t := range due {
		d := t.Due
		agent, _ := thread.ParseDueAgent(d.Agent)
		if r.slots <= 0 {
			break
		}
		if _, waits := thread.GateAgent(d.Agent); waits { // since this claim found it due
			continue
		}
		if !matches(d, store.Capacity{Agent: d.Agent, LastAttempt: d.LastAttempt}, tx.now()) ||
			r.agents[agent] >= r.Agents[agent] || d.LastAttempt && !r.lastAttempt {
			continue
		}
		if isFull(tx, r, t.Owner) {
			continue
		}
		if over != nil && over(t.Owner) {
			passed = append(passed, t)
			continue
		}
		if err := tx.rows.ensure(t, thread.ScopeHead); err != nil {
			return nil, err
		}
		by := tx.options.claimant(r.ClaimRequest, agent)
		by.Meters = holds(tx, agent, t.Owner)
		door := admitKeys(tx, r, &by, agent)
		run := t.Claim(by, d.Agent, d.LastAttempt, tx.now())
		if door.err != nil {
			return nil, door.err
		}
		if door.refused { // the next run of the key is judged by the count
			count(tx, t)
		}
		if run == nil {
			continue
		}
		tx.rows.counts = tx.rows.counts || len(t.Meters) > 0
		take(tx, t, agent)
		door.take(tx)
		r.slots--
		r.agents[agent]++
		r.lastAttempt = r.lastAttempt && !d.LastAttempt
		r.shares.add(t.Owner)
		row := t.Thread
		r.work = append(r.work, thread.ClaimedRun{
			Claim:  mailroom.Claim{Thread: t.ID, Run: run.ID, Attempt: run.Attempt},
			Run:    copyRun(run),
			Thread: &row,
			Input:  t.Input(run),
			Due:    d.At,
			At:     tx.now(),
		})
	}
	return passed, nil
}

// candidates returns the due threads of a round, in order: the loaded ones in their current state,
// the others from the store. share bounds the stored ones per owner.
func (tx *transaction) candidates(r *round, share *store.Share) ([]*thread.State, error) {
	var due []*thread.State
	for _, w := range tx.options.capacities(r.ClaimRequest) {
		for _, t := range tx.rows.order {
			if matches(t.Due, w, tx.now()) {
				due = append(due, t)
			}
		}
		if known, ok := tx.forecast.idle[w]; ok && known.After(tx.now()) && r.Wait {
			continue
		}
		agent, _ := thread.ParseDueAgent(w.Agent)
		w.Share, w.Slots = share, min(r.slots, r.Agents[agent]-r.agents[agent])
		if w.Slots <= 0 {
			continue
		}
		if r.looks > 0 {
			w.Slots = max(w.Slots, gateLook)
		}
		stored, err := tx.dueThreads(w)
		if err != nil {
			return nil, err
		}
		due = append(due, stored...)
	}
	slices.SortStableFunc(due, byDue)
	return due, nil
}

// byDue orders threads as claims start them.
func byDue(x, y *thread.State) int {
	newest := cmp.Compare(uint64(x.Key-1), uint64(y.Key-1)) // an unwritten thread has key 0 and sorts last
	return cmp.Or(cmp.Compare(x.Due.Priority, y.Due.Priority), x.Due.At.Compare(y.Due.At), newest)
}

func matches(d mailroom.Due, w store.Capacity, now time.Time) bool {
	return !d.At.IsZero() && !d.At.After(now) && d.Agent == w.Agent && d.LastAttempt == w.LastAttempt
}

// dueThreads loads due threads that the batch does not have yet.
func (tx *transaction) dueThreads(w store.Capacity) ([]*thread.State, error) {
	fresh, next, err := tx.rows.loadDue(tx.now(), w)
	if err != nil {
		return nil, err
	}
	if len(fresh) < w.Slots && w.Share == nil {
		if next.IsZero() {
			next = tx.now().Add(tx.options.Poll)
		}
		tx.forecast.idle[store.Capacity{Agent: w.Agent, LastAttempt: w.LastAttempt}] = next
	}
	return fresh, nil
}

// ClaimedRun returns the current row of a claim's run, whether or not the claim is still valid.
func (ws Workers) ClaimedRun(ctx context.Context, c mailroom.Claim) (*mailroom.Run, error) {
	var runs []*mailroom.Run
	err := ws.ledger.View(ctx, func(r store.Reader) (err error) {
		runs, err = r.Runs(store.RunQuery{IDs: []string{c.Run}})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "run %s no longer exists", c.Run)
	}
	return runs[0], nil
}
