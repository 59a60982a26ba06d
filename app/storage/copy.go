package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/store/transfer"
)

func storeCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Move the store to another database"}
	cmd.AddCommand(copyCommand(con))
	return cmd
}

func copyCommand(con *command.Console) *cobra.Command {
	var from, to string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy a stopped store into an empty one",
		Long: `Copy all rows of a store into an empty one, and compare both. Each store is a data
folder, whose configuration selects an SQLite file in it or a PostgreSQL database, or
the URL of a PostgreSQL database.

Stop all servers of the source first; the command refuses a source in use, and never
changes it. It also refuses a target with data. No server starts on the target until
all rows are there, equal, and without findings of "mailroom doctor". If the command is
interrupted or killed, repeat it: it starts over.

Exit codes: 0 success, 1 a store is in use, has data or differs, 2 invalid usage,
4 cannot read or write.`,
		Example: `  mailroom store copy --from /srv/mailroom --to "postgres://mailroom@db.example.org/mailroom"
  mailroom store copy --from "postgres://mailroom@db.example.org/mailroom" --to /srv/mailroom-new`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "data folder or URL of the store to copy")
	cmd.Flags().StringVar(&to, "to", "", "data folder or URL of the empty store")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print progress (default on a terminal)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		source, err := findPlace("from", from)
		if err != nil {
			return err
		}
		target, err := findPlace("to", to)
		if err != nil {
			return err
		}
		if source.name == target.name {
			return command.Errorf(command.ExitUsage, "name two stores", "--from and --to are the same store, %s", source.name)
		}
		r := &copying{con: con, loud: verbose || command.IsTerminal(con.Stderr)}
		if err := r.run(cmd.Context(), source, target); err != nil {
			if cmd.Context().Err() != nil {
				con.Infof("interrupted: repeat the command, which starts over")
			}
			return explainCopyError(cmd.Context(), err)
		}
		return r.print(*output, source, target)
	}
	return cmd
}

// copying is the state of one execution of the copy command.
type copying struct {
	con     *command.Console
	loud    bool // prints progress
	next    time.Time
	total   store.Counts // numbers of rows in the source
	rows    transfer.Rows
	compare int // threads compared
}

func (c *copying) run(ctx context.Context, from, to *place) (err error) {
	source, err := from.openSource(ctx)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	defer func() { err = errors.Join(err, source.close()) }()
	if err := c.checkSource(ctx, source); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	target, err := to.openTarget(ctx)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	defer func() { err = errors.Join(err, target.close()) }()
	c.progress(true, "copying %s to %s", from.name, to.name)
	if c.rows, err = transfer.Copy(ctx, source.viewer, target.store, func(r transfer.Rows) {
		c.progress(false, "copied %d of %d threads, %d of %d runs", r.Threads, c.total.Threads, r.Runs, c.total.Sum())
	}); err != nil {
		return err
	}
	c.progress(true, "comparing %d threads", c.rows.Threads)
	if c.compare, err = transfer.Compare(ctx, source.viewer, target.store, func(n int) {
		c.progress(false, "compared %d of %d threads", n, c.total.Threads)
	}); err != nil {
		return err
	}
	c.progress(true, "indexing the messages")
	if err := ledger.CopyIndex(ctx, source.viewer, target.store); err != nil {
		return fmt.Errorf("index the messages of the target: %w", err)
	}
	c.progress(true, "checking both stores")
	if err := c.checkBoth(ctx, source, target); err != nil {
		return err
	}
	if err := c.checkSource(ctx, source); err != nil { // a server may have started
		return fmt.Errorf("source: %w", err)
	}
	return target.finish(ctx)
}

// checkSource refuses a store that a server uses, and reads its counts.
func (c *copying) checkSource(ctx context.Context, s *source) error {
	return s.viewer.View(ctx, func(r store.Reader) error {
		workers, err := r.Workers()
		if err == nil && !s.locked {
			err = store.RefuseServers(workers, r.Now())
		}
		if err == nil {
			c.total, err = r.Count(store.CountQuery{})
		}
		return err
	})
}

