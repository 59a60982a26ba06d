package store

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
)

// Need names the rows that a transaction locks and reads. Ids may repeat.
type Need struct {
	// Topics are names of locks. The transaction takes them before it locks any row and holds them until it ends, and
	// only one transaction at a time holds a topic. Transactions that read and write rows of no thread, such as
	// tokens, name a topic so that they run one after the other.
	Topics  []string
	Workers []string // locked in id order
	Threads []string // locked after the workers, in one order for all transactions
	// NoWait are the Threads for whose locks the transaction does not wait: if another handle holds such a lock, the
	// Update fails with a *[LockedError] at once.
	NoWait []string
	// Queues are the Threads of which Load also reads the first HeadRuns runs of the queue, because their next
	// transition reads these runs.
	Queues []string
	// Runs are ids of runs to read. They have no lock of their own: the lock of its thread covers a run.
	Runs []string
	// Keys are submit keys to read. Their threads are in Threads.
	Keys []KeyRef
	// Tokens are names of tokens to read. Other transactions may read and change them, but a transaction that revokes
	// or drops a token commits either before they are read or after this transaction has ended.
	Tokens []string
	// Meters are keys of meters, whose rows are locked after the threads, in one order for all transactions. A
	// missing row has no lock; of two transactions that write one, the second runs again.
	Meters []string
	// Pauses asks for the pauses of all agents. They are read after Workers are locked, so a transaction
	// that locks all workers and writes a pause is seen by every later one that locks a worker.
	Pauses bool
	// Known returns the versions of the rows that the caller already has in memory; nil means that it has none.
	Known Known
	// Due are the wants that the transaction will probably pass to Tx.Due before it writes. A store in another
	// process locks the due threads in the round trip of Load, so that Tx.Due needs no round trip; other stores
	// ignore this field. DueAt is the time to pass to Tx.Due; zero is Now.
	Due   []Capacity
	DueAt time.Time
}

// KeyRef identifies a submit key by its thread and its text.
type KeyRef struct{ Thread, Key string }

// Version identifies a state of a thread. Every change to what belongs to a thread changes its row,
// so everything that was read of a thread is valid while its row has the same version, in the same
// [Store.Epoch].
type Version struct{ Key, Revision int64 }

// VersionOf returns the version of a row.
func VersionOf(t *mailroom.Thread) Version { return Version{t.Key, t.Revision} }

// Known returns the version of a thread that the caller has in memory, or the zero Version if it has none. If the
// stored row still has this version, a store need set only ID, Key and Revision, and leaves out the current run and
// the queue.
type Known func(thread string) Version

// has reports whether the caller has the present version of the row t.
func (k Known) has(t *mailroom.Thread) bool {
	return k != nil && t.Key != 0 && k(t.ID) == VersionOf(t)
}

// HeadRuns is the maximum number of runs that Load reads from the start of a queue.
const HeadRuns = 3

// Loaded has the locked rows, and the other rows that their next transitions read.
type Loaded struct {
	Workers []*Worker // in the order of Need.Workers; nil: no such worker
	// Threads are in the order of Need.Threads, or of Due. A thread that does not exist has its ID and Key 0; other
	// transactions must not see it unless this one writes it.
	Threads []*mailroom.Thread
	// Runs are the current runs of Threads, the runs of Need.Runs, and the runs that the results of Keys name. Each
	// run occurs once, in any order.
	Runs    []*mailroom.Run
	Tickets []*mailroom.Ticket // the tickets of all Runs
	Heads   []Head             // the heads of the threads in Need.Queues, or of all due threads
	Keys    []SubmitKey        // the Need.Keys that exist
	Tokens  []*auth.Token      // the Need.Tokens that exist
	Pauses  []Pause            // with Need.Pauses
	Meters  []Meter            // in the order of Need.Meters; one without a row has only its Key
}

// Head has the first runs of a thread that are queued or, as Set says, scheduled. It has at most HeadRuns of them.
type Head struct {
	Thread string
	Set    RunSet
	Runs   []*mailroom.Run
}

