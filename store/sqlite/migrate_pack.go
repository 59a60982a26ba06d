package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"mailroom"
)

// packedTables are those of threads and runs with bodies, see pack.go. Nobody
// refers to them before they have their names. given has the last keys: unlike
// what AUTOINCREMENT keeps, it is read and written once for all the new rows of
// a transaction.
const packedTables = `
CREATE TABLE given (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    thread INTEGER NOT NULL,
    run    INTEGER NOT NULL
) STRICT;

INSERT INTO given VALUES (
    1,
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'thread'), 0),
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'run'), 0)
);

CREATE TABLE packed_thread (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    agent        TEXT    NOT NULL,
    worker       TEXT,             -- NULL: not claimed
    due_at       INTEGER,          -- NULL: nothing is due; as the others of due
    due_agent    TEXT,
    due_priority INTEGER,
    due_alone    INTEGER,
    body         BLOB    NOT NULL  -- all fields but the key
) STRICT;

CREATE TABLE packed_run (
    key        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    thread     INTEGER NOT NULL REFERENCES thread (key),
    agent      TEXT    NOT NULL,
    parent     TEXT,               -- NULL: none
    status     TEXT    NOT NULL,
    queue      INTEGER,            -- 0: in the queue, 1: held, NULL: neither
    priority   INTEGER,            -- of a run in the queue
    place      INTEGER,            -- of a run that is in the queue or held
    not_before INTEGER,            -- of a held run
    first_seq  INTEGER NOT NULL,
    late_seq   INTEGER,            -- first_seq, if it may come after a greater one
    body       BLOB    NOT NULL    -- all fields but the key
) STRICT;
`

// The order matters: a table is renamed when nothing has its name any more.
const replaceTables = `
DROP TABLE run;
DROP TABLE thread;
ALTER TABLE packed_thread RENAME TO thread;
ALTER TABLE packed_run RENAME TO run;

CREATE INDEX thread_due ON thread (due_agent, due_alone, due_priority, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX thread_worker ON thread (worker) WHERE worker IS NOT NULL;

CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_queue ON run (thread, priority, place) WHERE queue = 0;
CREATE INDEX run_held ON run (thread, not_before, place) WHERE queue = 1;
CREATE INDEX run_failed ON run (status) WHERE status = 'failed';
CREATE INDEX run_waiting ON run (status) WHERE status = 'waiting';
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_late ON run (thread, late_seq) WHERE late_seq IS NOT NULL;
`

