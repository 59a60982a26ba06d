package ledger

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/store"
	"mailroom/thread"
)

// Bounds of WaitsFor.
const (
	// maxBlockers is how many blockers WaitsFor follows, from a run to the one before it and so on.
	maxBlockers = 8
	// dueScheduled is how many scheduled runs of a thread are read, whose time has come and that no transition has
	// moved to the queue yet.
	dueScheduled = 16
)

// Blocked is why one run does not run: what keeps it, then what keeps the run that comes before it, and so on. The last
// blocker is the cause of all: a run that is running comes after a CauseRun or CauseChild, unless it is not known what
// the run before waits for.
type Blocked []thread.Blocker

// reader is a snapshot with the limits by which the ledger claims, from which WaitsFor reads them. So what asks why a
// run waits need not know where limits come from.
type reader struct {
	store.Reader
	options *Options
}

// WaitsFor returns why open runs do not run, by the ids of the runs. Runs that are running or have ended are left out.
// rd is a snapshot that has the rows. At most maxBlockers are followed, and only to runs that sees accepts: of another
// run, the blocker before it has no Run. A nil sees accepts all.
//
// The cost grows with the number of rows and the length of what they wait for, not with the length of their queues.
func WaitsFor(
	rd store.Reader, now time.Time, rows []*mailroom.Run, sees func(*mailroom.Run, *mailroom.Thread) bool,
) (map[string]Blocked, error) {
	if !slices.ContainsFunc(rows, mayWait) {
		return map[string]Blocked{}, nil
	}
	w := waits{options: &Options{}, rd: rd, now: now, sees: sees,
		threads: map[string]*mailroom.Thread{}, runs: map[string]*mailroom.Run{},
		first: map[string]*mailroom.Run{}, blockers: map[string]*thread.Blocker{}, asked: map[budget.Scope]bool{},
		meters: map[string]store.Meter{}}
	if of, ok := rd.(reader); ok {
		w.options = of.options
	}
	next := rows
	for range maxBlockers {
		var err error
		if next, err = w.look(next); err != nil {
			return nil, err
		}
		if len(next) == 0 {
			break
		}
	}
	out := map[string]Blocked{}
	for _, r := range rows {
		if all := w.follow(r.ID); len(all) > 0 {
			out[r.ID] = all
		}
	}
	return out, nil
}

// waits has the rows that one WaitsFor has read, and the blockers that it has found.
type waits struct {
	options *Options

	rd   store.Reader
	now  time.Time
	sees func(*mailroom.Run, *mailroom.Thread) bool

	threads  map[string]*mailroom.Thread
	runs     map[string]*mailroom.Run
	first    map[string]*mailroom.Run // by thread, see thread.FirstOf
	blockers map[string]*thread.Blocker

	// The pauses and workers are read once a run waits for its turn.
	known   bool
	pauses  []store.Pause
	workers []*store.Worker

	asked  map[budget.Scope]bool // whose budgets were read
	spent  []thread.SpentBudget
	meters map[string]store.Meter // of limits
}

// follow returns the blockers of a run and of the runs before it.
func (w *waits) follow(run string) Blocked {
	var all Blocked
	for len(all) < maxBlockers {
		b := w.blockers[run]
		if b == nil {
			break
		}
		one := *b
		if one.Run != "" && w.runs[one.Run] == nil {
			one.Run = "" // it is gone, or not for the reader; or it is too far away
		}
		all = append(all, one)
		if run = one.Run; run == "" {
			break
		}
	}
	return all
}

