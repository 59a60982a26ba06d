package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math"

	"github.com/pressly/goose/v3"
)

// claimsVersion is the version of the tables in which the index of due threads has the claimed threads.
const claimsVersion = 30

const moveClaim = `UPDATE thread SET worker = NULL, due_at = ?, due_agent = '!' || worker, due_priority = 0,
	due_alone = 0, due_owner = NULL WHERE key = ?`

// indexClaims moves the claimed threads to the index of due threads, as claims.go describes, and drops their own.
func indexClaims() *goose.Migration {
	return goose.NewGoMigration(claimsVersion, &goose.GoFunc{RunTx: moveClaims}, nil)
}

func moveClaims(ctx context.Context, tx *sql.Tx) error {
	ends := map[int64]int64{}
	err := eachRow(ctx, tx, "key, body FROM thread WHERE worker IS NOT NULL", func(row []driver.Value) error {
		t, err := scanThread(&columns{row: values(row)})
		if err != nil {
			return err
		}
		ends[t.Key] = math.MaxInt64
		if !t.Due.At.IsZero() {
			ends[t.Key] = t.Due.At.UnixMicro()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, end := range ends {
		if _, err := tx.ExecContext(ctx, moveClaim, end, key); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "DROP INDEX thread_worker")
	return err
}
