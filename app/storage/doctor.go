// Package storage opens the store that a configuration selects, and has the commands that check,
// migrate, copy and replace it.
package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/doctor"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// Commands returns the commands of this package.
func Commands(con *command.Console) []*cobra.Command {
	return []*cobra.Command{doctorCommand(con), migrateCommand(con), restoreCommand(con), storeCommand(con),
		worktreesCommand(con)}
}

func doctorCommand(con *command.Console) *cobra.Command {
	var backup, file, url string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check or back up the store, also while a server runs",
		Long: `Check the invariants of the store, also while servers run on it. The store is the one that
the configuration in the data folder selects: a file in that folder, or a PostgreSQL
database. The check is read-only and does not contact a server.

With --backup, write a consistent copy of the file and check the copy instead. Restore
it with "mailroom restore FILE". Back up a database with its own tools.

Exit codes: 0 no findings, 1 findings, 2 invalid usage, 4 cannot read or write.`,
		Example: `  mailroom doctor
  mailroom doctor --data /srv/mailroom -o json
  mailroom doctor --backup /backup/mailroom-monday.db
  mailroom doctor --store "postgres://mailroom@db.example.org/mailroom"`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&backup, "backup", "", "write a copy of the store to this file, which must not exist")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.Flags().StringVar(&url, "store", "", "check the store in this PostgreSQL database instead of the configured one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := selectStore(con.Env, dir, file, url)
		if err != nil {
			return err
		}
		d := diagnosis{Store: dir.Database()}
		switch writes := cmd.Flags().Changed("backup"); {
		case writes && c.Store.Kind == config.StorePostgres:
			return command.Errorf(command.ExitUsage,
				"back it up with pg_dump or the tools of its provider, and check a restored copy with --store",
				"--backup copies a file, and the store is a PostgreSQL database")
		case writes:
			err = backupStore(cmd.Context(), con, dir, backup, &d)
		case c.Store.Kind == config.StorePostgres:
			err = examineDatabase(cmd.Context(), c, &d)
		default:
			err = examine(cmd.Context(), con, dir, &d)
		}
		if err != nil {
			return err
		}
		if err := printDiagnosis(con, d, *output); err != nil {
			return err
		}
		if !d.Sound() {
			return foundError()
		}
		return nil
	}
	return cmd
}

// diagnosis is the JSON output of mailroom doctor.
type diagnosis struct {
	Store  string `json:"store"`            // the file or the schema that was read
	Backup string `json:"backup,omitempty"` // the copy that was written and checked instead
	Risk   string `json:"risk,omitempty"`   // why acknowledged work may be lost, though the store is sound
	doctor.Report
}

// foundError returns the error of a command that has already printed its findings.
func foundError() error {
	return &command.PrintedError{Code: command.ExitFailed, Reason: "the store has findings"}
}

// selectStore returns the configuration whose store is checked.
func selectStore(env func(string) string, dir datadir.Dir, file, url string) (*config.Config, error) {
	if url != "" {
		c := config.Default(nil)
		c.Store.Kind, c.Postgres.URL = config.StorePostgres, url
		return c, nil
	}
	must := file != ""
	if !must {
		file = dir.Config()
	}
	c, err := config.Load(file, must, config.Kinds(), env)
	if err != nil {
		return nil, command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return c, nil
}

// examineDatabase checks the store in a database.
func examineDatabase(ctx context.Context, c *config.Config, d *diagnosis) error {
	o := postgresOptions(c)
	o.MustExist, o.Readers = true, 1
	d.Store = "schema " + o.Schema
	st, err := postgres.Open(ctx, o)
	if err == nil {
		d.Report, err = doctor.Check(ctx, st)
		if n := asynchronousStandbys(ctx, st); n != "" {
			d.Risk = failoverRisk + " (standbys: " + n + ")"
		}
		err = errors.Join(err, st.Close())
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, postgres.ErrNoStore):
		return command.Errorf(command.ExitServer, "check the address and the schema of [postgres]", "%w", err)
	case err != nil:
		return command.Errorf(command.ExitServer, "", "%w", err)
	}
	return nil
}

// examine checks the store in dir.
func examine(ctx context.Context, con *command.Console, dir datadir.Dir, d *diagnosis) error {
	file, err := sqlite.OpenFile(ctx, d.Store)
	if err != nil {
		return explainStoreError(ctx, con, dir, err)
	}
	if err = checkFile(ctx, file, d); err == nil {
		err = findLoss(ctx, file, d)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		printFindings(con, d.Report)
		return explainStoreError(ctx, con, dir, err)
	}
	return nil
}

// checkFile checks the file's integrity and the invariants of its content.
func checkFile(ctx context.Context, file *sqlite.File, d *diagnosis) error {
	faults, err := file.Faults(ctx)
	if err == nil {
		d.Report, err = doctor.Check(ctx, file)
	}
	first := []doctor.Finding{} // findings to print before the others, which may be their consequences
	for _, said := range faults {
		first = append(first, doctor.Finding{Invariant: doctor.File, Text: said})
	}
	d.Findings = append(first, d.Findings...)
	return err
}

// findLoss adds a finding if the store has lost commits.
func findLoss(ctx context.Context, file *sqlite.File, d *diagnosis) error {
	_, lost, err := file.Commits(ctx)
	if lost != nil {
		d.Findings = append([]doctor.Finding{{Invariant: doctor.Lost, Text: lost.Error()}}, d.Findings...)
	}
	return err
}

// backupStore writes a copy of the store, checks the copy and renames it to target, even if the check has findings.
func backupStore(ctx context.Context, con *command.Console, dir datadir.Dir, target string, d *diagnosis) error {
	to, err := filepath.Abs(target)
	if err != nil {
		return command.Errorf(command.ExitUsage, "", "--backup: %w", err)
	}
	d.Backup = to
	file, err := sqlite.OpenFile(ctx, d.Store)
	if err != nil {
		return explainStoreError(ctx, con, dir, err)
	}
	err = file.Backup(ctx, to, func(path string) (err error) {
		made, err := sqlite.OpenFile(ctx, path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, made.Close()) }()
		return checkFile(ctx, made, d)
	})
	err = errors.Join(err, file.Close())
	switch {
	case errors.Is(err, fs.ErrExist):
		return command.Errorf(command.ExitUsage, "name a new file", "%s already exists", to)
	case errors.Is(err, fs.ErrNotExist):
		return command.Errorf(command.ExitUsage, "create it, or name another", "the folder %s does not exist",
			filepath.Dir(to))
	case err != nil:
		return explainStoreError(ctx, con, dir, err)
	}
	return nil
}

// explainStoreError turns an error of reading the store into an exit error.
func explainStoreError(ctx context.Context, con *command.Console, dir datadir.Dir, err error) error {
	const elsewhere = "name the data folder of the server with --data"
	_, there := os.Stat(string(dir))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(there, fs.ErrNotExist):
		return command.Errorf(command.ExitServer, elsewhere, "the data folder %s does not exist", dir)
	case errors.Is(err, sqlite.ErrNoStore):
		return command.Errorf(command.ExitServer, elsewhere, "%w", err)
	}
	return command.Errorf(command.ExitServer, "", "%w", err)
}