// look finds the blockers of runs, and returns the runs before them that were not looked at yet.
func (w *waits) look(rows []*mailroom.Run) ([]*mailroom.Run, error) {
	rows, err := w.visible(rows)
	if err != nil {
		return nil, err
	}
	var open []*mailroom.Run
	for _, r := range rows {
		if _, seen := w.blockers[r.ID]; seen {
			continue
		}
		w.blockers[r.ID], w.runs[r.ID] = nil, r
		if mayWait(r) {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	tickets, err := w.read(open)
	if err == nil {
		err = w.readMeters(open)
	}
	if err != nil {
		return nil, err
	}
	var before []string
	for _, r := range open {
		t := w.threads[r.Thread]
		b := thread.WaitsFor(thread.Situation{
			Now: w.now, Run: r, Thread: t, First: w.first[t.ID], Tickets: tickets[r.ID],
			Pauses: w.pauses, Workers: w.workers, Spent: w.spent, Bounds: w.bounds(r, t),
		})
		if w.blockers[r.ID] = b; b != nil && b.Run != "" && w.runs[b.Run] == nil {
			before = append(before, b.Run)
		}
	}
	return w.load(before)
}

// mayWait reports whether something can keep a run from running: it has not ended and does not run.
func mayWait(r *mailroom.Run) bool {
	return r.Status == mailroom.StatusQueued || r.Status == mailroom.StatusWaiting
}

// visible reads the threads of runs and returns the runs that the reader sees.
func (w *waits) visible(rows []*mailroom.Run) ([]*mailroom.Run, error) {
	var ids []string
	for _, r := range rows {
		if w.threads[r.Thread] == nil {
			ids = append(ids, r.Thread)
		}
	}
	slices.Sort(ids)
	if err := w.readThreads(slices.Compact(ids)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r *mailroom.Run) bool {
		t := w.threads[r.Thread] // nil: it is being deleted
		return t == nil || w.sees != nil && !w.sees(r, t)
	}), nil
}

// read reads the other rows that say why the runs do not run, and returns their tickets.
func (w *waits) read(open []*mailroom.Run) (tickets map[string][]*mailroom.Ticket, err error) {
	if !w.known {
		agents, err := w.rd.Agents()
		if err != nil {
			return nil, err
		}
		if w.workers, err = w.rd.Workers(); err != nil {
			return nil, err
		}
		w.known, w.pauses = true, agents.Pauses
	}
	if err := w.budgets(open); err != nil {
		return nil, err
	}
	var waiting []string
	for _, r := range open {
		if r.Status == mailroom.StatusWaiting {
			waiting = append(waiting, r.ID)
		}
	}
	tickets = map[string][]*mailroom.Ticket{}
	if len(waiting) == 0 {
		return tickets, nil
	}
	rows, err := w.rd.Tickets(store.TicketQuery{Runs: waiting})
	for _, k := range rows {
		tickets[k.Run] = append(tickets[k.Run], k)
	}
	return tickets, err
}

// bounds returns the limits of a run. Their meters were read with readMeters.
func (w *waits) bounds(r *mailroom.Run, t *mailroom.Thread) (all []thread.Bound) {
	for _, l := range w.options.boundsOf(r, t) {
		all = append(all, thread.Bound{Of: l.of, Key: l.named, Kept: l.kept, Limit: l.limit, Meter: w.meters[l.key]})
	}
	return all
}

// readMeters reads the meters of the limits of runs.
func (w *waits) readMeters(open []*mailroom.Run) error {
	var keys []string
	for _, r := range open {
		for _, l := range w.options.boundsOf(r, w.threads[r.Thread]) {
			if _, known := w.meters[l.key]; !known {
				w.meters[l.key] = store.Meter{Key: l.key}
				keys = append(keys, l.key)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := w.rd.Count(store.CountQuery{Meters: &store.MeterQuery{Keys: keys}})
	for _, m := range rows.Meters {
		w.meters[m.Key] = m
	}
	return err
}

// readThreads reads threads and the runs whose turn it is there.
func (w *waits) readThreads(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := w.rd.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return err
	}
	var current []string
	var idle []int64
	for _, t := range rows {
		w.threads[t.ID] = t
		if t.Current != "" {
			current = append(current, t.Current)
		} else {
			idle = append(idle, t.Key)
		}
	}
	now, err := w.load(current)
	if err != nil {
		return err
	}
	if len(idle) > 0 {
		next, err := w.rd.Runs(store.RunQuery{Threads: idle, Set: store.RunsNext})
		if err != nil {
			return err
		}
		now = append(now, next...)
	}
	for _, r := range now {
		w.first[r.Thread] = r
	}
	for _, t := range rows {
		if t.Current != "" || t.HeldAt.IsZero() || t.HeldAt.After(w.now) {
			continue
		}
		due, err := w.rd.Runs(store.RunQuery{Thread: t.ID, Set: store.RunsScheduled, Limit: dueScheduled})
		if err != nil {
			return err
		}
		w.first[t.ID] = thread.FirstOf(w.first[t.ID], due, w.now)
	}
	return nil
}

// load reads runs by their ids, those that exist.
func (w *waits) load(ids []string) ([]*mailroom.Run, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	return w.rd.Runs(store.RunQuery{IDs: slices.Compact(ids)})
}
