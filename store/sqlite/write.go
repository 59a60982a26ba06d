package sqlite

import (
	"database/sql/driver"
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
	if err := t.drop(c); err != nil {
		return err
	}
	if err := t.readGiven(); err != nil {
		return err
	}
	among, err := t.writeThreads(c)
	if err != nil {
		return err
	}
	for _, run := range c.Runs {
		if err := t.writeRun(run, among); err != nil {
			return err
		}
	}
	for _, list := range c.Entries {
		if err := t.appendEntries(list, among); err != nil {
			return err
		}
	}
	t.given.revision++
	if _, err := t.exec("UPDATE given SET thread = ?, run = ?, revision = ?, entry_row = ? WHERE one = 1",
		t.given.thread, t.given.run, t.given.revision, t.given.entryRow); err != nil {
		return err
	}
	t.store.memo.given = t.given
	for i := range c.Keys {
		if err := t.writeKey(&c.Keys[i], among); err != nil {
			return err
		}
	}
	for i := range c.Partials {
		p := &c.Partials[i]
		res, err := t.exec(insertPartial, int64(p.Offset), int64(p.Attempt), p.Message, p.Text, p.Run)
		if err := wrote(res, err, "run", p.Run, 0); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		if _, err := t.exec(putWorker, w.ID, w.Host, int64(w.PID), bit(w.Local), texts(w.Agents),
			micros(w.StartedAt), micros(w.LeaseUntil), bit(w.Dead), w.Owner, bit(w.Uncharged), w.Node, texts(w.Duties), w.Version); err != nil {
			return err
		}
		t.store.memo.putWorker(w)
	}
	for _, k := range c.Tickets {
		if err := t.writeTicket(k); err != nil {
			return err
		}
	}
	for _, row := range c.Tokens {
		if err := t.writeToken(row); err != nil {
			return err
		}
	}
	for _, u := range c.Use {
		if _, err := t.exec(addUse, u.Add.Threads, u.Add.Bytes, u.Add.Workers, u.Add.Notifications, u.Token); err != nil {
			return err
		}
	}
	if err := writeSettings(t, c); err != nil {
		return err
	}
	if err := addSummaries(t, c); err != nil {
		return err
	}
	if c.Index != nil {
		if err := writeIndex(t, c.Index); err != nil {
			return err
		}
	}
	return t.writeTally()
}

// writeSettings writes the rows about agents, channels and projects.
func writeSettings(t *tx, c *store.Changes) error {
	for _, d := range c.Definitions {
		if _, err := t.exec(putDefinition, d.Agent, d.Version, orNull(d.Body)); err != nil {
			return err
		}
	}
	for _, p := range c.Pauses {
		t.store.memo.paused = false
		if _, err := t.exec(putPause, p.Agent, p.By, p.Reason, p.At.UnixMicro(), micros(p.Probe)); err != nil {
			return err
		}
	}
	for i := range c.Cursors {
		if err := t.writeCursor(&c.Cursors[i]); err != nil {
			return err
		}
	}
	for i := range c.Reservations {
		if err := t.writeReservation(&c.Reservations[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) drop(c *store.Changes) error {
	for _, id := range c.DropThreads {
		for _, text := range [...]string{ // referencing rows first
			dropThreadPartials, dropThreadTickets, dropThreadKeys, dropThreadEntries, dropThreadHolds, dropThreadRuns, dropThread,
		} {
			if _, err := t.exec(text, id); err != nil {
				return err
			}
		}
		t.store.memo.dropThread(id)
	}
	for _, id := range c.DropWorkers {
		delete(t.store.memo.workers, id)
		if _, err := t.exec(dropWorker, id); err != nil {
			return err
		}
	}
	for _, id := range c.DropPartials {
		if _, err := t.exec(dropPartials, id); err != nil {
			return err
		}
	}
	for _, p := range c.DropEntries {
		if err := t.dropPrefix(p); err != nil {
			return err
		}
	}
	for _, d := range c.DropDefinitions {
		if _, err := t.exec(dropDefinition, d.Agent, d.Version); err != nil {
			return err
		}
	}
	for _, row := range c.DropCursors {
		if _, err := t.exec(dropCursor, row.Channel, row.Identity); err != nil {
			return err
		}
	}
	for _, agent := range c.DropPauses {
		t.store.memo.paused = false
		if _, err := t.exec(dropPause, agent); err != nil {
			return err
		}
	}
	for _, name := range c.DropTokens {
		if _, err := t.exec(dropToken, name); err != nil {
			return err
		}
	}
	for _, id := range c.DropReservations {
		if _, err := t.exec(dropReservation, id); err != nil {
			return err
		}
	}
	for _, old := range c.DropSummaries {
		if _, err := t.exec(dropSummaries, old.Step.Microseconds(), old.At.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

// written is a thread of the current Changes.
type written struct {
	row *mailroom.Thread
	// sorted is a seq: a new run that begins there or later begins after all other runs of the
	// thread.
	sorted int64
}

func (t *tx) writeThreads(c *store.Changes) (map[string]*written, error) {
	rows := make([]written, len(c.Threads))
	among := make(map[string]*written, len(c.Threads))
	for i, row := range c.Threads {
		if err := t.writeThread(row); err != nil {
			return nil, err
		}
		rows[i] = written{row: row, sorted: math.MaxInt64}
		among[row.ID] = &rows[i]
	}
	for _, list := range c.Entries {
		if len(list) == 0 {
			continue
		}
		if w := among[list[0].Thread]; w != nil {
			w.sorted = list[0].Seq
		}
	}
	return among, nil
}

func (t *tx) exec(text string, args ...any) (driver.Result, error) {
	t.store.written++
	for _, arg := range args {
		if b, ok := arg.([]byte); ok {
			t.store.written += len(b) / pageSize
		}
	}
	return t.session.exec(t.ctx, text, args...)
}

// given has the last keys of threads and runs, the revision of the last commit, and the last rowid of
// an entry row. A key or rowid is never reused, not even after a drop.
type given struct {
	thread, run, revision, entryRow int64
}

// readGiven reads t.given for rows without a key.
func (t *tx) readGiven() error {
	if known := t.store.memo.given; known != (given{}) {
		t.given = known
		return nil
	}
	return t.session.query(t.ctx, "SELECT thread, run, revision, entry_row FROM given WHERE one = 1", nil, func(row []driver.Value) (bool, error) {
		c := columns{row: row}
		t.given = given{thread: c.Int64(), run: c.Int64(), revision: c.Int64(), entryRow: c.Int64()}
		return true, nil
	})
}

// wrote returns an error if the statement changed no row.
func wrote(res driver.Result, err error, what, id string, key int64) error {
	if err != nil {
		return err
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return mailroom.Errorf(mailroom.CodeInternal, "%s %q with key %d does not exist", what, id, key)
	}
	return nil
}
