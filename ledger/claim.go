package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"mailroom"
)

// ClaimRequest asks for due work.
type ClaimRequest struct {
	Worker      string
	Round       int64          // numbers the worker's claims, growing
	Slots       int            // runs wanted at most
	Agents      map[string]int // of them at most, per agent served
	LastAttempt bool           // a run on its last chance may be among them
	Held        map[string]int // runs that the worker has, by the owners of their threads
	FairSlots   int            // runs wanted beyond Slots, of owners without a run there
	Wait        bool           // stand until something is due

	found int // owned by the goroutine of Ledger.Run
}

// Assignment is one claimed run.
type Assignment struct {
	Claim  mailroom.Claim
	Run    *mailroom.Run
	Thread *mailroom.Thread
	Input  []mailroom.Message // nil: to be read from the log
	Due    time.Time          // since when it could have been claimed
	At     time.Time          // when it was
}

// capacities are the questions to the store, one per agent and kind.
func (c *ClaimRequest) capacities() []mailroom.Capacity {
	var wants []mailroom.Capacity
	for _, agent := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[agent] <= 0 || c.Slots <= 0 && c.FairSlots <= 0 {
			continue
		}
		wants = append(wants, mailroom.Capacity{Agent: agent})
		if c.LastAttempt {
			wants = append(wants, mailroom.Capacity{Agent: agent, LastAttempt: true})
		}
	}
	return wants
}

// Claim starts due runs for a worker, at most as many as it asks for. With Wait
// it stands until something is due, and is served at the end of the commit that
// makes it due. When ctx ends it returns what was claimed meanwhile, if
// anything: a claim is never lost on the way.
func (l *Ledger) Claim(ctx context.Context, c ClaimRequest) ([]Assignment, error) {
	o := op{name: "claim", rank: rankClaim, workers: []string{c.Worker}, claim: &c}
	var work []Assignment
	o.apply = func(b *batch) (err error) {
		work, err = b.claim(&c)
		c.found = len(work)
		return err
	}
	if err := l.do(ctx, &o); err != nil {
		return nil, err
	}
	if len(work) == 0 && c.Wait {
		return nil, ctx.Err()
	}
	return work, nil
}

func (b *batch) claim(c *ClaimRequest) ([]Assignment, error) {
	if _, err := b.worker(c.Worker); err != nil {
		return nil, err
	}
	r := &round{ClaimRequest: c, slots: c.Slots, lastAttempt: c.LastAttempt, agents: map[string]int{}, shares: newShares(c.Held, c.Slots)}
	var passed []*mailroom.ThreadState
	if r.slots > 0 {
		due, err := b.candidates(r, nil)
		if err != nil {
			return nil, err
		}
		if passed, err = b.start(r, due, r.shares.full); err != nil {
			return nil, err
		}
	}
	if len(passed) > 0 && r.slots > 0 { // others first, then whoever is left
		due, err := b.candidates(r, r.shares.remaining(r.shares.limit()))
		if err != nil {
			return nil, err
		}
		if _, err := b.start(r, due, r.shares.full); err != nil {
			return nil, err
		}
		if _, err := b.start(r, passed, nil); err != nil {
			return nil, err
		}
	}
	if r.slots <= 0 && c.Slots > 0 {
		clear(b.l.idle) // there may be more
	}
	if r.slots <= 0 && c.FairSlots > 0 {
		if err := b.claimFairSlots(r); err != nil {
			return nil, err
		}
	}
	return r.work, nil
}

// claimFairSlots starts runs of owners that have none, beyond the slots.
func (b *batch) claimFairSlots(r *round) error {
	b.l.nextFair = b.now.Add(b.l.options.Poll)
	r.slots = r.FairSlots
	due, err := b.candidates(r, r.shares.remaining(1))
	if err != nil {
		return err
	}
	_, err = b.start(r, due, func(owner string) bool { return r.shares.held[owner] > 0 })
	return err
}

// round is a claim that is being made.
type round struct {
	*ClaimRequest
	slots       int            // still free
	lastAttempt bool           // a run on its last chance may still be started
	agents      map[string]int // started, by agent
	shares      *shares
	work        []Assignment
}

