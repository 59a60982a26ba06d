package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	lockTopics  = "SELECT lock_topics($1, $2, $3)"
	lockWorkers = "SELECT id, body FROM worker WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE"

	// lockThreads locks threads and reads their rows. It leaves out the body of a row whose revision the
	// caller has in memory; if the statement waits for a lock, PostgreSQL compares the revision that the
	// row has then. The keys of threads whose body is read, and that have a current run or a queue, are
	// added to the transaction's setting mailroom.busy: runs and tickets are loaded for these threads only.
	lockThreads       = lockRows + readLocked
	lockThreadsNoWait = lockRows + noWait + readLocked
	lockRows          = `WITH l AS MATERIALIZED (SELECT t.key, t.id, t.revision,
			CASE WHEN t.key = u.key AND t.revision = u.revision THEN NULL ELSE t.body END AS body,
			(t.current_run IS NOT NULL OR t.due_at IS NOT NULL) AND (t.key <> u.key OR t.revision <> u.revision) AS busy
			FROM unnest($1::text[], $2::bigint[], $3::bigint[]) u (id, key, revision) JOIN thread t ON t.id = u.id
			ORDER BY t.key FOR NO KEY UPDATE OF t`
	readLocked = `),
		b AS MATERIALIZED (SELECT set_config('mailroom.busy', coalesce(array_agg(key) FILTER (WHERE busy), '{}')::text, true)
			FROM l)
		SELECT l.key, l.id, l.revision, l.body FROM b CROSS JOIN l`
	busyThreads = " FROM unnest(current_setting('mailroom.busy')::bigint[]) u (key) JOIN thread t ON t.key = u.key"
	noWait      = " NOWAIT"
	lockNoWait  = "SELECT t.key FROM thread t WHERE t.id = ANY ($1::text[]) ORDER BY t.key FOR NO KEY UPDATE NOWAIT"

	// Rows that depend on locked rows are read by statements of their own: of a statement that waited
	// for a lock, everything but the locked row is from before.
	// withTickets returns the runs of the CTE runs and their tickets, as kinds of rows.
	runsNamed     = "SELECT unnest($1::text[]) AS id"
	runsOfThreads = " UNION SELECT t.current_run" + busyThreads + " WHERE t.current_run IS NOT NULL"
	runsOfKeys    = " UNION SELECT unnest(current_setting('mailroom.runs')::text[])" // set by loadKeys
	withTickets   = "SELECT true, NULL, key, body FROM runs UNION ALL SELECT false, " + ticketColumns +
		" FROM runs r JOIN ticket k ON k.run = r.key"
	loadHeads = "SELECT t.id, r.pile, r.key, r.body" + busyThreads + headsOf + " AND t.id = ANY ($1::text[])"
	headsOf   = ` CROSS JOIN LATERAL (
			(SELECT pile, key, body FROM run WHERE thread = t.key AND pile = 0 ORDER BY priority, place, key LIMIT 3)
			UNION ALL
			(SELECT pile, key, body FROM run WHERE thread = t.key AND pile = 1 ORDER BY not_before, place, key LIMIT 3)
		) r WHERE t.current_run IS NOT NULL OR t.due_at IS NOT NULL`
	loadKeys = `WITH f AS MATERIALIZED (SELECT u.thread, u.key, k.digest, k.result, k.joined_seq, k.run
			FROM (SELECT DISTINCT thread, key FROM unnest($1::text[], $2::text[]) x (thread, key)) u
			JOIN thread t ON t.id = u.thread JOIN submit_key k ON k.thread = t.key AND k.key = u.key),
		r AS MATERIALIZED (SELECT set_config('mailroom.runs',
			coalesce(array_agg(run) FILTER (WHERE run IS NOT NULL), '{}')::text, true) FROM f)
		SELECT f.thread, f.key, f.digest, f.result, f.joined_seq FROM r CROSS JOIN f`
)

