// Package transfer copies all rows of one store into an empty one, and compares two stores. It knows
// no database: it reads with the queries of a Reader and writes with transactions.
//
// Rows are written in the order of their keys, so that lists have the same order in both stores. The
// keys themselves differ, because the target gives its own ones without gaps.
package transfer

import (
	"context"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/store"
)

// Viewer is a store to read. No process writes it during a Copy or a Compare.
type Viewer interface {
	View(ctx context.Context, f func(store.Reader) error) error
}

// Rows are numbers of rows.
type Rows struct {
	Threads      int `json:"threads"` // including those being deleted
	Runs         int `json:"runs"`
	Entries      int `json:"entries"`
	Tickets      int `json:"tickets"`
	Keys         int `json:"keys"`
	Partials     int `json:"partials"`
	Reservations int `json:"reservations"`
	Blobs        int `json:"blobs"`
	Tokens       int `json:"tokens"`
	Cursors      int `json:"cursors"`
	Definitions  int `json:"definitions"`
	Workers      int `json:"workers"`
}

const (
	// batchBytes and batchRows bound, approximately, what one transaction writes and what one view reads.
	batchBytes = 1 << 20
	batchRows  = 500
	cursorRows = 50 // a position may be large
	// lineBytes bounds the entries that become one row, unless one entry is larger.
	lineBytes = 8 << 10
)

// Copy writes all rows of a store into an empty one. It calls report after each transaction with the
// rows so far. After an error the target has a part of the rows.
func Copy(ctx context.Context, from Viewer, to store.Store, report func(Rows)) (Rows, error) {
	c := &copier{from: from, to: to, report: report}
	for _, step := range []func(context.Context) error{
		c.others, c.summaries, c.meters, c.cursors, c.threads, c.runs, c.tickets,
	} {
		if err := step(ctx); err != nil {
			return c.done, err
		}
	}
	return c.done, nil
}

type copier struct {
	from   Viewer
	to     store.Store
	report func(Rows)
	done   Rows
}

// write writes new rows in one transaction.
func (c *copier) write(ctx context.Context, changes *store.Changes) error {
	var threads []*mailroom.Thread
	for _, t := range changes.Threads {
		if t.Key == 0 {
			threads = append(threads, t)
		}
	}
	err := c.to.Update(ctx, func(tx store.Tx) error {
		for _, t := range threads { // f may run again
			t.Key = 0
		}
		unkey(changes)
		return tx.Write(changes)
	})
	if err != nil {
		return fmt.Errorf("write to the target: %w", err)
	}
	c.count(changes)
	c.done.Threads += len(threads)
	c.report(c.done)
	return nil
}

// unkey sets the keys of runs, tickets and tokens to 0, so that the target store inserts these rows as new ones. It
// leaves threads unchanged.
func unkey(changes *store.Changes) {
	for _, r := range changes.Runs {
		r.Key = 0
	}
	for _, k := range changes.Tickets {
		k.Key = 0
	}
	for _, t := range changes.Tokens {
		t.Key = 0
	}
}

// count adds the written rows but threads.
func (c *copier) count(changes *store.Changes) {
	d := &c.done
	for _, list := range changes.Entries {
		d.Entries += len(list)
	}
	d.Runs, d.Tickets, d.Keys = d.Runs+len(changes.Runs), d.Tickets+len(changes.Tickets), d.Keys+len(changes.Keys)
	d.Partials, d.Reservations = d.Partials+len(changes.Partials), d.Reservations+len(changes.Reservations)
	d.Blobs += len(changes.Blobs)
	d.Tokens, d.Cursors = d.Tokens+len(changes.Tokens), d.Cursors+len(changes.Cursors)
	d.Definitions, d.Workers = d.Definitions+len(changes.Definitions), d.Workers+len(changes.Workers)
}

func (c *copier) view(ctx context.Context, f func(store.Reader) error) error {
	if err := c.from.View(ctx, f); err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	return nil
}