// Complete adds to l the rows that n asks for of the locked threads, and reads them with the queries of r. Stores
// whose queries need no round trip implement Load and Due with it.
func (l *Loaded) Complete(r Reader, n Need) error {
	runs := slices.Clone(n.Runs)
	queues := map[string]bool{}
	for _, id := range n.Queues {
		queues[id] = true
	}
	for _, t := range l.Threads {
		if t.Key == 0 || n.Known.has(t) {
			continue
		}
		if t.Current != "" {
			runs = append(runs, t.Current)
		}
		if !queues[t.ID] || t.Current == "" && t.Due.At.IsZero() { // an idle thread has no queue
			continue
		}
		if err := l.readHeads(r, t); err != nil {
			return err
		}
	}
	if err := l.readKeys(r, n.Keys); err != nil {
		return err
	}
	for _, k := range l.Keys {
		if k.Result.Run != "" {
			runs = append(runs, k.Result.Run)
		}
	}
	err := l.readRuns(r, runs)
	if err == nil && n.Pauses {
		var rows AgentRows
		rows, err = r.Agents()
		l.Pauses = rows.Pauses
	}
	if err == nil && len(n.Tokens) > 0 {
		l.Tokens, err = r.Tokens(n.Tokens...)
	}
	if err == nil && len(n.Meters) > 0 {
		err = l.readMeters(r, n.Meters)
	}
	return err
}

func (l *Loaded) readMeters(r Reader, keys []string) error {
	distinct := slices.Compact(slices.Sorted(slices.Values(keys)))
	found, err := r.Count(CountQuery{Meters: &MeterQuery{Keys: distinct}})
	if err == nil {
		l.Meters = MetersOf(keys, found.Meters)
	}
	return err
}

// MetersOf returns the meters of keys, in the order of keys; one that is not among rows has only its Key.
func MetersOf(keys []string, rows []Meter) []Meter {
	of := make(map[string]Meter, len(rows))
	for _, m := range rows {
		of[m.Key] = m
	}
	all := make([]Meter, len(keys))
	for i, key := range keys {
		all[i] = of[key]
		all[i].Key = key
	}
	return all
}

func (l *Loaded) readHeads(r Reader, t *mailroom.Thread) error {
	sets := []RunSet{RunsQueued}
	if !t.HeldAt.IsZero() {
		sets = append(sets, RunsScheduled)
	}
	for _, set := range sets {
		rows, err := r.Runs(RunQuery{Thread: t.ID, Set: set, Limit: HeadRuns})
		if err != nil {
			return err
		}
		l.Heads = append(l.Heads, Head{t.ID, set, rows})
	}
	return nil
}

func (l *Loaded) readKeys(r Reader, refs []KeyRef) error {
	if len(refs) == 0 {
		return nil
	}
	missing := map[string]bool{}
	for _, t := range l.Threads {
		missing[t.ID] = t.Key == 0
	}
	names := map[string][]string{} // by thread
	for _, k := range refs {
		if !missing[k.Thread] && !slices.Contains(names[k.Thread], k.Key) {
			names[k.Thread] = append(names[k.Thread], k.Key)
		}
	}
	for id, list := range names {
		keys, err := r.Keys(KeyQuery{Thread: id, Keys: list})
		if err != nil {
			return err
		}
		l.Keys = append(l.Keys, keys...)
	}
	return nil
}

func (l *Loaded) readRuns(r Reader, ids []string) (err error) {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	if l.Runs, err = r.Runs(RunQuery{IDs: slices.Compact(ids)}); err != nil {
		return err
	}
	var asked []string
	for _, run := range l.Runs {
		if run.Asked > 0 {
			asked = append(asked, run.ID)
		}
	}
	if len(asked) > 0 {
		l.Tickets, err = r.Tickets(TicketQuery{Runs: asked})
	}
	return err
}
