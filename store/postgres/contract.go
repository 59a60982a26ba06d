package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"mailroom/store"
	"mailroom/store/internal/format"
)

// OlderServersError is the refusal of a contraction that live servers would not survive.
type OlderServersError struct {
	Need    int64    // version of the tables that a program must know
	Servers []string // each with its host, process and version
}

func (e *OlderServersError) Error() string {
	return fmt.Sprintf("these servers know an older version of the tables than %d: %s",
		e.Need, strings.Join(e.Servers, "; "))
}

// Migrate brings the tables to this program's version, as the start of a server does, and returns
// their state before and after. With contract it also removes what only older programs need. It
// returns an [OlderServersError], and contracts nothing, while a server of an older version lives.
func Migrate(ctx context.Context, o Options, contract bool) (before, after Tables, err error) {
	s, err := newStore(o)
	if err != nil {
		return before, after, err
	}
	c, err := s.connect(ctx)
	if err != nil {
		return before, after, fmt.Errorf("migrate the store in PostgreSQL: %w", err)
	}
	defer c.close()
	err = s.options.checkServer(ctx, c.conn)
	if err == nil {
		before, err = readTables(ctx, c.conn)
	}
	if err == nil {
		err = s.migrate(ctx, c.conn)
	}
	if err == nil && contract {
		err = s.contractAll(ctx, c.conn)
	}
	if err != nil {
		return before, after, fmt.Errorf("migrate the store in PostgreSQL: %w", err)
	}
	after, err = readTables(ctx, c.conn)
	return before, after, err
}

// contractAll runs the contracting migrations that the tables do not have yet.
func (s *Store) contractAll(ctx context.Context, conn *pgx.Conn) error {
	lock, err := s.lockMigrations(ctx, conn)
	if err != nil {
		return err
	}
	defer lock.release()
	for _, m := range s.code.contract {
		if err := m.contract(ctx, conn, s.options.Schema); err != nil {
			return fmt.Errorf("contract the tables to version %d: %w", m.version, err)
		}
	}
	return nil
}

// contract runs a contracting migration in one transaction, unless the tables have it already. No
// older program can use the tables behind it: the lock of schema_version stops connections that
// begin, and those that exist are ended. Their process, which was paused or cut off, then finds
// that it must not connect.
func (m migration) contract(ctx context.Context, conn *pgx.Conn, schema string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		const lock = "SET LOCAL lock_timeout = '2s'; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE"
		if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		have, err := readTables(ctx, tx.Conn())
		if err != nil || have.MinCode >= m.version {
			return err
		}
		servers, err := olderServers(ctx, tx, m.version)
		if err != nil {
			return err
		}
		if len(servers) > 0 {
			return &OlderServersError{Need: m.version, Servers: servers}
		}
		if err := endOlderConnections(ctx, tx, schema, m.version); err != nil {
			return err
		}
		done := fmt.Sprintf("\nUPDATE schema_version SET min_code = %d", m.version)
		_, err = tx.Exec(ctx, m.text+done, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// unmarkedTables is the version of the tables that a server is assumed to know if its worker rows name none.
const unmarkedTables = 2

// olderServers describes the live servers that know less than a version of the tables.
func olderServers(ctx context.Context, tx pgx.Tx, need int64) (servers []string, err error) {
	var now int64
	if err := tx.QueryRow(ctx, readClock).Scan(&now); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, "SELECT body FROM worker")
	if err != nil {
		return nil, err
	}
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&body}, func() error {
		var w store.Worker
		if err := format.ParseWorker(string(body), &w); err != nil {
			return err
		}
		know := w.Tables
		if know == 0 {
			know = unmarkedTables
		}
		if w.Node != "" && !w.Dead && w.LeaseUntil.UnixMicro() > now && know < need {
			servers = append(servers, fmt.Sprintf("%s (process %d, version %s)", w.Host, w.PID, w.Version))
		}
		return nil
	})
	slices.Sort(servers)
	return slices.Compact(servers), err // a server may have several workers
}
