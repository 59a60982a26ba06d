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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/internal/lazyregexp"
)

// Migrations are expanding: a program of the version before can use the tables after them. The file
// NNNN_name.sql brings the tables to version NNNN; a file never changes once it is released. It runs
// in one transaction, unless its first line is noTransaction. A change that older programs cannot
// use is a file of its own in contractions, see contract.
//
//go:embed migrations/*.sql
var migrations embed.FS

// contractions is the folder of contracting migrations within migrations; there are none yet.
const contractions = "migrations/contract"

// noTransaction is the first line of a migration whose statements run one by one, as CREATE INDEX
// CONCURRENTLY requires. Each of them ends with a semicolon at the end of its line, and must be
// repeatable, because the migration runs again after a crash: CREATE INDEX CONCURRENTLY IF NOT
// EXISTS, ADD COLUMN IF NOT EXISTS.
const noTransaction = "-- no transaction\n"

// codeVersion is the version of the tables that this program knows. It must have a migration.
const codeVersion = 17

const createSchemaVersion = `CREATE TABLE IF NOT EXISTS schema_version (
	one      bigint PRIMARY KEY CHECK (one = 1),
	version  bigint NOT NULL, -- of the tables
	min_code bigint NOT NULL  -- the oldest codeVersion that may use them
)`

// VersionError is the refusal of tables that only newer programs can use.
type VersionError struct{ Have, MinCode, Know int64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the tables have version %d and require a program that knows version %d or later, "+
		"this one knows version %d: use a newer program", e.Have, e.MinCode, e.Know)
}

// migration is one file of migrations.
type migration struct {
	version int64
	name    string
	text    string
}

// code has the migrations that a program knows, and the version of the tables to which they lead.
type code struct {
	version  int64       // version to which the program brings the tables
	expand   []migration // migrations in the order of their versions
	contract []migration // the same; each has changes that programs of older versions cannot use
}

// released returns what this program knows of the tables.
func released() (code, error) {
	expand, err := readMigrations(migrations, "migrations")
	if err != nil {
		return code{}, err
	}
	contract, err := readMigrations(migrations, contractions)
	return code{version: codeVersion, expand: expand, contract: contract}, err
}

// readMigrations reads the files of a folder; without the folder it returns no files.
func readMigrations(files fs.FS, folder string) (all []migration, err error) {
	names, err := fs.Glob(files, path.Join(folder, "*.sql")) // in the order of their numbers
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, e := strconv.ParseInt(number, 10, 64)
		if e != nil {
			return nil, fmt.Errorf("migration %s: %w", name, e)
		}
		text, e := fs.ReadFile(files, name)
		if e != nil {
			return nil, e
		}
		all = append(all, migration{version: version, name: name, text: string(text)})
	}
	return all, err
}

// migrate creates the schema and brings its tables to the version of the program. Newer tables stay
// as they are, if the program may use them. Programs of older versions wait until conn is closed.
func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) error {
	c, schema := s.code, s.options.Schema
	if current, err := c.ready(ctx, conn); err != nil || current {
		return err
	}
	if err := createSchema(ctx, conn, schema); err != nil {
		return err
	}
	lock, err := s.lockMigrations(ctx, conn)
	if err != nil {
		return err
	}
	defer lock.release()
	current, err := c.usable(ctx, conn)
	if err == nil && !current {
		err = c.applyAll(ctx, conn, schema)
	}
	if err != nil {
		return err
	}
	return renewOrder(ctx, conn)
}

// ready reports whether migrate has nothing to do.
func (c code) ready(ctx context.Context, conn *pgx.Conn) (bool, error) {
	current, err := c.usable(ctx, conn)
	if err != nil || !current {
		return false, err
	}
	return sameCluster(ctx, conn)
}