// start starts due runs while there are slots. It returns the threads of owners
// that it passed over.
func (b *batch) start(r *round, due []*mailroom.ThreadState, over func(owner string) bool) (passed []*mailroom.ThreadState, err error) {
	for _, t := range due {
		d := t.Due
		if r.slots <= 0 {
			break
		}
		if !matches(d, mailroom.Capacity{Agent: d.Agent, LastAttempt: d.LastAttempt}, b.now) || r.agents[d.Agent] >= r.Agents[d.Agent] || d.LastAttempt && !r.lastAttempt {
			continue
		}
		if over != nil && over(t.Owner) {
			passed = append(passed, t)
			continue
		}
		if err := b.ensure(t, mailroom.ScopeHead); err != nil {
			return nil, err
		}
		run := t.Claim(b.l.claimant(r.ClaimRequest, d.Agent), d.Agent, d.LastAttempt, b.now)
		if run == nil {
			continue
		}
		r.slots--
		r.agents[d.Agent]++
		r.lastAttempt = r.lastAttempt && !d.LastAttempt
		r.shares.add(t.Owner)
		row := t.Thread
		r.work = append(r.work, Assignment{
			Claim:  mailroom.Claim{Thread: t.ID, Run: run.ID, Attempt: run.Attempt},
			Run:    copyRun(run),
			Thread: &row,
			Input:  t.Input(run),
			Due:    d.At,
			At:     b.now,
		})
	}
	return passed, nil
}

// candidates are the due threads of a round, in order: those that this batch has
// loaded as they are now, the others as the store has them. A share leaves out
// what is more than that of an owner among the stored ones.
func (b *batch) candidates(r *round, share *mailroom.Share) ([]*mailroom.ThreadState, error) {
	var due []*mailroom.ThreadState
	for _, w := range r.capacities() {
		for _, t := range b.order {
			if matches(t.Due, w, b.now) {
				due = append(due, t)
			}
		}
		if known, ok := b.l.idle[w]; ok && known.After(b.now) && r.Wait {
			continue
		}
		w.Share, w.Slots = share, min(r.slots, r.Agents[w.Agent]-r.agents[w.Agent])
		if w.Slots <= 0 {
			continue
		}
		stored, err := b.dueThreads(w)
		if err != nil {
			return nil, err
		}
		due = append(due, stored...)
	}
	slices.SortStableFunc(due, func(x, y *mailroom.ThreadState) int {
		newest := cmp.Compare(uint64(x.Key-1), uint64(y.Key-1)) // that of a thread which is not written yet is 0
		return cmp.Or(cmp.Compare(x.Due.Priority, y.Due.Priority), x.Due.At.Compare(y.Due.At), newest)
	})
	return due, nil
}

func matches(d mailroom.Due, w mailroom.Capacity, now time.Time) bool {
	return !d.At.IsZero() && !d.At.After(now) && d.Agent == w.Agent && d.LastAttempt == w.LastAttempt
}

// dueThreads asks the store for due threads that this batch has not loaded yet.
func (b *batch) dueThreads(w mailroom.Capacity) ([]*mailroom.ThreadState, error) {
	for id, d := range b.wasDue {
		if !matches(d, w, b.now) {
			continue
		}
		// The store may answer with this one, which we have.
		w.Slots++
		if w.Share != nil {
			w.Share.Held[b.threads[id].Owner]--
		}
	}
	rows, next, err := b.tx.Due(b.now, []mailroom.Capacity{w})
	if err != nil {
		return nil, err
	}
	if len(rows) < w.Slots && w.Share == nil {
		if next.IsZero() {
			next = b.now.Add(b.l.options.Poll)
		}
		b.l.idle[mailroom.Capacity{Agent: w.Agent, LastAttempt: w.LastAttempt}] = next
	}
	fresh := rows[:0]
	for _, row := range rows {
		if b.threads[row.ID] == nil {
			fresh = append(fresh, row)
		}
	}
	n := len(b.order)
	if err := b.load(fresh); err != nil {
		return nil, err
	}
	return slices.Clone(b.order[n:]), nil
}

// ClaimedRun returns the run of a claim as it is now, whoever holds it.
func (l *Ledger) ClaimedRun(ctx context.Context, c mailroom.Claim) (*mailroom.Run, error) {
	var runs []*mailroom.Run
	err := l.View(ctx, func(r mailroom.Reader) (err error) {
		runs, err = r.Runs(mailroom.RunQuery{IDs: []string{c.Run}})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "run %s is no longer there", c.Run)
	}
	return runs[0], nil
}
