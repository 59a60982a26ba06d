package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"mailroom/store"
)

// Durability says where an acknowledged commit must be.
type Durability string

const (
	DurablePrimary Durability = "primary" // on the stable storage of the primary
	DurableSync    Durability = "sync"    // also on a synchronous standby
	DurableStorage Durability = "storage" // on storage that the database replicates itself
)

// checkServer refuses a server that may lose commits, in its own configuration, the database's or
// the role's.
func (o Options) checkServer(ctx context.Context, conn *pgx.Conn) error {
	settings := map[string]string{}
	rows, err := conn.Query(ctx, `SELECT name, setting FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')`)
	if err != nil {
		return err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = value
		return nil
	}); err != nil {
		return err
	}
	return o.checkSettings(settings)
}

func (o Options) checkSettings(settings map[string]string) error {
	if o.AllowUnsafe {
		return nil
	}
	for _, name := range []string{"fsync", "full_page_writes"} {
		if settings[name] == "off" {
			return fmt.Errorf("PostgreSQL may lose commits: %s is off; set it to on", name)
		}
	}
	switch commit := settings["synchronous_commit"]; {
	case commit == "off",
		o.Durable == DurableSync && (commit == "local" || commit == "remote_write"):
		return fmt.Errorf("PostgreSQL may lose commits: synchronous_commit is %s for the server, the database "+
			"or the role; set it to on", commit)
	case o.Durable == DurableSync && settings["synchronous_standby_names"] == "":
		return errors.New(`durable = "sync" requires a synchronous standby: set synchronous_standby_names, ` +
			`or durable = "primary"`)
	}
	return nil
}

// countStandbys counts the receivers of the server's log, without backups and logical subscribers. A
// role without privileges sees no more of them than their number.
const countStandbys = `SELECT count(*) FROM pg_stat_replication r
	WHERE r.state IS DISTINCT FROM 'backup' AND current_setting('synchronous_standby_names') = ''
		AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')`

// AsynchronousStandbys returns how many standbys are attached whose promotion may lose acknowledged commits, because a
// commit waits for none. With a Durability other than DurablePrimary the number is 0.
func (s *Store) AsynchronousStandbys(ctx context.Context) (n int, err error) {
	if s.options.Durable != DurablePrimary {
		return 0, nil
	}
	err = s.View(ctx, func(r store.Reader) error {
		return r.(reader).query("count standbys", func(c *columns) error {
			n = c.Int()
			return nil
		}, countStandbys)
	})
	return n, err
}
