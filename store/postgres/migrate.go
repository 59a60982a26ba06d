package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Migrations are expanding: a program of the version before can use the tables after them. The file
// NNNN_name.sql brings the tables to version NNNN; a file never changes once it is released. A
// change that older programs cannot use also raises min_code, when no older node runs any more.
//
//go:embed migrations/*.sql
var migrations embed.FS

// codeVersion is the version of the tables that this program knows. It must have a migration.
const codeVersion = 4

// migrationLock is the class of the advisory lock that a migrating handle holds.
const migrationLock = 0x6d61696c

const createSchemaVersion = `CREATE TABLE IF NOT EXISTS schema_version (
	one      bigint PRIMARY KEY CHECK (one = 1),
	version  bigint NOT NULL, -- of the tables
	min_code bigint NOT NULL  -- the oldest codeVersion that may use them
)`

// VersionError is the refusal of tables that only newer programs can use.
type VersionError struct{ Have, MinCode, Know int64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the tables have version %d and require a program that knows version %d or later, this one knows version %d: use a newer program", e.Have, e.MinCode, e.Know)
}

// migrate creates the schema and brings its tables to this program's version. Newer tables stay as
// they are, if this program may use them. Handles that start together take turns.
func migrate(ctx context.Context, conn *pgx.Conn, schema string) (err error) {
	current, err := ready(ctx, conn)
	if err != nil || current {
		return err
	}
	// The connection is closed after the migration, which releases the lock also after an error.
	if err := lockMigrations(ctx, conn, schema); err != nil {
		return err
	}
	if err := createSchema(ctx, conn, schema); err != nil {
		return err
	}
	if current, err = usable(ctx, conn); err == nil && !current {
		err = applyAll(ctx, conn)
	}
	if err != nil {
		return err
	}
	return renewOrder(ctx, conn)
}

// ready reports whether migrate has nothing to do.
func ready(ctx context.Context, conn *pgx.Conn) (bool, error) {
	current, err := usable(ctx, conn)
	if err != nil || !current {
		return false, err
	}
	return sameCluster(ctx, conn)
}

func lockMigrations(ctx context.Context, conn *pgx.Conn, schema string) error {
	if err := tryLock(ctx, conn, migrationLock, schema); err != nil {
		return fmt.Errorf("wait for another handle that migrates the tables: %w", err)
	}
	return nil
}

func applyAll(ctx context.Context, conn *pgx.Conn) error {
	return fs.WalkDir(migrations, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return apply(ctx, conn, name)
	})
}

// ErrNoStore is the refusal of a database without the tables of a store.
var ErrNoStore = errors.New("the database has no store")

// mustExist refuses tables that migrate would change.
func mustExist(ctx context.Context, conn *pgx.Conn, schema string) error {
	current, err := usable(ctx, conn)
	if err != nil || current {
		return err
	}
	have, _, err := versions(ctx, conn)
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("%w in the schema %s", ErrNoStore, schema)
	}
	return fmt.Errorf("the tables have the older version %d: start a server of this version first, which migrates them to %d", have, codeVersion)
}

// createSchema creates the schema unless it exists: a role that may use it need not have the right
// to create schemas.
func createSchema(ctx context.Context, conn *pgx.Conn, schema string) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
			return fmt.Errorf("create the schema %s: %w", schema, err)
		}
	}
	_, err := conn.Exec(ctx, createSchemaVersion)
	return err
}

// usable reports whether the tables are as new as this program. It returns a VersionError or
// ErrUnfinished if this program must not use them.
func usable(ctx context.Context, conn *pgx.Conn) (current bool, err error) {
	have, least, err := versions(ctx, conn)
	switch {
	case err != nil:
		return false, err
	case least >= copyMark:
		return false, ErrUnfinished
	case least > codeVersion:
		return false, &VersionError{Have: have, MinCode: least, Know: codeVersion}
	}
	return have >= codeVersion, nil
}

// versions returns the version of the tables, 0 if there are none.
func versions(ctx context.Context, conn *pgx.Conn) (have, least int64, err error) {
	err = conn.QueryRow(ctx, "SELECT version, min_code FROM schema_version WHERE one = 1").Scan(&have, &least)
	var pg *pgconn.PgError
	if errors.Is(err, pgx.ErrNoRows) || errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000") { // undefined_table, invalid_schema_name
		return 0, 0, nil
	}
	return have, least, err
}

// apply runs a migration in one transaction, unless the tables have its version already. It waits
// for locks for a short time only, because other statements queue behind it.
func apply(ctx context.Context, conn *pgx.Conn, name string) (err error) {
	number, _, _ := strings.Cut(path.Base(name), "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("migration %s: %w", name, err)
	}
	text, err := migrations.ReadFile(name)
	if err != nil {
		return err
	}
	have, _, err := versions(ctx, conn)
	if err != nil || have >= version {
		return err
	}
	err = execute(ctx, conn, string(text)+fmt.Sprintf(`
INSERT INTO schema_version VALUES (1, %d, 1) ON CONFLICT (one) DO UPDATE SET version = excluded.version;`, version))
	if err != nil {
		return fmt.Errorf("migrate the tables from version %d to %d: %w", have, version, err)
	}
	return nil
}

// execute runs the statements of a text in one transaction, as the simple protocol does.
func execute(ctx context.Context, conn *pgx.Conn, text string) error {
	for attempt := 1; ; attempt++ {
		_, err := conn.PgConn().Exec(ctx, "SET LOCAL lock_timeout = '2s';\n"+text).ReadAll()
		if err == nil || outcomeOf(err) != conflict || attempt == 10 {
			return err
		}
	}
}
