package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pressly/goose/v3"

	"mailroom"
	"mailroom/auth"
	"mailroom/store/internal/format"
)

// useVersion is the version of the tables that introduced the usage of threads and tokens.
const useVersion = 10

const useColumns = `
ALTER TABLE token ADD COLUMN quotas  TEXT; -- JSON
ALTER TABLE token ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN bytes   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN workers INTEGER NOT NULL DEFAULT 0;
`

// sumUse computes the usage of threads and owners.
func sumUse() *goose.Migration {
	return goose.NewGoMigration(useVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, useColumns); err != nil {
			return err
		}
		used, err := sumThreads(ctx, tx)
		if err != nil {
			return err
		}
		err = eachRow(ctx, tx, "owner FROM worker WHERE dead = 0", func(row []driver.Value) error {
			c := columns{row: values(row)}
			owner := c.Text()
			used[owner] = used[owner].Plus(auth.Use{Workers: 1})
			return nil
		})
		if err != nil {
			return err
		}
		for owner, u := range used {
			if _, err := tx.ExecContext(ctx, "UPDATE token SET threads = ?, bytes = ?, workers = ? WHERE name = ?",
				u.Threads, u.Bytes, u.Workers, owner); err != nil {
				return err
			}
		}
		return nil
	}}, nil)
}

// sumThreads writes the size of each thread's log into its row, and returns the sums by owner.
func sumThreads(ctx context.Context, tx *sql.Tx) (map[string]auth.Use, error) {
	// One byte separates the lines of a row.
	const sums = `t.key, t.body, coalesce((SELECT sum(length(CAST(e.lines AS BLOB)) - (e.last_seq - e.first_seq))
		FROM entry e WHERE e.thread = t.key), 0) FROM thread t WHERE t.key > ? ORDER BY t.key LIMIT 1000`
	used := map[string]auth.Use{}
	for last := int64(0); ; {
		var page []*mailroom.Thread
		err := eachRow(ctx, tx, sums, func(row []driver.Value) error {
			t, err := scanThread(&columns{row: values(row)})
			t.Bytes, _ = row[2].(int64)
			used[t.Owner] = used[t.Owner].Plus(auth.Use{Threads: 1, Bytes: t.Bytes})
			page = append(page, t)
			return err
		}, last)
		if err != nil || len(page) == 0 {
			return used, err
		}
		for _, t := range page {
			last = t.Key
			const update = "UPDATE thread SET body = ? WHERE key = ?"
			if _, err := tx.ExecContext(ctx, update, format.AppendThread(nil, t), t.Key); err != nil {
				return used, err
			}
		}
	}
}