// applyAll runs the expanding migrations that the tables do not have yet.
func (c code) applyAll(ctx context.Context, conn *pgx.Conn, schema string) error {
	for _, m := range c.expand {
		if err := m.apply(ctx, conn, schema); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoStore is the refusal of a database without the tables of a store.
var ErrNoStore = errors.New("the database has no store")

// mustExist refuses tables that migrate would change.
func (c code) mustExist(ctx context.Context, conn *pgx.Conn, schema string) error {
	current, err := c.usable(ctx, conn)
	if err != nil || current {
		return err
	}
	have, err := readTables(ctx, conn)
	switch {
	case err != nil:
		return err
	case have.Version == 0:
		return fmt.Errorf("%w in the schema %s", ErrNoStore, schema)
	}
	return fmt.Errorf("the tables have the older version %d: `mailroom migrate`, or the start of a server "+
		"of this version, brings them to version %d", have.Version, c.version)
}

// usable reports whether the tables are as new as the program. It returns the error
// of admit if the program must not use them.
func (c code) usable(ctx context.Context, conn *pgx.Conn) (current bool, err error) {
	have, err := readTables(ctx, conn)
	if err != nil {
		return false, err
	}
	return have.Version >= c.version, c.admit(have)
}

// admit returns a VersionError or ErrUnfinished if the program must not use the tables.
func (c code) admit(t Tables) error {
	switch {
	case t.MinCode >= copyMark:
		return ErrUnfinished
	case t.MinCode > c.version:
		return &VersionError{Have: t.Version, MinCode: t.MinCode, Know: c.version}
	}
	return nil
}

// join marks a connection as one of the program, and refuses tables that only newer programs can
// use. The mark comes before the check, so that a contraction sees each connection that it must end.
func (c code) join(ctx context.Context, conn *pgx.Conn, schema string) error {
	if err := mark(ctx, conn, c.version, schema); err != nil {
		return err
	}
	results, err := conn.PgConn().Exec(ctx, "SELECT version, min_code FROM schema_version WHERE one = 1").ReadAll()
	if err != nil {
		return err
	}
	var t Tables
	for _, row := range results[len(results)-1].Rows {
		if t.Version, err = strconv.ParseInt(string(row[0]), 10, 64); err == nil {
			t.MinCode, err = strconv.ParseInt(string(row[1]), 10, 64)
		}
	}
	return errors.Join(err, c.admit(t))
}

// Tables is the state of the tables of a store.
type Tables struct {
	Version int64 `json:"version"`  // version of the tables; 0: no tables
	MinCode int64 `json:"min_code"` // version of the tables that a program must know to use the store
}

func readTables(ctx context.Context, conn *pgx.Conn) (t Tables, err error) {
	err = conn.QueryRow(ctx, "SELECT version, min_code FROM schema_version WHERE one = 1").Scan(&t.Version, &t.MinCode)
	var pg *pgconn.PgError
	// undefined_table, invalid_schema_name
	if errors.Is(err, pgx.ErrNoRows) || errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000") {
		return Tables{}, nil
	}
	return t, err
}

// apply runs an expanding migration, unless the tables have its version already.
func (m migration) apply(ctx context.Context, conn *pgx.Conn, schema string) error {
	have, err := readTables(ctx, conn)
	if err != nil || have.Version >= m.version {
		return err
	}
	done := fmt.Sprintf(`INSERT INTO schema_version VALUES (1, %d, 1)
		ON CONFLICT (one) DO UPDATE SET version = excluded.version`, m.version)
	if statements, alone := m.statements(); alone {
		for _, text := range append(statements, done) {
			if err = runAlone(ctx, conn, schema, text); err != nil {
				break
			}
		}
	} else {
		err = runLocking(ctx, conn, m.text+"\n"+done)
	}
	if err != nil {
		return fmt.Errorf("migrate the tables from version %d to %d: %w", have.Version, m.version, err)
	}
	return nil
}

// statements returns the statements of a migration that runs outside of a transaction; alone is
// false for any other.
func (m migration) statements() (all []string, alone bool) {
	text, alone := strings.CutPrefix(m.text, noTransaction)
	if !alone {
		return nil, false
	}
	var open strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "--") {
			continue
		}
		open.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, strings.TrimSpace(open.String()))
			open.Reset()
		}
	}
	if rest := strings.TrimSpace(open.String()); rest != "" {
		all = append(all, rest)
	}
	return all, true
}

// buildsIndex matches a statement that builds an index and does not block writers.
var buildsIndex = lazyregexp.New(`^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS ([a-z0-9_]+)\s`)

// runAlone runs a statement outside of a transaction. The build of an index takes its time and waits
// for older transactions, but nothing waits for it. What a broken build has left is dropped first.
func runAlone(ctx context.Context, conn *pgx.Conn, schema, text string) error {
	built := buildsIndex().FindStringSubmatch(text)
	if built == nil {
		return runLocking(ctx, conn, text)
	}
	for _, setting := range []string{"lock_timeout", "statement_timeout"} {
		if _, err := conn.Exec(ctx, "SET "+setting+" = 0"); err != nil {
			return err
		}
	}
	var broken bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index
		WHERE indexrelid = to_regclass($1) AND NOT indisvalid)`, schema+"."+built[1]).Scan(&broken)
	if err == nil && broken {
		_, err = conn.Exec(ctx, "DROP INDEX CONCURRENTLY "+built[1])
	}
	if err == nil {
		_, err = conn.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
	}
	return err
}

// lockTries is how often runLocking runs.
const lockTries = 10

// runLocking runs a script in a transaction. It waits for locks for a short time only, because other
// statements queue behind it, and then tries again.
func runLocking(ctx context.Context, conn *pgx.Conn, script string) error {
	for try := 1; ; try++ {
		// The simple protocol runs the statements of a text in one transaction.
		_, err := conn.PgConn().Exec(ctx, "SET LOCAL lock_timeout = '2s';\n"+script).ReadAll()
		if err == nil || outcomeOf(err) != conflict || try == lockTries {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * 100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
