package postgres

import (
	"context"
	"fmt"
	"time"
)

// tx is the transaction of an Update. Its BEGIN is sent with its first statements, and the
// statements of a Write with the next ones or with COMMIT.
type tx struct {
	reader
	store       *Store
	begun       bool
	locked      bool // rows are locked, so further locks must not wait
	committing  bool // COMMIT was sent
	now         time.Time
	extra       []string        // threads that an earlier try needed too; the first Load locks them
	waited      bool            // a first Load was refused a lock
	waitedFor   []string        // threads of that Load
	lateFor     []string        // threads of a later Load that was refused a lock
	extraMeters []string        // meters, as extra
	lateMeters  []string        // meters, as lateFor
	meters      map[string]bool // meters that a Load has asked for, and whether they have a row
	ending      bool            // it ends tokens, so it waits for the transactions that have read them
	given       map[string]bool // threads that Load or Due has returned, and written ones
	ahead       *dueRows        // due threads that a Load has locked; nil after a Write
	pending     trip            // of a Write
	failed      error           // the transaction must not commit
}

// clock implements reader.clock: the time after the first locks.
func (t *tx) clock() time.Time {
	if t.now.IsZero() {
		// An error is in t.failed, and ends the Update.
		_ = t.send("read the clock", trip{t.readClock()})
	}
	return t.now
}

// setClock also sets the transaction's setting mailroom.now, which lockDue reads.
const setClock = `SELECT set_config('mailroom.now',
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, true)::bigint`

func (t *tx) readClock() statement {
	return statement{text: setClock, each: func(c *columns) error {
		if now := c.Time(); t.now.IsZero() {
			t.now = now
		}
		return nil
	}}
}

// send runs statements after those that are pending.
func (t *tx) send(doing string, q trip) error {
	if t.failed != nil {
		return refusal(context.Background(), doing, t.failed)
	}
	var all trip
	if !t.begun {
		all = append(all, statement{text: "BEGIN"})
	}
	all = append(append(all, t.pending...), q...)
	t.begun, t.pending = true, nil
	t.store.trips.Add(1)
	// A context must not interrupt a transaction: its end closes the connection.
	if err := t.store.writer.send(context.Background(), all); err != nil {
		return t.fail(doing, err)
	}
	return nil
}

// fail records err as the transaction's result, even if the caller goes on.
func (t *tx) fail(doing string, err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return refusal(context.Background(), doing, err)
}

func (t *tx) commit() error {
	if !t.begun && len(t.pending) == 0 {
		return nil
	}
	t.committing = true
	w := t.store.writer
	w.warning = nil
	if err := t.send("commit", trip{{text: "COMMIT"}}); err != nil {
		return err
	}
	if w.warning != nil && t.store.options.Durable == DurableSync { // the server has stopped waiting for the standby
		w.close() // the next transaction begins a new epoch
		return t.fail("commit", fmt.Errorf("the commit may be on the primary only: %s", w.warning.Message))
	}
	return nil
}