// others copies the kinds with few rows: agents, workers and tokens with their use.
func (c *copier) others(ctx context.Context) error {
	var rows others
	if err := c.view(ctx, rows.read); err != nil {
		return err
	}
	slices.SortFunc(rows.tokens, func(a, b *auth.Token) int { return int(min(max(a.Key-b.Key, -1), 1)) })
	for some := range slices.Chunk(rows.agents.Definitions, batchRows) {
		if err := c.write(ctx, &store.Changes{Definitions: some}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rows.agents.Pauses, batchRows) {
		if err := c.write(ctx, &store.Changes{Pauses: some}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rows.tokens, batchRows) {
		if err := c.write(ctx, &store.Changes{Tokens: some}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(rows.workers, batchRows) {
		if err := c.write(ctx, &store.Changes{Workers: some}); err != nil {
			return err
		}
	}
	return nil
}

type others struct {
	agents  store.AgentRows
	tokens  []*auth.Token
	workers []*store.Worker
}

func (o *others) read(r store.Reader) (err error) {
	if o.agents, err = r.Agents(); err != nil {
		return err
	}
	if o.tokens, err = r.Tokens(); err != nil {
		return err
	}
	o.workers, err = r.Workers()
	return err
}

func (c *copier) summaries(ctx context.Context) error {
	view := func(f func(store.Reader) error) error { return c.view(ctx, f) }
	return eachSummaries(view, func(some []store.Summary) error {
		return c.write(ctx, &store.Changes{Summaries: some})
	})
}

// eachSummaries reads the summary of ended runs in parts.
func eachSummaries(view func(func(store.Reader) error) error, each func([]store.Summary) error) error {
	for _, step := range store.AllSteps() {
		q := store.SummaryQuery{Step: step, Limit: batchRows}
		for {
			var rows store.Counts
			if err := view(func(r store.Reader) (err error) {
				rows, err = r.Count(store.CountQuery{Summaries: &q})
				return err
			}); err != nil {
				return err
			}
			if len(rows.Summaries) == 0 {
				break
			}
			q.After = rows.Summaries[len(rows.Summaries)-1].Key
			if err := each(rows.Summaries); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *copier) meters(ctx context.Context) error {
	view := func(f func(store.Reader) error) error { return c.view(ctx, f) }
	return eachMeters(view, func(some []store.Meter) error { return c.write(ctx, &store.Changes{Meters: some}) })
}

// eachMeters reads the meters in parts.
func eachMeters(view func(func(store.Reader) error) error, each func([]store.Meter) error) error {
	q := store.MeterQuery{Limit: batchRows}
	for {
		var rows store.Counts
		err := view(func(r store.Reader) (err error) {
			rows, err = r.Count(store.CountQuery{Meters: &q})
			return err
		})
		if err != nil || len(rows.Meters) == 0 {
			return err
		}
		q.After = rows.Meters[len(rows.Meters)-1].Key
		if err := each(rows.Meters); err != nil {
			return err
		}
	}
}

func (c *copier) cursors(ctx context.Context) error {
	q := store.CursorQuery{Limit: cursorRows}
	for {
		var rows []store.Cursor
		if err := c.view(ctx, func(r store.Reader) (err error) {
			rows, err = r.Cursors(q)
			return err
		}); err != nil || len(rows) == 0 {
			return err
		}
		last := rows[len(rows)-1]
		q.After = store.CursorRef{Channel: last.Channel, Identity: last.Identity}
		if err := c.write(ctx, &store.Changes{Cursors: rows}); err != nil {
			return err
		}
	}
}

// threads copies the threads, each with its log, keys, reservations and blobs. Threads that are being
// deleted, which no list has, come last.
func (c *copier) threads(ctx context.Context) error {
	for _, deleted := range []bool{false, true} {
		s := &threadScan{query: store.ThreadQuery{Deleted: deleted, Oldest: true, Limit: batchRows, Bytes: batchBytes}}
		for !s.ended {
			b := &batch{}
			if err := c.view(ctx, func(r store.Reader) error { return s.fill(r, b) }); err != nil {
				return err
			}
			if b.rows == 0 {
				break
			}
			if err := c.write(ctx, &b.Changes); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs copies the runs with their partials, in the order of their keys over all threads.
func (c *copier) runs(ctx context.Context) error {
	q := store.RunQuery{Oldest: true, Limit: batchRows, Bytes: batchBytes}
	for {
		changes := &store.Changes{}
		if err := c.view(ctx, func(r store.Reader) (err error) {
			changes.Runs, err = r.Runs(q)
			return err
		}); err != nil || len(changes.Runs) == 0 {
			return err
		}
		q.From = changes.Runs[len(changes.Runs)-1].Key
		if err := c.writeRuns(ctx, changes); err != nil {
			return err
		}
		for _, run := range changes.Runs {
			if !run.Flushed { // as most runs
				continue
			}
			if err := c.partials(ctx, run.ID); err != nil {
				return err
			}
		}
	}
}

func (c *copier) partials(ctx context.Context, run string) error {
	changes := &store.Changes{}
	if err := c.view(ctx, func(r store.Reader) (err error) {
		changes.Partials, err = r.Partials(run)
		return err
	}); err != nil {
		return err
	}
	return c.write(ctx, changes)
}

// writeRuns writes new runs together with the rows of their threads, which the store requires.
func (c *copier) writeRuns(ctx context.Context, changes *store.Changes) error {
	var ids []string
	for _, run := range changes.Runs {
		ids = append(ids, run.Thread)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	err := c.to.Update(ctx, func(tx store.Tx) error {
		l, err := tx.Load(store.Need{Threads: ids})
		if err != nil {
			return err
		}
		for _, t := range l.Threads {
			if t.Key == 0 {
				return mailroom.Errorf(mailroom.CodeInternal, "the source has runs of thread %q, but not the thread", t.ID)
			}
		}
		changes.Threads = l.Threads
		unkey(changes)
		return tx.Write(changes)
	})
	if err != nil {
		return fmt.Errorf("write to the target: %w", err)
	}
	c.count(changes)
	c.report(c.done)
	return nil
}

func (c *copier) tickets(ctx context.Context) error {
	q := store.TicketQuery{Oldest: true, Limit: batchRows, Bytes: batchBytes}
	for {
		var rows []*mailroom.Ticket
		if err := c.view(ctx, func(r store.Reader) (err error) {
			rows, err = r.Tickets(q)
			return err
		}); err != nil || len(rows) == 0 {
			return err
		}
		q.From = rows[len(rows)-1].Key
		if err := c.write(ctx, &store.Changes{Tickets: rows}); err != nil {
			return err
		}
	}
}

// batch collects the rows of one transaction.
type batch struct {
	store.Changes
	rows, bytes int // so far, about
}

func (b *batch) full() bool { return b.rows >= batchRows || b.bytes >= batchBytes }

// entries adds a part of a log, as rows of about lineBytes.
func (b *batch) entries(list []mailroom.Entry) {
	for len(list) > 0 {
		n, size := 0, 0
		for n == 0 || n < len(list) && size+len(list[n].Raw) <= lineBytes {
			size += len(list[n].Raw)
			n++
		}
		b.Entries = append(b.Entries, list[:n:n])
		b.rows, b.bytes, list = b.rows+1, b.bytes+size, list[n:]
	}
}

// threadScan reads threads in the order of their keys, each with what belongs to its log.
type threadScan struct {
	query store.ThreadQuery
	rows  []*mailroom.Thread // read and not begun
	ended bool

	// Of the thread that a batch did not finish.
	at  *mailroom.Thread // nil: none
	seq int64            // last entry that was read
	log bool             // its log was read
	key string           // last submit key that was read
	own bool             // its keys and reservations were read
	blobScan
}

// fill adds rows to b until it is full or there are no more.
func (s *threadScan) fill(r store.Reader, b *batch) error {
	for !b.full() {
		if s.at == nil {
			if err := s.next(r); err != nil || s.ended {
				return err
			}
		}
		if n := len(b.Threads); n == 0 || b.Threads[n-1] != s.at {
			b.Threads = append(b.Threads, s.at)
			b.rows++
		}
		step := s.readBlobs
		switch {
		case !s.log:
			step = s.readLog
		case !s.own:
			step = s.readKeys
		}
		if err := step(r, b); err != nil {
			return err
		}
	}
	return nil
}

// next begins the next thread.
func (s *threadScan) next(r store.Reader) (err error) {
	if len(s.rows) == 0 {
		if s.rows, err = r.Threads(s.query); err != nil || len(s.rows) == 0 {
			s.ended = err == nil
			return err
		}
	}
	*s = threadScan{query: s.query, rows: s.rows[1:], at: s.rows[0], log: s.rows[0].LastSeq == 0}
	s.query.From, s.at.Key = s.at.Key, 0
	return nil
}

func (s *threadScan) readLog(r store.Reader, b *batch) error {
	budget := batchBytes - b.bytes
	list, err := r.Entries(store.EntryQuery{Thread: s.at.ID, After: s.seq, Bytes: budget})
	if err != nil {
		return err
	}
	size := 0
	for _, e := range list {
		size, s.seq = size+len(e.Raw), e.Seq
	}
	s.log = size <= budget
	b.entries(list)
	return nil
}

// readKeys reads a page of submit keys, and behind the last one the reservations.
func (s *threadScan) readKeys(r store.Reader, b *batch) error {
	keys, err := r.Keys(store.KeyQuery{Thread: s.at.ID, All: true, After: s.key, Limit: batchRows})
	if err != nil {
		return err
	}
	b.Keys, b.rows = append(b.Keys, keys...), b.rows+len(keys)
	if len(keys) == batchRows {
		s.key = keys[len(keys)-1].Key
		return nil
	}
	rows, err := reservations(r, s.at.ID)
	b.Reservations, b.rows = append(b.Reservations, rows...), b.rows+len(rows)
	s.own = true
	if !hasBlobs(s.at) {
		s.at = nil
	}
	return err
}

// reservations returns the reservations of a thread. Only projects have any.
func reservations(r store.Reader, thread string) ([]store.Reservation, error) {
	if _, ok := project.NameOf(thread); !ok {
		return nil, nil
	}
	return r.Reservations(store.ReservationQuery{Thread: thread})
}
