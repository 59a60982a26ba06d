package storage

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/store/sqlite"
)

func restoreCommand(con *command.Console) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Replace the store with a backup, while no server runs",
		Long: `Replace the store of the data folder with a copy that "mailroom doctor --backup" wrote.
The copy is checked first. The replaced files are kept in a new folder in the data
folder. No server may run on the data folder.

With --accept-loss and no file, keep the current store although it lacks commits that a
server acknowledged, so that a server can start on it.

Exit codes: 0 success, 1 the copy has findings or a server runs, 2 invalid usage,
4 cannot read or write.`,
		Example: `  mailroom restore /backup/mailroom-monday.db
  mailroom restore --accept-loss --data /srv/mailroom`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&accept, "accept-loss", false, "keep the current store without its lost commits")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if accept == (len(args) == 1) {
			return command.Errorf(command.ExitUsage, "", "name a backup file or use --accept-loss, not both")
		}
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := selectStore(con.Env, dir, "", "")
		if err != nil {
			return err
		}
		if c.Store.Kind == config.StorePostgres {
			return command.Errorf(command.ExitUsage, "restore the database with its own tools",
				"the store is a PostgreSQL database, and this command replaces a file")
		}
		held, err := dir.Acquire(cmd.Context())
		if err != nil {
			return explainLockError(err)
		}
		defer func() { err = errors.Join(err, held.Release()) }()
		if accept {
			return acceptLoss(cmd.Context(), con, dir)
		}
		return restoreStore(cmd.Context(), con, held, args[0])
	}
	return cmd
}

// explainLockError turns an error of locking the data folder into an exit error.
func explainLockError(err error) error {
	hint := ""
	if used, ok := errors.AsType[*datadir.InUseError](err); ok {
		hint = used.Hint()
	}
	return command.Errorf(command.ExitFailed, hint, "%w", err)
}

// restoreStore checks the copy and replaces the store with it.
func restoreStore(ctx context.Context, con *command.Console, held *datadir.Lock, from string) error {
	if wal, err := os.Stat(from + "-wal"); err == nil && wal.Size() > 0 {
		return command.Errorf(command.ExitUsage, "write a backup of it with `mailroom doctor --backup FILE`",
			"%s is not a backup but the store of a server: it has a WAL file", from)
	}
	commits, _, err := checkCopy(ctx, con, held.Dir, from)
	if err != nil {
		return err
	}
	kept, err := held.ReplaceStore(from, func(database string) error {
		return sqlite.WriteRevision(database, sqlite.Revision{Commits: commits})
	})
	if err != nil {
		return command.Errorf(command.ExitServer,
			"fix the cause and run the command again; a server refuses the folder until then", "%w", err)
	}
	if kept != "" {
		con.Infof("the replaced files are in %s", kept)
	}
	con.Infof("restored %s from %s, at revision %d", held.Dir.Database(), from, commits)
	return nil
}

// checkCopy checks a database and returns its revision, and in lost the commits that are missing. Findings are an
// error. The revision is 0 if the tables are of an older version, which the next server migrates.
func checkCopy(
	ctx context.Context, con *command.Console, dir datadir.Dir, path string,
) (commits int64, lost *sqlite.LostCommitsError, err error) {
	file, err := sqlite.OpenFile(ctx, path)
	if version, ok := errors.AsType[*sqlite.VersionError](err); ok && version.CanMigrate() {
		con.Infof("%s has tables of an older version and was not checked; the next server migrates it", path)
		last, known, err := sqlite.ReadRevision(path)
		if known && last.Commits > 0 { // the revision of the tables is not known
			lost = &sqlite.LostCommitsError{Path: path, Want: last.Commits}
		}
		return 0, lost, err
	}
	if err != nil {
		return 0, nil, explainStoreError(ctx, con, dir, err)
	}
	d := diagnosis{Store: path}
	if err = checkFile(ctx, file, &d); err == nil {
		commits, lost, err = file.Commits(ctx)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, nil, explainStoreError(ctx, con, dir, err)
	}
	if !d.Sound() {
		return 0, nil, errors.Join(printReport(con, d.Report), foundError())
	}
	return commits, lost, nil
}

// acceptLoss records the current revision of the store as the latest.
func acceptLoss(ctx context.Context, con *command.Console, dir datadir.Dir) error {
	commits, lost, err := checkCopy(ctx, con, dir, dir.Database())
	if err != nil {
		return err
	}
	if lost == nil {
		con.Infof("%s has all commits", dir.Database())
		return nil
	}
	if err := sqlite.WriteRevision(dir.Database(), sqlite.Revision{Commits: commits}); err != nil {
		return command.Errorf(command.ExitServer, "", "%w", err)
	}
	if lost.Want == 0 {
		con.Infof("%s continues at revision %d, without the commits after it if there were any", dir.Database(), commits)
		return nil
	}
	con.Infof("%s continues at revision %d without %d lost commits", dir.Database(), commits, lost.Want-commits)
	return nil
}