// loading collects the rows of one Load or Due.
type loading struct {
	store.Loaded
	known   store.Known
	threads map[string]*mailroom.Thread
	heads   map[headOf]int // positions in Heads
	meters  *[]store.Meter // rows that a statement of this Load fills; nil: none was asked for
}

type headOf struct {
	thread string
	set    store.RunSet
}

func newLoading(known store.Known) *loading {
	return &loading{known: known, threads: map[string]*mailroom.Thread{}, heads: map[headOf]int{}}
}

// thread adds a locked row.
func (l *loading) thread(c *columns) error {
	t := &mailroom.Thread{Key: c.Int64(), ID: c.Text(), Revision: c.Int64()}
	if body := c.Text(); body != "" {
		if err := format.ParseThread(body, t); err != nil {
			return err
		}
	}
	l.threads[t.ID] = t
	l.Threads = append(l.Threads, t)
	return nil
}

// run adds a row of withTickets.
func (l *loading) run(c *columns) error {
	if isRun := c.next(); isRun[0] == 0 {
		k, err := scanTicket(c)
		l.Tickets = append(l.Tickets, k)
		return err
	}
	c.next() // the agent of a ticket
	r, err := scanRun(c)
	l.Runs = append(l.Runs, r)
	return err
}

func (l *loading) head(c *columns) error {
	of := headOf{thread: c.Text(), set: store.RunsQueued}
	if c.Int64() == pileScheduled {
		of.set = store.RunsScheduled
	}
	r, err := scanRun(c)
	if i, ok := l.heads[of]; ok {
		l.Heads[i].Runs = append(l.Heads[i].Runs, r)
	}
	return err
}

// open adds the empty queues of a thread, which the rows of head fill.
func (l *loading) open(id string) {
	for _, set := range []store.RunSet{store.RunsQueued, store.RunsScheduled} {
		of := headOf{id, set}
		if _, ok := l.heads[of]; !ok {
			l.heads[of] = len(l.Heads)
			l.Heads = append(l.Heads, store.Head{Thread: id, Set: set})
		}
	}
}

// errTopic is the refusal of a topic that another transaction holds.
func errTopic() error {
	return &pgconn.PgError{Severity: "ERROR", Code: "55P03", Message: "another transaction holds a topic"}
}

// Load implements [store.Tx] in one round trip.
func (t *tx) Load(n store.Need) (*store.Loaded, error) {
	l := newLoading(n.Known)
	var q trip
	wait := ""
	if t.locked {
		wait = noWait
	}
	if len(n.Topics) > 0 {
		q.add(func(c *columns) error {
			if b := c.next(); len(b) != 1 || b[0] == 0 {
				return errTopic()
			}
			return nil
		}, lockTopics, t.store.options.Schema, n.Topics, !t.locked)
	}
	workers := map[string]*store.Worker{}
	if len(n.Workers) > 0 {
		q.add(func(c *columns) error {
			w := &store.Worker{}
			workers[c.Text()] = w
			return format.ParseWorker(c.Text(), w)
		}, lockWorkers+wait, n.Workers)
	}
	if len(n.NoWait) > 0 {
		q.add(nil, lockNoWait, n.NoWait)
	}
	ids := sqlstore.Distinct(n.Threads)
	locked := ids
	if !t.locked && len(t.extra) > 0 {
		locked = sqlstore.Distinct(slices.Concat(ids, t.extra))
	}
	if len(locked) > 0 {
		keys, revisions := versionsOf(locked, n.Known)
		lock := lockThreads
		if t.locked {
			lock = lockThreadsNoWait
		}
		q.add(l.thread, lock, locked, keys, revisions)
	}
	l.addMeters(t, &q, n, wait)
	clock := t.now.IsZero()
	if clock {
		q = append(q, t.readClock())
	}
	var ahead *dueRows
	if len(n.Due) > 0 && n.DueAt.IsZero() {
		ahead = newDueRows(n.Due, &t.now)
		ahead.add(&q, t.skipped(ids), clock)
	} else if len(n.Due) > 0 {
		ahead = newDueRows(n.Due, &n.DueAt)
		ahead.add(&q, t.skipped(ids), false)
	}
	l.addDependents(&q, n)
	if err := t.send("lock and read rows", q); err != nil {
		switch {
		case outcomeOf(t.failed) != conflict:
		case t.locked:
			t.lateFor, t.lateMeters = ids, n.Meters
		default:
			t.waited, t.waitedFor = true, locked
		}
		return nil, err
	}
	t.locked = true
	for _, id := range ids {
		t.given[id] = true
	}
	if ahead != nil {
		t.ahead = ahead
	}
	l.finish(n, workers)
	l.finishMeters(t, n)
	return &l.Loaded, nil
}

