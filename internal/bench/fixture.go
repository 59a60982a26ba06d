package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/agent/echo"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/internal/metrics"
	"mailroom/ledger"
	"mailroom/store/sqlite"
)

// agentName is the agent of the loads.
const agentName = "echo"

// fixture holds the components of a server on one file, wired as in a server.
type fixture struct {
	store   *sqlite.Store
	path    string
	bus     *bus.Bus
	metrics *metrics.Metrics
	ledger  *ledger.Ledger
	version string // of the agent

	cancelLedger context.CancelFunc
	ledgerDone   chan error

	// Set while an engine runs.
	cancelEngine context.CancelFunc
	engineDone   chan error

	// Totals.
	commits, operations, commitNanos atomic.Int64 // the last in ns
}

// newFixture opens the store in dir and starts the ledger. It calls ended for every run that
// has ended.
func newFixture(ctx context.Context, dir, version string, ended func(*mailroom.Run)) (*fixture, error) {
	path := filepath.Join(dir, "mailroom.db")
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	h := &fixture{store: store, path: path, bus: bus.New(), metrics: metrics.New(), version: version, ledgerDone: make(chan error, 1)}
	h.ledger = ledger.New(store, ledger.Options{
		DefaultAgent: agentName,
		Version:      func(string) string { return version },
		Publish: func(thread string, entries []mailroom.Entry) {
			h.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Observe: ledger.Observe{
			Operation: h.metrics.Operation,
			Commit: func(operations int, took time.Duration) {
				h.metrics.Commit(operations, took)
				h.commits.Add(1)
				h.operations.Add(int64(operations))
				h.commitNanos.Add(int64(took))
			},
			RunFinished: func(r *mailroom.Run) {
				h.metrics.Ended(r)
				ended(r)
			},
		},
		Log: slog.New(slog.DiscardHandler),
	})
	// Detached from ctx, because close stops the components in order.
	ledgerCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.cancelLedger = stop
	go func() { h.ledgerDone <- h.ledger.Run(ledgerCtx) }() // close waits for it
	return h, nil
}

// startEngine starts an engine that runs agent with the given number of slots.
func (h *fixture) startEngine(agent mailroom.Agent, slots int) {
	e := engine.New(h.ledger, h.bus, engine.Options{
		Agents: map[string]engine.Agent{agentName: {Agent: agent, Version: h.version}},
		Runs:   slots, Local: true, Log: slog.New(slog.DiscardHandler),
		Observe: engine.Observe{
			Started: func(s engine.Start) { h.metrics.Started(s.Run, s.Due, s.Claimed, s.Entered) },
			Attempt: h.metrics.Attempt, Renewal: h.metrics.Renewal,
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	h.cancelEngine, h.engineDone = stop, make(chan error, 1)
	go func() { h.engineDone <- e.Run(ctx) }() // stopEngine waits for it
}

// stopEngine ends the engine, if there is one.
func (h *fixture) stopEngine() error {
	if h.cancelEngine == nil {
		return nil
	}
	h.cancelEngine()
	h.cancelEngine = nil
	return <-h.engineDone
}

// close stops the components in order and closes the store.
func (h *fixture) close() error {
	err := h.stopEngine()
	h.cancelLedger()
	return errors.Join(err, <-h.ledgerDone, h.store.Close())
}

// timedAgent is the echo agent at zero pace, which says when it is entered.
type timedAgent struct {
	echo    mailroom.Agent
	entered func(*mailroom.Run)
}

func newTimedAgent(entered func(*mailroom.Run)) mailroom.Agent {
	return timedAgent{echo: echo.New(echo.Options{Pace: 0}), entered: entered}
}

func (t timedAgent) Run(ctx context.Context, s mailroom.Session) error {
	t.entered(s.Run())
	return t.echo.Run(ctx, s)
}

// databaseSize returns the size of the database's pages in bytes, including pages in the WAL.
func (h *fixture) databaseSize(ctx context.Context) (bytes int64, err error) {
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		return 0, fmt.Errorf("count the pages of the database: %w", err)
	}
	const query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
	if err := errors.Join(db.QueryRowContext(ctx, query).Scan(&bytes), db.Close()); err != nil {
		return 0, fmt.Errorf("count the pages of the database: %w", err)
	}
	return bytes, nil
}

// diskUsage returns the total size of the files in dir.
func diskUsage(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += info.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure the files: %w", err)
	}
	return sum, nil
}
