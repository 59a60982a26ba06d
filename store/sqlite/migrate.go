package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables up to this version. Those of a newer one are refused.
func migrate(ctx context.Context, connector driver.Connector) (err error) {
	db := sql.OpenDB(connector)
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	db.SetMaxOpenConns(1)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(packRows(), shareDue(), sumUse(), countRuns(), countInboxes()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	for {
		have, know, err := provider.GetVersions(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the version of the tables: %w", err)
		case have > know:
			return fmt.Errorf("the tables have version %d, made by a newer mailroom; this one knows up to %d: use the newer one",
				have, know)
		case have == know:
			return nil
		}
		if _, err := provider.Up(ctx); err != nil {
			if now, _, e := provider.GetVersions(ctx); e == nil && now > have {
				continue // another handle, opened at the same time, was quicker
			}
			return fmt.Errorf("migrate the tables from version %d to %d: %w", have, know, err)
		}
	}
}
