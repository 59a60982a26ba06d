package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pressly/goose/v3"
)

// countVersion is the version of the tables that introduced counts of runs and threads.
const countVersion = 12

const countColumns = `
ALTER TABLE thread ADD COLUMN owner      TEXT NOT NULL DEFAULT '';
ALTER TABLE thread ADD COLUMN deliver_to TEXT;    -- NULL: nowhere
ALTER TABLE thread ADD COLUMN deleted    INTEGER; -- 1: its rows are being dropped
`

const countTables = `
CREATE INDEX thread_deliver ON thread (deliver_to) WHERE deliver_to IS NOT NULL;
CREATE INDEX thread_deleted ON thread (deleted) WHERE deleted IS NOT NULL;

-- Runs that completed are most of all and lie among the newest: a list finds them
-- without an index, which would cost a page at every end of a run.
DROP INDEX run_failed;
DROP INDEX run_waiting;
CREATE INDEX run_status ON run (status) WHERE status <> 'completed';
CREATE INDEX run_agent ON run (agent);

-- How many runs there are of an owner's threads, by status and agent; and how many
-- threads it has, as what = 'thread' without an agent. Triggers count what is
-- dropped; the transaction that writes a row counts it.
CREATE TABLE tally (
    what  TEXT    NOT NULL,
    owner TEXT    NOT NULL,
    agent TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (what, owner, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO tally SELECT r.status, t.owner, r.agent, count(*)
    FROM run r JOIN thread t ON t.key = r.thread GROUP BY r.status, t.owner, r.agent;
INSERT INTO tally SELECT 'thread', owner, '', count(*) FROM thread GROUP BY owner;

CREATE TRIGGER run_dropped AFTER DELETE ON run BEGIN
    UPDATE tally SET n = n - 1
        WHERE what = old.status AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent;
    DELETE FROM tally
        WHERE what IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')
        AND owner = (SELECT owner FROM thread WHERE key = old.thread) AND agent = old.agent AND n = 0;
END;

CREATE TRIGGER thread_dropped AFTER DELETE ON thread BEGIN
    UPDATE tally SET n = n - 1 WHERE what = 'thread' AND owner = old.owner;
    DELETE FROM tally WHERE what = 'thread' AND owner = old.owner AND n = 0;
END;
`

// countRuns creates the table of counts and fills it from the rows.
func countRuns() *goose.Migration {
	return goose.NewGoMigration(countVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, countColumns); err != nil {
			return err
		}
		if err := copyOwners(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, countTables)
		return err
	}}, nil)
}

// copyOwners fills the columns owner and deliver_to of each thread from the thread's body.
func copyOwners(ctx context.Context, tx *sql.Tx) error {
	type row struct {
		key              int64
		owner, deliverTo string
	}
	for last := int64(0); ; {
		var page []row
		const threads = "key, body FROM thread WHERE key > ? ORDER BY key LIMIT 1000"
		err := eachRow(ctx, tx, threads, func(v []driver.Value) error {
			t, err := scanThread(&columns{row: values(v)})
			page = append(page, row{t.Key, t.Owner, t.DeliverTo})
			return err
		}, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			last = t.key
			const update = "UPDATE thread SET owner = ?, deliver_to = ? WHERE key = ?"
			if _, err := tx.ExecContext(ctx, update, t.owner, orNull(t.deliverTo).ofDriver(), t.key); err != nil {
				return err
			}
		}
	}
}
