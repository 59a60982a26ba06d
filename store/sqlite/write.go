package sqlite

import (
	"math"

	"mailroom"
	"mailroom/store"
)

func (t *tx) Write(c *store.Changes) error {
	if t.failed != nil {
		return t.failed
	}
	if err := t.write(c); err != nil {
		return t.fail("write", err)
	}
	return nil
}

func (t *tx) write(c *store.Changes) error {
	coded := &t.store.encoder
	coded.start(c)
	defer func() {
		coded.end()
		t.store.newRows.drop()
	}()
	if err := t.drop(c); err != nil {
		return err
	}
	if err := t.readGiven(); err != nil {
		return err
	}
	if t.before == 0 {
		t.before = t.given.revision
	}
	among, err := t.writeThreads(c)
	if err == nil {
		err = coded.wait()
	}
	for i := 0; i < len(c.Runs) && err == nil; i++ {
		err = t.writeRun(c.Runs[i], coded.runs[i], among)
	}
	err = t.store.newRows.runs.end(t, err)
	for i := 0; i < len(c.Entries) && err == nil; i++ {
		err = t.appendEntries(c.Entries[i], coded.entries[i], among)
	}
	err = t.store.newRows.entries.end(t, err)
	if err == nil {
		err = t.writeGiven()
	}
	err = each(t, err, c.Keys, func(t *tx, k store.SubmitKey) error { return t.writeKey(&k, among) })
	err = each(t, err, c.Partials, writePartial)
	err = each(t, err, c.Blobs, writeBlob)
	err = each(t, err, c.BlobPieces, writePiece)
	err = each(t, err, c.Workers, writeWorker)
	err = each(t, err, c.Tickets, writeTicket)
	err = each(t, err, c.Tokens, writeToken)
	err = each(t, err, c.Use, writeUse)
	err = each(t, err, c.Definitions, writeDefinition)
	err = each(t, err, c.Pauses, writePause)
	err = each(t, err, c.Cursors, writeCursor)
	err = each(t, err, c.Reservations, writeReservation)
	err = each(t, err, c.Summaries, writeSummary)
	err = t.store.newRows.summaries.end(t, err)
	err = each(t, err, c.Meters, writeMeter)
	if err == nil && c.Index != nil {
		err = writeIndex(t, c.Index)
	}
	if err != nil {
		return err
	}
	return t.writeTally()
}

func (t *tx) drop(c *store.Changes) error {
	err := each(t, nil, c.DropThreads, removeThread)
	err = each(t, err, c.DropWorkers, removeWorker)
	err = each(t, err, c.DropPartials, dropNamed(dropPartials))
	err = each(t, err, c.DropEntries, (*tx).dropPrefix)
	err = each(t, err, c.DropDefinitions, removeDefinition)
	err = each(t, err, c.DropCursors, removeCursor)
	err = each(t, err, c.DropPauses, removePause)
	err = each(t, err, c.DropTokens, removeToken)
	err = each(t, err, c.DropReservations, dropNamed(dropReservation))
	err = each(t, err, c.DropMeters, dropNamed(dropMeter))
	err = each(t, err, c.DropBlobs, removeBlob)
	err = each(t, err, c.DropUploads, removeUpload)
	return each(t, err, c.DropSummaries, dropSummary)
}

// each calls write for each row, until one fails. After an error it does nothing.
func each[T any](t *tx, err error, rows []T, write func(*tx, T) error) error {
	for i := 0; i < len(rows) && err == nil; i++ {
		err = write(t, rows[i])
	}
	return err
}

// run runs a statement that may change any number of rows.
func (t *tx) run(text string, args ...any) error {
	_, err := t.exec(text, args...)
	return err
}

// dropNamed returns a function that drops the row with an id or a name.
func dropNamed(text string) func(*tx, string) error {
	return func(t *tx, name string) error { return t.run(text, name) }
}

// written is a thread of the current Changes.
type written struct {
	row *mailroom.Thread
	// sorted is a seq: a new run that begins at it or later begins after all other runs of the thread.
	sorted int64
	// Set if the Changes have entries of the thread: the end of its log before them, then before the next ones, and
	// the end behind all of them.
	end, last logEnd
}

func (t *tx) writeThreads(c *store.Changes) (map[string]*written, error) {
	rows := make([]written, len(c.Threads))
	among := make(map[string]*written, len(c.Threads))
	for i, row := range c.Threads {
		rows[i] = written{row: row, sorted: math.MaxInt64}
		among[row.ID] = &rows[i]
	}
	last := t.given.entryRow
	for _, list := range c.Entries {
		if len(list) == 0 {
			continue
		}
		last++
		if w := among[list[0].Thread]; w != nil {
			w.sorted, w.last = list[0].Seq, logEnd{last, list[len(list)-1].Seq}
		}
	}
	for i := range rows {
		if err := t.writeThread(&rows[i]); err != nil {
			return nil, err
		}
	}
	return among, nil
}

func (t *tx) exec(text string, args ...any) (changes, error) {
	t.store.written++
	for _, arg := range args {
		if b, ok := arg.([]byte); ok {
			t.store.written += len(b) / pageSize
		}
	}
	return t.session.exec(t.ctx, text, args...)
}

// execRow is [tx.exec] for the statements of most rows.
func execRow(t *tx, text string, args []value) (changes, error) {
	t.store.written++
	for i := range args {
		t.store.written += len(args[i].blob) / pageSize
	}
	return t.session.execWith(t.ctx, text, args)
}

// given has the last keys of threads and runs, the revision of the last commit, and the last rowid of
// an entry row. A key or rowid is never reused, not even after a drop.
//
// They are in a row of the table tally, because most commits write a page of it for its counts too.
type given struct {
	thread, run, revision, entryRow int64
}

// ofGiven selects the row of given.
const ofGiven = " WHERE what = '' AND owner = '' AND agent = ''"

// readGiven reads t.given for rows without a key.
func (t *tx) readGiven() error {
	if known := t.store.memo.given; known != (given{}) {
		t.given = known
		return nil
	}
	const last = "SELECT thread, run, revision, entry_row FROM tally" + ofGiven
	return t.session.query(t.ctx, last, nil, func(c *columns) (bool, error) {
		t.given = given{thread: c.Int64(), run: c.Int64(), revision: c.Int64(), entryRow: c.Int64()}
		return true, nil
	})
}

// writeGiven writes t.given, with the revision of this commit.
func (t *tx) writeGiven() error {
	t.given.revision++
	err := t.run("UPDATE tally SET thread = ?, run = ?, revision = ?, entry_row = ?"+ofGiven,
		t.given.thread, t.given.run, t.given.revision, t.given.entryRow)
	if err == nil {
		t.store.memo.given = t.given
	}
	return err
}

// wrote returns an error if the statement changed no row.
func wrote(done changes, err error, what, id string, key int64) error {
	if err == nil && done.rows == 0 {
		return mailroom.Errorf(mailroom.CodeInternal, "%s %q with key %d does not exist", what, id, key)
	}
	return err
}
