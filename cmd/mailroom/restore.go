package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"mailroom/cmd/mailroom/internal/datadir"
	"mailroom/store/sqlite"
)

func (m *Main) restoreCommand() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put a backup in the place of the store, while no server runs",
		Long: `Put a copy that "mailroom doctor --backup" wrote in the place of the data folder's
store. The copy is checked first. The files of the store that was there are kept in
a folder beside it. No server may run on the data folder.

With --accept-loss, and without a file, the store that is there stays, although it
lacks commits that a server acknowledged. The next server then starts on it.

Exit codes: 0 done, 1 the copy has findings or a server runs, 2 usage, 4 cannot be
read or written.`,
		Example: `  mailroom restore /backup/mailroom-monday.db
  mailroom restore --accept-loss --data /srv/mailroom`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&accept, "accept-loss", false, "keep the store that is there, without the commits it has lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if accept == (len(args) == 1) {
			return exitErrorf(exitUsage, "", "name the file of a backup, or use --accept-loss")
		}
		dir, err := datadir.Find(m.data, m.Env)
		if err != nil {
			return exitErrorf(exitUsage, "", "%w", err)
		}
		held, err := dir.Acquire(cmd.Context())
		if err != nil {
			return m.explainServeError(err)
		}
		defer func() { err = errors.Join(err, held.Release()) }()
		if accept {
			return m.acceptLoss(cmd.Context(), dir)
		}
		return m.restore(cmd.Context(), held, args[0])
	}
	return cmd
}

// restore checks a copy and puts it in place.
func (m *Main) restore(ctx context.Context, held *datadir.Lock, from string) error {
	if wal, err := os.Stat(from + "-wal"); err == nil && wal.Size() > 0 {
		return exitErrorf(exitUsage, "write a backup of it with `mailroom doctor --backup FILE`", "%s has a WAL beside it, so it is the store of a server and no backup", from)
	}
	commits, err := m.checkBackup(ctx, held.Dir, from)
	if err != nil {
		return err
	}
	kept, err := held.ReplaceStore(from, commits)
	if err != nil {
		return exitErrorf(exitServer, "run the same command again when the cause is mended; a server refuses the folder until then", "%w", err)
	}
	if kept != "" {
		m.infof("the files of the store that was there are in %s", kept)
	}
	m.infof("restored %s from %s, at revision %d", held.Dir.Database(), from, commits)
	return nil
}

// checkBackup refuses a database with findings, and returns its revision, 0 for one
// whose tables an older version made: the next server migrates those.
func (m *Main) checkBackup(ctx context.Context, dir datadir.Dir, path string) (commits int64, err error) {
	file, err := sqlite.OpenFile(ctx, path)
	if version, ok := errors.AsType[*sqlite.VersionError](err); ok && version.CanMigrate() {
		m.infof("%s was made by an older mailroom and is not checked; the next start of the server migrates it", path)
		return 0, nil
	}
	if err != nil {
		return 0, m.explainStoreError(ctx, dir, err)
	}
	d := diagnosis{Store: path}
	if err = checkFile(ctx, file, &d); err == nil {
		commits, _, err = file.Commits(ctx)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, m.explainStoreError(ctx, dir, err)
	}
	if !d.Sound() {
		return 0, errors.Join(m.printReport(d.Report), &findingsError{})
	}
	return commits, nil
}

// acceptLoss takes the store as it is for the newest.
func (m *Main) acceptLoss(ctx context.Context, dir datadir.Dir) error {
	last, known, err := sqlite.ReadRevision(dir.Database())
	if err != nil {
		return exitErrorf(exitServer, "", "%w", err)
	}
	commits, err := m.checkBackup(ctx, dir, dir.Database())
	if err != nil {
		return err
	}
	if !known || commits >= last.Commits {
		m.infof("%s lacks no commits", dir.Database())
		return nil
	}
	if err := sqlite.WriteRevision(dir.Database(), sqlite.Revision{Commits: commits}); err != nil {
		return exitErrorf(exitServer, "", "%w", err)
	}
	m.infof("%s goes on at revision %d, without %d commits", dir.Database(), commits, last.Commits-commits)
	return nil
}
