package storage

import (
	"context"
	"log/slog"

	"mailroom/bus"
	"mailroom/internal/config"
	"mailroom/internal/datadir"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// Open opens the store that the configuration selects. lost receives the error with which it
// fails by itself.
func Open(ctx context.Context, held *datadir.Lock, c *config.Config, log *slog.Logger) (st store.Store, lost <-chan error, err error) {
	if c.Store.Kind == config.StorePostgres {
		if c.Postgres.Durable == config.DurablePrimary {
			log.Info("a failover of the database to an asynchronous standby may lose acknowledged work; see durable in the configuration")
		}
		st, err := postgres.Open(ctx, postgresOptions(c))
		return st, nil, err // it reconnects
	}
	if err := held.PrepareStore(); err != nil {
		return nil, nil, err
	}
	file, err := sqlite.Open(ctx, held.Dir.Database(), sqlite.Options{Guard: true})
	if err != nil {
		return nil, nil, err
	}
	return file, file.Failed(), nil
}

// OpenWire returns the wire between the servers on the configured store, or nil if there is none.
func OpenWire(c *config.Config, log *slog.Logger) (bus.Wire, error) {
	if c.Store.Kind != config.StorePostgres || c.Bus.Kind != config.BusPostgres {
		return nil, nil
	}
	return postgres.NewWire(postgresOptions(c), log)
}

// postgresOptions returns the options of the configured database.
func postgresOptions(c *config.Config) postgres.Options {
	p := c.Postgres
	return postgres.Options{
		URL: p.URL, URLFile: p.URLFile, Schema: p.Schema, Node: c.Mark, Readers: p.Readers,
		ConnectTimeout: p.ConnectTimeout, LockTimeout: p.LockTimeout, StatementTimeout: p.StatementTimeout,
		IdleInTransaction: p.IdleInTransaction, Durable: postgres.Durability(p.Durable),
	}
}