const insertPackedThread = `INSERT INTO packed_thread
	(agent, worker, due_at, due_agent, due_priority, due_alone, body, key, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

// packVersion is the version of the tables since threads and runs have bodies.
const packVersion = 4

// packRows moves the rows of threads and runs into bodies.
func packRows() *goose.Migration {
	return goose.NewGoMigration(packVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, packedTables); err != nil {
			return err
		}
		if err := packThreads(ctx, tx); err != nil {
			return err
		}
		if err := packRuns(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, replaceTables)
		return err
	}}, nil)
}

func packThreads(ctx context.Context, tx *sql.Tx) error {
	s := Store{}
	return eachRow(ctx, tx, threadColumns+" FROM thread t", func(row []driver.Value) error {
		t, err := scanColumnsOfThread(row)
		if err != nil {
			return err
		}
		args := s.bindThread(nil, t)
		args = slices.Delete(args, len(args)-2, len(args)-1) // due_owner, which came later
		_, err = tx.ExecContext(ctx, insertPackedThread, append(args, t.Key, t.ID)...)
		return err
	})
}

func packRuns(ctx context.Context, tx *sql.Tx) error {
	s := Store{}
	from := runColumns + `, r.thread, r.first_seq, r.late_seq, EXISTS (SELECT 1 FROM partial WHERE run = r.key)
		FROM run r JOIN thread t ON t.key = r.thread`
	return eachRow(ctx, tx, from, func(row []driver.Value) error {
		n := len(row) - 4
		r, err := scanColumnsOfRun(row[:n])
		if err != nil {
			return err
		}
		r.Flushed = row[n+3] == int64(1)
		_, err = tx.ExecContext(ctx, strings.Replace(insertRun, "run", "packed_run", 1),
			append(s.bindRun(nil, r, true), r.Key, r.ID, r.Agent, row[n], row[n+1], row[n+2])...)
		return err
	})
}

// eachRow calls each with the rows of a query.
func eachRow(ctx context.Context, tx *sql.Tx, query string, each func(row []driver.Value) error, args ...any) (err error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+query, args...)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into, row := make([]any, len(names)), make([]any, len(names)), make([]driver.Value, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range values {
			row[i] = v
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// What follows reads the rows of the versions before.

const (
	threadColumns = `t.key, t.id, t.agent, t.owner, t.parent, t.metadata, t.current_run, t.worker, t.round,
		t.due_at, t.due_agent, t.due_priority, t.due_alone, t.held_at,
		t.first_seq, t.last_seq, t.next_place, t.created_at, t.updated_at, t.revision, t.state, t.deliver_to`

	runColumns = `r.key, r.id, t.id, r.agent, r.agent_version, r.mode, r.priority, r.place, r.submit_key,
		r.parent, r.max_attempts, r.first_seq, r.status, r.stop, r.stop_by, r.held, r.not_before,
		r.available_at, r.attempt, r.failures, r.crashes, r.lost, r.outages, r.outage_since,
		r.step, r.started, r.reason, r.created_at, r.started_at, r.finished_at,
		r.origin, r.last_step, r.inputs, r.steers, r.error, r.metadata, r.reply, r.options, r.checkpoint,
		r.caller, r.lineage, r.wait, r.resumes, r.asked, r.usage, r.progress`
)

func scanColumnsOfThread(row []driver.Value) (*mailroom.Thread, error) {
	c := columns{row: row}
	t := &mailroom.Thread{
		Key: c.int64(), ID: c.text(), Agent: c.text(), Owner: c.text(), Parent: c.text(), Metadata: c.raw(),
		Current: c.text(), Worker: c.text(), Round: c.int64(),
		Due:      mailroom.Due{At: c.time(), Agent: c.text(), Priority: c.int(), LastAttempt: c.bool()},
		HeldAt:   c.time(),
		FirstSeq: c.int64(), LastSeq: c.int64(), NextPlace: c.int64(), CreatedAt: c.time(), UpdatedAt: c.time(),
		Revision: c.int64(),
	}
	t.State = c.state()
	t.DeliverTo = c.text()
	return t, c.err
}

func scanColumnsOfRun(row []driver.Value) (*mailroom.Run, error) {
	c := columns{row: row}
	r := &mailroom.Run{
		Key: c.int64(), ID: c.text(), Thread: c.text(), Agent: c.text(), AgentVersion: c.text(),
		Mode: mailroom.Mode(c.text()), Priority: c.int(), Place: c.int64(), SubmitKey: c.text(),
		Parent: c.text(), MaxAttempts: c.int(), FirstSeq: c.int64(), Status: mailroom.Status(c.text()),
		Stop: mailroom.Reason(c.text()), StopBy: c.text(), Scheduled: c.bool(), NotBefore: c.time(),
		AvailableAt: c.time(), Attempt: c.int(), Failures: c.int(), Crashes: c.int(), Lost: c.int(),
		Outages: c.int(), OutageSince: c.time(), Step: c.int(), Started: c.bool(),
		Reason: mailroom.Reason(c.text()), CreatedAt: c.time(), StartedAt: c.time(), FinishedAt: c.time(),
	}
	c.json(&r.Origin)
	c.json(&r.LastStep)
	c.json(&r.Inputs)
	steers := c.text()
	c.json(&r.Error)
	c.json(&r.Metadata)
	if reply, ok := c.next().(string); ok {
		r.Reply = &reply
	}
	r.Options, r.Checkpoint = c.raw(), c.raw()
	c.json(&r.Caller)
	c.json(&r.Lineage)
	c.json(&r.Wait)
	r.Resumes, r.Asked = c.bool(), c.int()
	c.json(&r.Usage)
	c.next() // words, which count as nothing
	if c.err == nil {
		r.Steers, c.err = decodeSteers(steers)
	}
	return r, c.err
}

// state decodes what encodeState made.
func (c *columns) state() map[string]json.RawMessage {
	text := c.text()
	if text == "" {
		return nil
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		c.err = cmp.Or(c.err, err)
		return nil
	}
	state := make(map[string]json.RawMessage, len(texts))
	for agent, text := range texts {
		state[agent] = json.RawMessage(text)
	}
	return state
}

// steer is a mailroom.Steer as it is stored.
type steer struct {
	mailroom.Input
	Read bool    `json:"read,omitempty"`
	Own  *ownRun `json:"own,omitempty"`
}

// ownRun is a run within a steer. Its raw JSON is kept as text, which gives
// back the very bytes; encoding a RawMessage would rewrite them.
type ownRun struct {
	*mailroom.Run
	Options    string  `json:",omitempty"`
	Checkpoint string  `json:",omitempty"`
	Steers     []steer `json:",omitempty"`
}

func decodeSteers(text string) ([]mailroom.Steer, error) {
	if text == "" {
		return nil, nil
	}
	var stored []steer
	err := json.Unmarshal([]byte(text), &stored)
	return loadedSteers(stored), err
}

func loadedSteers(stored []steer) []mailroom.Steer {
	var list []mailroom.Steer
	for _, s := range stored {
		loaded := mailroom.Steer{Input: s.Input, Read: s.Read}
		if s.Own != nil {
			loaded.Own = s.Own.Run
			loaded.Own.Options = rawOrNil(s.Own.Options)
			loaded.Own.Checkpoint = rawOrNil(s.Own.Checkpoint)
			loaded.Own.Steers = loadedSteers(s.Own.Steers)
		}
		list = append(list, loaded)
	}
	return list
}

func rawOrNil(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
