package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/store/postgres"
)

func migrateCommand(con *command.Console) *cobra.Command {
	var contract bool
	var file, url string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables in a PostgreSQL database to this version",
		Long: `Bring the tables in a PostgreSQL database to the version of this program, as the start of
a server does. Servers of this version and of the one before can use them, also while
the command runs. Tables of a newer version stay as they are.

With --contract, also remove from the tables what only older versions need, after an
upgrade that is not to be undone. The command refuses while an older server runs. Older
programs cannot use the tables any more.

A server on an SQLite file migrates it at its start.

Exit codes: 0 migrated, 1 older servers run, 2 invalid usage, 4 cannot read or write.`,
		Example: `  mailroom migrate --data /srv/mailroom
  mailroom migrate --contract
  mailroom migrate --store "postgres://mailroom@db.example.org/mailroom"`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().BoolVar(&contract, "contract", false, "remove what only older versions need")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.Flags().StringVar(&url, "store", "", "migrate the store in this PostgreSQL database instead of the configured one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := selectStore(con.Env, dir, file, url)
		if err != nil {
			return err
		}
		if c.Store.Kind != config.StorePostgres {
			return command.Errorf(command.ExitUsage, "start the server",
				"the store is an SQLite file, which its server migrates at the start")
		}
		m, err := migrate(cmd.Context(), c, contract)
		if err != nil {
			return err
		}
		return printMigrated(con, m, contract, *output)
	}
	return cmd
}

// migrated is the JSON output of mailroom migrate.
type migrated struct {
	Store  string          `json:"store"`
	Before postgres.Tables `json:"before"`
	After  postgres.Tables `json:"after"`
}

func migrate(ctx context.Context, c *config.Config, contract bool) (m migrated, err error) {
	o := postgresOptions(c)
	m.Store = "schema " + o.Schema
	m.Before, m.After, err = postgres.Migrate(ctx, o, contract)
	if _, ok := errors.AsType[*postgres.OlderServersError](err); ok {
		return m, command.Errorf(command.ExitFailed, "upgrade or stop them, then run the command again", "%w", err)
	}
	if err != nil && ctx.Err() == nil {
		return m, command.Errorf(command.ExitServer, "", "%w", err)
	}
	return m, err
}

func printMigrated(con *command.Console, m migrated, contract bool, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(m)
	}
	text := fmt.Sprintf("%s: created the tables in version %d", m.Store, m.After.Version)
	switch {
	case m.After.Version == m.Before.Version:
		text = fmt.Sprintf("%s: the tables have version %d already", m.Store, m.After.Version)
	case m.Before.Version > 0:
		text = fmt.Sprintf("%s: migrated the tables from version %d to %d", m.Store, m.Before.Version, m.After.Version)
	}
	if contract && m.After.MinCode == m.Before.MinCode {
		text += "; there is nothing to remove"
	}
	return con.Printf("%s; programs that know version %d or later can use them\n", text, m.After.MinCode)
}
