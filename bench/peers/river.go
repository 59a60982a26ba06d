package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"mailroom/internal/pgtest"
)

// Kind implements the job arguments of River.
func (work) Kind() string { return "work" }

// riverClient is River over one driver. T is the transaction type.
type riverClient[T any] struct {
	client    *river.Client[T]
	cancel    func()
	listening sync.WaitGroup
}

// idle is a handler that does nothing.
type idle struct {
	river.WorkerDefaults[work]
	started func(int64)
}

func (i *idle) Work(_ context.Context, job *river.Job[work]) error {
	i.started(job.Args.Number)
	return nil
}

// start migrates the database and starts a client.
func (r *riverClient[T]) start(
	ctx context.Context, driver riverdriver.Driver[T], slots int, poll time.Duration, h observer,
) error {
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &idle{started: h.started})
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		Workers:       workers,
		FetchCooldown: riverCooldown, FetchPollInterval: poll,
		Logger: quiet,
	})
	if err != nil {
		return err
	}
	// The event shows that the completion is durable: River sends it after the commit.
	events, cancel := r.client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 10 * outstanding, // more than can end at once, so no event is dropped
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	r.cancel = cancel
	r.listening.Go(func() {
		for range events {
			h.done(0)
		}
	})
	return r.client.Start(ctx)
}

// riverCooldown is the smallest value that River accepts.
const riverCooldown = time.Millisecond

func (r *riverClient[T]) submit(ctx context.Context, w work) error {
	_, err := r.client.Insert(ctx, w, nil)
	return err
}

// stop stops the client if it was started.
func (r *riverClient[T]) stop() error {
	if r.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := r.client.StopAndCancel(ctx)
	if r.cancel != nil {
		r.cancel()
		r.listening.Wait()
	}
	return err
}

// riverPostgres is River on a PostgreSQL of its own.
type riverPostgres struct {
	riverClient[pgx.Tx]
	server *pgtest.Cluster
	pool   *pgxpool.Pool
}

// startPostgres starts a PostgreSQL that syncs each commit. The folder that its user owns is beside dir,
// which belongs to the user of this program.
func startPostgres(ctx context.Context, dir string) (*pgtest.Cluster, error) {
	server, err := pgtest.Start(ctx, pgtest.Options{Dir: filepath.Dir(dir), Settings: []string{
		"max_connections=200", "fsync=on", "synchronous_commit=on", "full_page_writes=on",
		"shared_buffers=256MB", "min_wal_size=2GB", "max_wal_size=4GB", "checkpoint_timeout=15min", "jit=off",
	}})
	if err != nil {
		return nil, err
	}
	for _, text := range []string{useWAL, "CHECKPOINT"} {
		if _, err := server.Select(ctx, text); err != nil {
			return nil, errors.Join(err, server.Stop(), server.Close())
		}
	}
	return server, nil
}

// useWAL fills 64 segments of the log, which the next checkpoint renames for further use. The log of a server that
// has run for a while has such segments. Without them, each new segment is filled with zeros and synced while commits
// wait, which would slow the measurement down.
const useWAL = `DO $$ BEGIN FOR i IN 1..64 LOOP
	PERFORM pg_create_restore_point('segment');
	PERFORM pg_switch_wal();
END LOOP; END $$`

func (p *riverPostgres) databaseCPU() time.Duration { return p.server.CPUTime() }

const (
	riverConnections  = 64
	riverPollPostgres = 100 * time.Millisecond
	riverPollSQLite   = 5 * time.Millisecond
)

func (*riverPostgres) settings() string {
	return fmt.Sprintf(
		"fsync and synchronous_commit on, shared_buffers 256MB, 1 GB of used WAL segments, Unix socket, %d connections; FetchCooldown %s, FetchPollInterval %s (it listens to NOTIFY beside)", riverConnections, riverCooldown, riverPollPostgres)
}

func (p *riverPostgres) open(ctx context.Context, dir string, slots int, h observer) (err error) {
	if p.server, err = startPostgres(ctx, dir); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(p.server.URL())
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = riverConnections, riverConnections
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	return p.start(ctx, riverpgxv5.New(p.pool), slots, riverPollPostgres, h)
}

func (p *riverPostgres) recorded(ctx context.Context) (n int64, err error) {
	err = p.pool.QueryRow(ctx, "select count(*) from river_job where state = $1", rivertype.JobStateCompleted).Scan(&n)
	return n, err
}

func (p *riverPostgres) close() error {
	err := p.stop()
	if p.pool != nil {
		p.pool.Close()
	}
	if p.server != nil {
		err = errors.Join(err, p.server.Stop(), p.server.Close())
	}
	return err
}

// riverSQLite is River on a SQLite file.
type riverSQLite struct {
	riverClient[*sql.Tx]
	db *sql.DB
}

func (*riverSQLite) settings() string {
	return fmt.Sprintf(
		"SQLite WAL, synchronous=FULL, one connection (as it advises); FetchCooldown %s, FetchPollInterval %s", riverCooldown,
		riverPollSQLite)
}

func (p *riverSQLite) open(ctx context.Context, dir string, slots int, h observer) (err error) {
	if p.db, err = sqliteDB(dir); err != nil {
		return err
	}
	return p.start(ctx, riversqlite.New(p.db), slots, riverPollSQLite, h)
}

func (p *riverSQLite) recorded(ctx context.Context) (n int64, err error) {
	err = p.db.QueryRowContext(ctx, "select count(*) from river_job where state = ?",
		string(rivertype.JobStateCompleted)).Scan(&n)
	return n, err
}

func (p *riverSQLite) close() error {
	if p.db == nil {
		return nil
	}
	return errors.Join(p.stop(), p.db.Close())
}
