package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What excludes others is a lock on a table or a row of this schema. An advisory lock would not do: every role
// that may connect to the database can take it, and so stop the servers. Advisory locks remain in two uses
// that wait for no other role: programs of older versions exclude each other by them, and they mark
// connections with the version of their program.

// Tables without rows that a migration and a copy lock, in the order of being locked.
const (
	copyTable      = "schema_copying"
	migrationTable = "schema_migrating"
)

// Classes of the advisory locks on the hash of a schema's name.
const (
	migrationLock = 0x6d61696c // held by a migrating connection, for programs that know version 11 or less
	programLock   = 0x6d620000 // plus the version that a program knows, see mark
	copyLock      = 0x6d61696d // held by the writing connection of a copy, see lockCopy
)

// tableLock holds a table's lock in an open transaction of its own connection, because a migration has several
// transactions. Such a transaction has neither a snapshot nor an id, so that no index build and no reader of
// the log waits for it.
type tableLock struct{ session *session }

func (l tableLock) release() {
	if l.session != nil {
		l.session.close()
	}
}

// lockAgain is the pause between two tries to get a lock.
const lockAgain = 50 * time.Millisecond

// lockTable tries again and again until it gets the lock of a table. The statement itself does not wait, because a
// waiting statement would keep a snapshot.
func (s *Store) lockTable(ctx context.Context, table string) (tableLock, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return tableLock{}, err
	}
	text := "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE " + table + " IN EXCLUSIVE MODE NOWAIT"
	for {
		_, err := c.conn.PgConn().Exec(ctx, text).ReadAll()
		switch {
		case err == nil:
			return tableLock{c}, nil
		case ctx.Err() != nil:
			c.close()
			return tableLock{}, context.Cause(ctx)
		case outcomeOf(err) != conflict:
			c.close()
			return tableLock{}, err
		}
		if _, err := c.conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
			c.close()
			return tableLock{}, err
		}
		if err := pauseFor(ctx, lockAgain); err != nil {
			c.close()
			return tableLock{}, err
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lockMigrations waits for the turn to migrate, with programs of older versions too. conn keeps the lock that
// those wait for.
func (s *Store) lockMigrations(ctx context.Context, conn *pgx.Conn) (tableLock, error) {
	l, err := s.lockTable(ctx, migrationTable)
	if err == nil {
		if err = lockAdvisory(ctx, conn, migrationLock, s.options.Schema); err != nil {
			l.release()
			l = tableLock{}
		}
	}
	if err != nil {
		return l, fmt.Errorf("wait for another handle that migrates the tables: %w", err)
	}
	return l, nil
}

// lockAdvisory takes an advisory lock of the session. It waits only while a role that may use the schema holds
// it: advisory_held answers the same, but a migration may not have created it yet.
func lockAdvisory(ctx context.Context, conn *pgx.Conn, class int64, name string) error {
	const held = `SELECT pg_try_advisory_lock(($1::bigint)::int, hashtext($2)), EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.pid <> pg_backend_pid()
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
		AND l.classid::bigint = $1 AND l.objid::bigint = hashtext($2)::bigint & 4294967295 AND has_schema_privilege(a.usename, $2, 'USAGE'))`
	for {
		var mine, others bool
		if err := conn.QueryRow(ctx, held, class, name).Scan(&mine, &others); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil || mine || !others {
			return err
		}
		if err := pauseFor(ctx, lockAgain); err != nil {
			return err
		}
	}
}

// markTries is how many free keys mark tries.
const markTries = 64

// mark marks a connection as one of a program that knows version: it takes an advisory lock whose
// number has the version and the schema. Its other bits are random, so that no other role can hold
// it before, and it never waits. Programs that know version 11 or less wait for a lock with the
// hash of the schema.
func mark(ctx context.Context, conn *pgx.Conn, version int64, schema string) error {
	for range markTries {
		key := (programLock+version)<<32 | int64(schemaBits(schema))<<16 | int64(rand.N(1<<16))
		try := "SELECT pg_try_advisory_lock_shared(" + strconv.FormatInt(key, 10) + ")"
		results, err := conn.PgConn().Exec(ctx, try).ReadAll()
		if err != nil {
			return err
		}
		if string(results[0].Rows[0][0]) == "t" {
			return nil
		}
	}
	return errors.New("mark the connection: other sessions of the database hold all advisory locks that it tries: " +
		"find them in pg_locks, and end them")
}

func schemaBits(schema string) uint16 { return uint16(crc32.ChecksumIEEE([]byte(schema))) }

// endOlderConnections ends the connections of programs that know less than a version, and waits for
// their end.
func endOlderConnections(ctx context.Context, tx pgx.Tx, schema string, need int64) error {
	const end = `SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid::bigint >= $1 AND classid::bigint < $2
		AND (objsubid = 2 AND objid::bigint = hashtext($3)::bigint & 4294967295 OR objsubid = 1 AND objid::bigint >> 16 = $4)`
	for {
		var left int
		err := tx.QueryRow(ctx, end, int64(programLock), programLock+need, schema, int64(schemaBits(schema))).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		if err := pauseFor(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// createSchema creates the schema and the tables that migrations need, unless they exist: a role that may use
// the schema need not have the right to create schemas. Other handles may create them at the same time, which
// IF NOT EXISTS does not see before they commit.
func createSchema(ctx context.Context, conn *pgx.Conn, schema string) (err error) {
	for range lockTries {
		err = tryCreateSchema(ctx, conn, schema)
		if !createdByAnother(err) {
			return err
		}
	}
	return err
}

// createdByAnother reports whether a CREATE met the same one of another connection. Which code it
// gets depends on the catalog that it came to second: a table is a row of pg_class and one of
// pg_type.
func createdByAnother(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pg.Code {
	case "23505", "42710", "42P06", "42P07": // unique_violation, duplicate_object, duplicate_schema, duplicate_table
		return true
	}
	return false
}

func tryCreateSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
			return fmt.Errorf("create the schema %s: %w", schema, err)
		}
	}
	const create = "CREATE TABLE IF NOT EXISTS "
	for _, text := range []string{createSchemaVersion, create + copyTable + " ()", create + migrationTable + " ()"} {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}
