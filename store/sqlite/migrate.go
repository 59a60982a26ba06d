package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"
	"path"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// baseVersion is the oldest version of the tables that migrate accepts, that of the first file in
// migrations.
const baseVersion = 7

// migrator returns the migrations to this program's tables, from an empty database or from
// baseVersion.
func migrator(db *sql.DB) (*goose.Provider, error) {
	all, err := fileMigrations()
	if err != nil {
		return nil, err
	}
	all = append(all, shareDue(), sumUse(), countRuns(), countInboxes(), indexClaims())
	return goose.NewProvider(goose.DialectSQLite3, db, nil,
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(all...))
}

// fileMigrations returns the migrations of the files. SQLite splits a file into statements by itself, as its own parser
// sees them; goose would take a buffer of 4 MB for each line, a quarter of the time in which a server makes its store.
func fileMigrations() (all []*goose.Migration, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		file := path.Base(name)
		version, err := goose.NumericComponent(file)
		if err != nil {
			return nil, err
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		run := func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return nil
		}
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil))
	}
	return all, nil
}

// migrate creates the tables in an empty file, and brings older ones up to this program's version. For tables that are
// newer, or older than baseVersion, it returns a [VersionError] and changes nothing.
func migrate(ctx context.Context, connector driver.Connector) (err error) {
	db := sql.OpenDB(connector)
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	db.SetMaxOpenConns(1)
	if created, err := create(ctx, db); created || err != nil {
		if err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
		return nil
	}
	provider, err := migrator(db)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	for {
		have, know, err := provider.GetVersions(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the version of the tables: %w", err)
		case have > know, 0 < have && have < baseVersion:
			return &VersionError{Have: have, Know: know}
		case have == know:
			return nil
		}
		if _, err := provider.Up(ctx); err != nil {
			if now, _, e := provider.GetVersions(ctx); e == nil && now > have {
				continue // another handle that opened at the same time has migrated
			}
			return fmt.Errorf("migrate the tables from version %d to %d: %w", have, know, err)
		}
	}
}

// eachRow calls each with every row of a query.
func eachRow(
	ctx context.Context, tx *sql.Tx, query string, each func(row []driver.Value) error, args ...any,
) (err error) {
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
