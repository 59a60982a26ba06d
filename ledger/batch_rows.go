package ledger

import (
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// rows are the rows that a transaction has locked and read, as the state of threads.
type rows struct {
	stored       store.Reader // queries, without locks; they do not see the changes of the batch
	loader       loader
	cache        *threadCache
	reservations reservationCache
	begun        *firstRead
	label        func(metadata map[string]string) string // see labels.find
	zone         *time.Location                          // of the periods of budgets

	now      time.Time // time of the transaction
	threads  map[string]*thread.State
	order    []*thread.State // threads in the order in which they were locked
	before   map[string]lockedRow
	workers  map[string]*store.Worker
	keys     map[store.KeyRef]bool     // submit keys that were loaded
	threadOf map[string]string         // of loaded runs, which may belong to threads that are not locked
	pauses   map[string]store.Pause    // pauses by agent, if an operation reads them
	meters   map[string]*meter         // locked ones, by key
	counts   bool                      // meters count a thread
	projects map[string]*project.State // loaded ones, by thread
	tokens   []*auth.Token             // all rows, once an operation needed them
	// tokensByName are the rows of tokens loaded by name. A nil row means that no token has the name.
	tokensByName map[string]*auth.Token
}

// lockedRow keeps the values that a thread's row had when the batch locked it.
type lockedRow struct {
	version store.Version
	use     threadUse
	counted counted // as it was counted last, see recount
}

// loader locks rows and returns them with what their next transitions read. It is a [store.Tx] without its Write.
type loader interface {
	Load(n store.Need) (*store.Loaded, error)
	Due(now time.Time, wants []store.Capacity, known store.Known) (due *store.Loaded, next time.Time, err error)
}

func newRows(tx store.Tx, c *committer) rows {
	return rows{
		stored: tx, loader: tx, cache: &c.cache, reservations: c.reservations, begun: c.begun, label: c.labels.find(),
		zone:    c.options.Budgets.zone(),
		threads: map[string]*thread.State{}, before: map[string]lockedRow{}, threadOf: map[string]string{},
		workers: map[string]*store.Worker{}, keys: map[store.KeyRef]bool{}, pauses: map[string]store.Pause{},
		meters: map[string]*meter{}, projects: map[string]*project.State{}, tokensByName: map[string]*auth.Token{},
	}
}

// loadOperations loads all that the operations name, in one step, and the due threads that they will
// probably ask for.
func (r *rows) loadOperations(ops []*op, due []store.Capacity, meters []string) error {
	n := store.Need{Known: r.cache.version, Due: due, Meters: meters}
	for _, o := range ops {
		n.Topics = append(n.Topics, o.topics...)
		n.Pauses = n.Pauses || o.pauses || o.claim != nil
		n.Workers = append(n.Workers, o.workers...)
		n.Threads = append(n.Threads, o.threads...)
		if !o.lockedSince.IsZero() {
			n.NoWait = append(n.NoWait, o.threads...)
		}
		n.Keys = append(n.Keys, o.keys...)
		n.Tokens = append(n.Tokens, o.tokens...)
		if o.queues {
			n.Queues = append(n.Queues, o.threads...)
		}
		n.Runs = append(n.Runs, o.missingRuns(r.cache.hasRun)...)
	}
	for _, list := range []*[]string{&n.Topics, &n.Workers, &n.Threads, &n.Tokens, &n.Meters} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if err := r.load(n); err != nil {
		return err
	}
	asked := make(map[string]bool, len(n.Runs))
	for _, run := range n.Runs {
		asked[run] = true
	}
	var changed []string // runs of cached threads that another handle has changed
	for _, o := range ops {
		changed = append(changed, o.missingRuns(func(thread, run string) bool {
			return asked[run] || r.threads[thread].Run(run) != nil
		})...)
	}
	if len(changed) == 0 {
		return nil
	}
	return r.loadRuns(changed...)
}

// missingRuns returns the runs that the operation names and that none of its threads has.
func (o *op) missingRuns(has func(thread, run string) bool) (runs []string) {
	for _, id := range o.runs {
		if !slices.ContainsFunc(o.threads, func(thread string) bool { return has(thread, id) }) {
			runs = append(runs, id)
		}
	}
	return runs
}

// load locks and reads rows, and adds them to the batch.
func (r *rows) load(n store.Need) error {
	l, err := r.loader.Load(n)
	if err != nil {
		return err
	}
	for i, w := range l.Workers {
		if w != nil {
			r.workers[n.Workers[i]] = w
		}
	}
	for _, k := range n.Keys {
		r.keys[k] = true
	}
	for _, p := range l.Pauses {
		r.pauses[p.Agent] = p
	}
	r.addTokens(n.Tokens, l.Tokens)
	r.addMeters(l.Meters)
	r.add(l)
	return nil
}

// add adds loaded rows to the batch.
func (r *rows) add(l *store.Loaded) {
	r.now = r.stored.Now()
	for _, row := range l.Threads {
		t := r.cache.pop(row)
		t.ServedSince = r.begun.since(r.now)
		t.Label, t.Zone = r.label, r.zone
		r.threads[row.ID] = t
		r.order = append(r.order, t)
		of := countedOf(t)
		r.before[row.ID] = lockedRow{store.VersionOf(row), useOfThread(&t.Thread, row.Key != 0), of}
		r.counts = r.counts || !of.is(counted{})
	}
	r.addRuns(l.Runs, l.Tickets)
	for _, h := range l.Heads {
		r.threads[h.Thread].Runs.SetQueue(h.Set, h.Runs, len(h.Runs) < store.HeadRuns)
	}
	for _, k := range l.Keys {
		r.threads[k.Thread].Keys.Add(k)
	}
	for _, row := range l.Threads {
		r.threads[row.ID].ReplanAfterClockStep(r.now)
	}
}

// addRuns adds loaded runs and their tickets to their threads.
func (r *rows) addRuns(runs []*mailroom.Run, tickets []*mailroom.Ticket) {
	fresh := map[string]bool{}
	for _, run := range runs {
		r.threadOf[run.ID] = run.Thread
		if t := r.threads[run.Thread]; t != nil && t.Run(run.ID) == nil {
			t.Runs.Add(run)
			fresh[run.ID] = true
		}
	}
	for _, k := range tickets {
		if fresh[k.Run] {
			r.threads[k.Thread].Tickets.Add(k)
		}
	}
}

// loadRuns loads runs with their tickets.
func (r *rows) loadRuns(ids ...string) error {
	l, err := r.loader.Load(store.Need{Runs: ids})
	if err == nil {
		r.addRuns(l.Runs, l.Tickets)
	}
	return err
}

// lock returns a thread of the batch, locking and loading it if no operation named it.
func (r *rows) lock(id string) (*thread.State, error) {
	if t := r.threads[id]; t != nil {
		return t, nil
	}
	if err := r.load(store.Need{Threads: []string{id}, Queues: []string{id}, Known: r.cache.version}); err != nil {
		return nil, err
	}
	return r.threads[id], nil
}

// thread returns a thread that the operation named, whether it exists or not.
func (r *rows) thread(id string) *thread.State { return r.threads[id] }

// ensure loads the part of t's queue that a transition of this scope reads.
func (r *rows) ensure(t *thread.State, s thread.Scope) error {
	for {
		queue, held := t.RowsNeeded(s, r.now)
		if queue == 0 && held == 0 {
			return nil
		}
		if err := r.fill(t, store.RunsScheduled, held); err != nil {
			return err
		}
		if err := r.fill(t, store.RunsQueued, queue); err != nil {
			return err
		}
	}
}

func (r *rows) fill(t *thread.State, set store.RunSet, n int) error {
	if n == 0 {
		return nil
	}
	q := store.RunQuery{Thread: t.ID, Set: set, Limit: n}
	if n > maxBatch*maxBatch {
		q.Limit = 0
	}
	runs, err := r.stored.Runs(q)
	if err != nil {
		return err
	}
	t.Runs.SetQueue(set, runs, q.Limit == 0 || len(runs) < n)
	return nil
}

// worker returns a worker with a live lease, or CodeLeaseLost.
func (r *rows) worker(id string) (*store.Worker, error) {
	w := r.workers[id]
	if w == nil || w.Dead {
		return nil, mailroom.Errorf(mailroom.CodeLeaseLost, "the lease of worker %s has ended", id)
	}
	return w, nil
}

// loadDue locks and loads the stored threads of w that are due at a time and that the batch does not
// have yet.
func (r *rows) loadDue(at time.Time, w store.Capacity) (fresh []*thread.State, next time.Time, err error) {
	l, next, err := r.loader.Due(at, []store.Capacity{w}, r.cache.version)
	if err != nil {
		return nil, next, err
	}
	known := len(r.order)
	r.add(l)
	return slices.Clone(r.order[known:]), next, nil
}

// accounts returns all token rows with the changes of this batch.
func (r *rows) accounts() ([]*auth.Token, error) {
	if r.tokens == nil {
		all, err := r.stored.Tokens()
		if err != nil {
			return nil, err
		}
		r.tokens = []*auth.Token{}
		for _, t := range all {
			if r.tokensByName[t.Name] == nil {
				r.tokens = append(r.tokens, t)
			}
		}
		for _, t := range r.tokensByName {
			if t != nil {
				r.tokens = append(r.tokens, t)
			}
		}
		slices.SortFunc(r.tokens, func(x, y *auth.Token) int { return strings.Compare(x.Name, y.Name) })
	}
	return r.tokens, nil
}

// token returns the row of the token with this name, or nil.
func (r *rows) token(name string) (*auth.Token, error) {
	if i := slices.IndexFunc(r.tokens, func(t *auth.Token) bool { return t.Name == name }); i >= 0 {
		return r.tokens[i], nil
	}
	if t, ok := r.tokensByName[name]; ok || r.tokens != nil {
		return t, nil
	}
	found, err := r.stored.Tokens(name)
	if err != nil {
		return nil, err
	}
	r.addTokens([]string{name}, found)
	return r.tokensByName[name], nil
}

// addTokens adds the tokens found under these names.
func (r *rows) addTokens(names []string, found []*auth.Token) {
	for _, name := range names {
		if _, ok := r.tokensByName[name]; !ok {
			r.tokensByName[name] = nil
		}
	}
	for _, t := range found {
		if r.tokensByName[t.Name] == nil {
			r.tokensByName[t.Name] = t
		}
	}
}

// loadKey loads a submit key and its run, unless they were loaded with the batch.
func (r *rows) loadKey(t *thread.State, key string) error {
	if ref := (store.KeyRef{Thread: t.ID, Key: key}); key != "" && t.Key != 0 && !r.keys[ref] {
		return r.load(store.Need{Keys: []store.KeyRef{ref}})
	}
	return nil
}

// findRun returns the id of the thread among threads that has the run, or else of the thread that the run was
// loaded with. It returns "" if there is no such run.
func (r *rows) findRun(run string, threads []string) string {
	for _, id := range threads {
		if r.threads[id].Run(run) != nil {
			return id
		}
	}
	return r.threadOf[run]
}

// empty replaces a thread that was dropped by an empty one, for later operations of the batch.
func (r *rows) empty(t *thread.State) {
	fresh := thread.NewState(&mailroom.Thread{ID: t.ID})
	fresh.Label, fresh.Zone = r.label, r.zone
	r.threads[t.ID] = fresh
	r.order[slices.Index(r.order, t)] = fresh
}
