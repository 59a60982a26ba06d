package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
)

// schema makes the tables of this program's version in an empty file. It is what the migrations come to, written out by
// a test, and the place to read what the tables are.
//
// A new store needs it, and not the migrations, because each of those is a transaction with a sync of its own, after
// which SQLite reads all definitions again: together four times the work.
//
//go:embed schema.sql
var schema string // archtest: an embedded file, never written.

// create makes the tables in an empty file, all or none of them, and reports whether it did. A file with any tables is
// left to the migrations.
func create(ctx context.Context, db *sql.DB) (created bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if empty, err := isEmpty(ctx, conn); err != nil || !empty {
		return false, err
	}
	// Not a sql.Tx: the driver begins those without the lock that keeps another handle from creating the tables too.
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	defer func() {
		if !created {
			_, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, e)
		}
	}()
	if empty, err := isEmpty(ctx, conn); err != nil || !empty {
		return false, err
	}
	if _, err := conn.ExecContext(ctx, schema); err != nil {
		return false, fmt.Errorf("schema.sql: %w", err)
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return false, err
	}
	return true, nil
}

func isEmpty(ctx context.Context, conn *sql.Conn) (bool, error) {
	var n int
	err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
	return n == 0, err
}
