package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pressly/goose/v3"
)

// shareVersion is the version of the tables that introduced due threads by owner.
const shareVersion = 9

const shareColumns = `
ALTER TABLE thread ADD COLUMN due_owner TEXT; -- NULL: not due for an agent
CREATE INDEX thread_due_owner ON thread (due_agent, due_alone, due_owner, due_priority, due_at)
	WHERE due_owner IS NOT NULL;
`

// shareDue fills the owner column of due threads from their bodies.
func shareDue() *goose.Migration {
	return goose.NewGoMigration(shareVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, shareColumns); err != nil {
			return err
		}
		owners := map[int64]string{}
		err := eachRow(ctx, tx, "key, body FROM thread WHERE due_at IS NOT NULL", func(row []driver.Value) error {
			t, err := scanThread(&columns{row: values(row)})
			if err == nil && t.Due.Agent != "" {
				owners[t.Key] = t.Owner
			}
			return err
		})
		if err != nil {
			return err
		}
		for key, owner := range owners {
			if _, err := tx.ExecContext(ctx, "UPDATE thread SET due_owner = ? WHERE key = ?", owner, key); err != nil {
				return err
			}
		}
		return nil
	}}, nil)
}
