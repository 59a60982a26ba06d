package ledger

import (
	"slices"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// transaction is what the operations of a batch see of it: the rows that were read, and what they have changed so far.
// An operation sees the changes of those before it. It does three things:
//
//   - It looks at rows: those it named, which are locked and loaded before it runs ([rows.thread], [rows.token],
//     transaction.project), further ones that it locks on its way ([rows.ensure], [rows.lock]), and, without
//     locks, what it asks the store for ([rows.stored]).
//   - It refuses, with a [mailroom.Error]. The refusal of one operation must not undo the others of its batch, so
//     nothing is undone: an operation checks everything before it changes anything. The tests of this package compare
//     what a transaction would write before and after each refusal.
//   - It changes rows: by the transitions of packages thread and project on the loaded values, and by the methods of
//     transaction and [changes] for all others.
//
// It does not see the store's Write, the queue of the committer, or how operations are answered: these belong to
// [batch].
type transaction struct {
	options *Options
	rows    rows
	changes changes

	// actor is the caller of the present operation, if it records what it does.
	actor *Caller

	forecast forecast
	// freed are the limited agents whose running runs have become fewer.
	freed map[string]bool
	// gates have places that became free. missed are those at which threads wait that another server has locked, with
	// how often they were tried, and tried has how often before this batch.
	gates         map[string]bool
	missed, tried map[string]int
	// full are the owners that the claims of the batch have left out.
	full map[string]bool
	// clockStepped is set when a worker's row shows that the clock stepped back.
	clockStepped *atomic.Bool
}

// forecast is what the committer expects of rows that it has not read, which saves a query for each claim. A wrong
// forecast costs only time. So the forecast of a batch replaces the committer's, without any lock, once the batch is
// committed.
type forecast struct {
	idle     map[store.Capacity]time.Time // earliest time at which work may be due
	noticed  map[string]time.Time         // notices of budgets that are in the store, until the end of their period
	limited  map[string]time.Time         // until when agents are left out of claims, which have no start left
	nextFair time.Time                    // when claimFairSlots runs again at the latest
	barred   map[string]time.Time         // until when a worker is kept from an agent, by store.PauseOn
}

// bar keeps the claims of one worker from an agent until a time. Unlike idle it concerns no other worker.
func (f *forecast) bar(key string, until time.Time) {
	if f.barred == nil {
		f.barred = map[string]time.Time{}
	}
	f.barred[key] = until
}

// barredUntil returns until when a worker is kept from the runs of a want, if it is now.
func (f *forecast) barredUntil(w store.Capacity, worker string, now time.Time) (until time.Time, barred bool) {
	if len(f.barred) == 0 {
		return time.Time{}, false
	}
	agent, _ := thread.ParseDueAgent(w.Agent)
	until = f.barred[store.PauseOn(agent, worker)]
	return until, until.After(now)
}

// now is the time of the transaction.
func (tx *transaction) now() time.Time { return tx.rows.now }

// collect returns the rows that the transaction has to write.
func (tx *transaction) collect() *store.Changes {
	all := tx.changes.write
	all.Use = tx.changedUse()
	for _, t := range tx.rows.order {
		t.Collect(&all)
	}
	for _, p := range tx.rows.projects {
		p.Collect(&all)
	}
	all.Cursors = tx.changes.cursors.collect()
	all.Summaries = append(store.SumUp(all.Summaries), budgetChanges(tx)...)
	collectMeters(tx, &all)
	return &all
}

// forward applies, in the same transaction, what the transitions send to other threads: deliveries, and ends of
// runs that others wait for. The target threads may send in turn.
func (tx *transaction) forward() error {
	for i := 0; i < len(tx.rows.order); i++ {
		sends, leases, ended := tx.rows.order[i].Outbox.Take()
		if len(sends)+len(leases)+len(ended) == 0 {
			continue
		}
		for _, e := range leases {
			if err := forwardLease(tx, e); err != nil {
				return err
			}
		}
		for _, in := range sends {
			if err := tx.forwardSubmit(in); err != nil {
				return err
			}
		}
		for _, e := range ended {
			if err := tx.forwardEnd(e); err != nil {
				return err
			}
		}
		i = -1 // start over: an earlier thread may have sent again
	}
	return nil
}

func (tx *transaction) forwardSubmit(in thread.Submit) error {
	if _, err := tx.rows.lock(in.Thread); err != nil {
		return err
	}
	if err := in.Check(); err != nil {
		return err
	}
	_, err := tx.submit(in, false)
	if in.Origin.Via == reserved.ViaBudget && err != nil && isRefusal(err) { // the budget holds all the same
		tx.options.Log.Warn("question about a budget not asked: its thread takes no message", "thread", in.Thread,
			"error", err)
		return nil
	}
	switch mailroom.CodeOf(err) {
	case mailroom.CodeNotFound, mailroom.CodeForbidden: // another owner has it or may create it
		tx.options.Log.Warn("message of a run dropped: its target thread belongs to another owner",
			"run", in.Parent, "target", in.Thread)
		return nil
	}
	return err
}

func (tx *transaction) forwardEnd(e thread.ChildEnd) error {
	t, err := senderOf(tx, e.Thread, e.Run)
	if err == nil {
		t.OnChildEnd(e, tx.now())
	}
	return err
}

func forwardLease(tx *transaction, e thread.LeaseEnd) error {
	t, err := senderOf(tx, e.Thread, e.Run)
	if err == nil {
		thread.OnLeaseEnd(t, e, tx.now())
	}
	return err
}

// senderOf locks the thread of a run that has sent another one, and loads what the end of that one changes.
func senderOf(tx *transaction, threadID, run string) (*thread.State, error) {
	t, err := tx.rows.lock(threadID)
	if err != nil {
		return nil, err
	}
	if t.Run(run) == nil {
		if err := tx.rows.loadRuns(run); err != nil {
			return nil, err
		}
	}
	return t, tx.rows.ensure(t, thread.ScopeHead)
}

// saveWorker writes the row of a worker.
func (tx *transaction) saveWorker(w *store.Worker) {
	tx.rows.workers[w.ID] = w
	list := &tx.changes.write.Workers
	*list = append(slices.DeleteFunc(*list, func(x *store.Worker) bool { return x.ID == w.ID }), w)
}

// saveToken writes the row of a token.
func (tx *transaction) saveToken(row *auth.Token) {
	tx.rows.tokensByName[row.Name] = row
	lists := []*[]*auth.Token{&tx.changes.write.Tokens}
	if tx.rows.tokens != nil {
		lists = append(lists, &tx.rows.tokens)
	}
	for _, list := range lists {
		i := slices.IndexFunc(*list, func(t *auth.Token) bool { return t.Name == row.Name })
		if i < 0 {
			*list = append(*list, row)
		} else {
			(*list)[i] = row
		}
	}
}

// dropToken drops the row of a token that acts for another one. All rows of tokens are loaded.
func (tx *transaction) dropToken(name string) {
	isIt := func(t *auth.Token) bool { return t.Name == name }
	w := &tx.changes.write
	tx.rows.tokens = slices.DeleteFunc(tx.rows.tokens, isIt)
	w.Tokens = slices.DeleteFunc(w.Tokens, isIt)
	tx.rows.tokensByName[name] = nil
	w.DropTokens = append(w.DropTokens, name)
}

// putPause writes a pause. It replaces an earlier change of the same pause in this batch.
func (tx *transaction) putPause(row store.Pause) {
	tx.rows.pauses[row.Agent] = row
	w := &tx.changes.write
	w.DropPauses = slices.DeleteFunc(w.DropPauses, func(agent string) bool { return agent == row.Agent })
	w.Pauses = append(slices.DeleteFunc(w.Pauses, func(x store.Pause) bool { return x.Agent == row.Agent }), row)
}

// dropPause ends a pause.
func (tx *transaction) dropPause(agent string) {
	delete(tx.rows.pauses, agent)
	w := &tx.changes.write
	w.Pauses = slices.DeleteFunc(w.Pauses, func(p store.Pause) bool { return p.Agent == agent })
	w.DropPauses = append(w.DropPauses, agent)
}

// dropThread drops a thread with everything that belongs to it. Later operations of the batch find an empty one.
func (tx *transaction) dropThread(t *thread.State) {
	tx.changes.dropThread(t.ID, t.Bytes)
	tx.rows.empty(t)
}
