package storage

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/bus"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// Handles are the handles of a server on its store.
type Handles struct {
	Store  store.Store
	Lanes  []store.Store   // further ones, for the lanes of the ledger
	Files  *postgres.Files // beside the store; nil: each server has its own
	Lost   <-chan error    // receives the error with which the store fails by itself; nil: it reconnects
	Tables int64           // version of the tables that this program knows; 0: no other server uses the store
}

// Open opens the store that the configuration selects.
func Open(ctx context.Context, held *datadir.Lock, c *config.Config, log *slog.Logger) (*Handles, error) {
	if c.Store.Kind == config.StorePostgres {
		return openPostgres(ctx, c, log)
	}
	if err := held.PrepareStore(); err != nil {
		return nil, err
	}
	file, err := sqlite.Open(ctx, held.Dir.Database(), sqlite.Options{Guard: true})
	if err != nil {
		return nil, err
	}
	return &Handles{Store: file, Lost: file.Failed()}, nil
}

// MayAppear reports whether the error of [Open] may go away without a change, because the database does not answer
// yet.
func MayAppear(err error) bool { return postgres.MayAppear(err) }

func openPostgres(ctx context.Context, c *config.Config, log *slog.Logger) (*Handles, error) {
	o := postgresOptions(c)
	first, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if n := asynchronousStandbys(ctx, first); n != "" {
		log.Warn(failoverRisk, "standbys", n)
	}
	h := &Handles{Store: first, Tables: first.Tables()}
	if h.Files, err = postgres.NewFiles(o); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	o.MustExist = true // the first handle has made the tables
	for i := 1; i < min(c.Postgres.Writers, c.Runs); i++ {
		o.Node = c.Mark + "/" + strconv.Itoa(i)
		lane, err := postgres.Open(ctx, o)
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
		h.Lanes = append(h.Lanes, lane)
	}
	return h, nil
}

const failoverRisk = "a failover of the database to an asynchronous standby may lose acknowledged work; see durable " +
	"in the configuration"

// asynchronousStandbys describes the standbys whose promotion may lose acknowledged work: their number, why it is not
// known, or "" if there are none.
func asynchronousStandbys(ctx context.Context, s *postgres.Store) string {
	switch n, err := s.AsynchronousStandbys(ctx); {
	case err != nil:
		return "not known: " + err.Error()
	case n > 0:
		return strconv.Itoa(n)
	}
	return ""
}

// Close closes all handles.
func (h *Handles) Close() error {
	err := h.Store.Close()
	for _, lane := range h.Lanes {
		err = errors.Join(err, lane.Close())
	}
	return err
}

// OpenWire returns the wire that connects the servers on the configured store, or nil if the configuration has none:
// with a store of SQLite, or with another bus.
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