// checkBoth runs the doctor on both stores at the same time, and prints what it finds.
func (c *copying) checkBoth(ctx context.Context, s *source, t *target) error {
	found := [2]diagnosis{}
	group, ctx := errgroup.WithContext(ctx)
	for i, check := range []func(context.Context, *diagnosis) error{s.check, t.check} {
		group.Go(func() (err error) {
			defer recovery.Error(nil, "checking a store", &err)
			return check(ctx, &found[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, what := range []string{"the source", "the copy"} {
		if d := &found[i]; !d.Sound() {
			printFindings(c.con, d.Report)
			c.con.Infof("%s has findings: %s", what, counts(d.Report))
		}
	}
	if !found[0].Sound() || !found[1].Sound() {
		return foundError()
	}
	return nil
}

// progressInterval is the time between two lines of progress.
const progressInterval = 2 * time.Second

// progress prints a line, unless important is false and the last such line was printed less than progressInterval
// ago.
func (c *copying) progress(important bool, format string, args ...any) {
	now := time.Now()
	if !c.loud || !important && now.Before(c.next) {
		return
	}
	if !important {
		c.next = now.Add(progressInterval)
	}
	c.con.Infof(format, args...)
}

func (c *copying) print(output command.Format, from, to *place) error {
	if output == command.FormatJSON {
		return c.con.PrintJSON(struct {
			From     string        `json:"from"`
			To       string        `json:"to"`
			Copied   transfer.Rows `json:"copied"`
			Compared int           `json:"compared"` // equal threads
		}{from.name, to.name, c.rows, c.compare})
	}
	r := c.rows
	return c.con.Printf("copied %d threads, %d runs, %d entries, %d tickets, %d submit keys, %d tokens\ncompared %d "+
		"threads: equal, and no findings in both stores\n",
		r.Threads, r.Runs, r.Entries, r.Tickets, r.Keys, r.Tokens, c.compare)
}

// explainCopyError turns an error of the command into an exit error with a hint.
func explainCopyError(ctx context.Context, err error) error {
	fail := func(code int, hint string) error { return command.Errorf(code, hint, "%w", err) }
	if ctx.Err() != nil {
		return ctx.Err()
	} else if _, ok := errors.AsType[*command.PrintedError](err); ok {
		return err
	} else if used, ok := errors.AsType[*datadir.InUseError](err); ok {
		return fail(command.ExitFailed, "stop it with `mailroom stop --data "+command.Quote(string(used.Dir))+"`")
	} else if _, ok := errors.AsType[*store.InUseError](err); ok {
		return fail(command.ExitFailed, "stop all servers of that store, and repeat the command when their leases have ended")
	} else if _, ok := errors.AsType[*datadir.StoreExistsError](err); ok {
		return fail(command.ExitFailed, "name another folder, or move all files mailroom.db* out of this one")
	} else if _, ok := errors.AsType[*transfer.DifferenceError](err); ok {
		return fail(command.ExitFailed, "keep the source; no server starts on the target")
	}
	switch {
	case errors.Is(err, postgres.ErrHasData):
		return fail(command.ExitFailed, "name another database or schema, or drop the schema")
	case errors.Is(err, postgres.ErrCopying):
		return fail(command.ExitFailed, "wait for it, or end it")
	case errors.Is(err, postgres.ErrUnfinished):
		return fail(command.ExitFailed, "")
	case errors.Is(err, postgres.ErrNoStore), errors.Is(err, sqlite.ErrNoStore):
		return fail(command.ExitServer, "name the store of a server")
	}
	if e, ok := errors.AsType[*openError](err); !ok {
		return fail(command.ExitServer, "no server starts on the target; repeat the command, which starts over")
	} else if e.place.config != nil {
		return fail(command.ExitServer,
			"check the address, the user with its password and rights, and that the database runs")
	}
	return fail(command.ExitServer, "")
}