// skipped returns the threads that Due does not return after a Load of ids.
func (t *tx) skipped(ids []string) []string {
	return slices.AppendSeq(append([]string{}, ids...), maps.Keys(t.given)) // not nil, which would be NULL
}

// addDependents adds the statements that read what belongs to locked threads, and tokens.
func (l *loading) addDependents(q *trip, n store.Need) {
	runs := runsNamed
	if len(n.Threads) > 0 {
		runs += runsOfThreads
	}
	if len(n.Keys) > 0 {
		runs += runsOfKeys
		var threads, names []string
		for _, k := range n.Keys {
			threads, names = append(threads, k.Thread), append(names, k.Key)
		}
		q.add(func(c *columns) error {
			k := store.SubmitKey{Thread: c.Text(), Key: c.Text(), Digest: c.Text()}
			c.json(&k.Result)
			k.JoinedSeq = c.Int64()
			l.Keys = append(l.Keys, k)
			return nil
		}, loadKeys, threads, names)
	}
	if named := sqlstore.Distinct(n.Runs); len(named) > 0 || runs != runsNamed {
		runs = "SELECT r.key, r.body FROM (" + runs + ") ids JOIN run r ON r.id = ids.id"
		q.add(l.run, "WITH runs AS MATERIALIZED ("+runs+") "+withTickets, named)
	}
	if queues := sqlstore.Distinct(n.Queues); len(queues) > 0 {
		for _, id := range queues {
			l.open(id)
		}
		q.add(l.head, loadHeads, queues)
	}
	if n.Pauses {
		q.add(scanPauses(&l.Pauses), readPauses)
	}
	if len(n.Tokens) > 0 {
		q.add(nil, holdTokens) // a statement of its own: the next one reads what was committed while it waited
		q.add(func(c *columns) error {
			row, err := scanToken(c)
			l.Tokens = append(l.Tokens, row)
			return err
		}, tokensNamed, n.Tokens)
	}
}

// finish puts the rows in the order of n, and removes the queues of rows that are unknown or that
// the caller has.
func (l *loading) finish(n store.Need, workers map[string]*store.Worker) {
	l.Workers = make([]*store.Worker, len(n.Workers))
	for i, id := range n.Workers {
		l.Workers[i] = workers[id]
	}
	l.Threads = make([]*mailroom.Thread, len(n.Threads))
	for i, id := range n.Threads {
		if l.Threads[i] = l.threads[id]; l.Threads[i] == nil {
			l.Threads[i] = &mailroom.Thread{ID: id}
		}
	}
	l.dropKnownHeads()
}

func (l *loading) dropKnownHeads() {
	l.Heads = slices.DeleteFunc(l.Heads, func(h store.Head) bool {
		t := l.threads[h.Thread]
		if t == nil || l.has(t) {
			return true
		}
		return t.Current == "" && t.Due.At.IsZero() || h.Set == store.RunsScheduled && t.HeldAt.IsZero() && len(h.Runs) == 0
	})
}

func (l *loading) has(t *mailroom.Thread) bool {
	return l.known != nil && l.known(t.ID) == store.VersionOf(t)
}

// versionsOf returns the keys and revisions that the caller knows, 0 for none.
func versionsOf(ids []string, known store.Known) (keys, revisions []int64) {
	keys, revisions = make([]int64, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		if known != nil {
			v := known(id)
			keys[i], revisions[i] = v.Key, v.Revision
		}
	}
	return keys, revisions
}
