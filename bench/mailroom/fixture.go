package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// agentName is the agent of the loads.
const agentName = "echo"

// fixture holds the components of a server on one file, wired as in a server.
type fixture struct {
	store   store.Store
	lanes   []store.Store // further handles of the store
	path    string        // path of the SQLite file; "" on PostgreSQL
	schema  string        // schema in PostgreSQL; "" on SQLite
	node    string        // id of the server on a shared store; "": no other process uses the store
	wire    bus.Wire      // carries hints to the other nodes; nil: there is one node
	remove  func() error  // removes the store after it was closed
	bus     *bus.Bus
	relay   *bus.Relay // nil: the node has no wire
	metrics *operate.Metrics
	ledger  *ledger.Ledger
	version string // version of the agent
	limits  ledger.Limits
	// agents are those of the engine besides that of the load.
	agents map[string]engine.Agent

	cancelLedger context.CancelFunc
	ledgerDone   chan error

	// Set while an engine runs.
	cancelEngine context.CancelFunc
	engineDone   chan error

	// Totals of the ledger's commits.
	commits, operations, commitNanos atomic.Int64 // time of the commits in ns
}

// storeOpener opens a new store, in dir if it is a file.
type storeOpener func(ctx context.Context, dir string) (h *fixture, err error)

func openFile(ctx context.Context, dir string) (*fixture, error) {
	path := filepath.Join(dir, "mailroom.db")
	opened, err := sqlite.Open(ctx, path, sqlite.Options{})
	return &fixture{store: opened, path: path, remove: func() error { return nil }}, err
}

// openPostgres returns an opener of stores in a database, each in a schema of its own.
func openPostgres(url string, writers int) storeOpener {
	return func(ctx context.Context, _ string) (*fixture, error) {
		o := postgres.Options{URL: url, Schema: newSchema(), Node: "bench"}
		h, err := openHandles(ctx, o, writers)
		if err == nil {
			h.remove = func() error { return dropSchema(ctx, o) }
		}
		return h, err
	}
}

// openHandles opens a store with several writing connections.
func openHandles(ctx context.Context, o postgres.Options, writers int) (*fixture, error) {
	opened, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	h := &fixture{store: opened, schema: o.Schema, node: o.Node, remove: func() error { return nil }}
	for i := 1; i < writers; i++ {
		lane := o
		lane.Node += "/" + strconv.Itoa(i)
		another, err := postgres.Open(ctx, lane)
		if err != nil {
			return nil, errors.Join(err, h.closeStore())
		}
		h.lanes = append(h.lanes, another)
	}
	return h, nil
}

func newSchema() string {
	random := make([]byte, 4)
	rand.Read(random) // never fails
	return fmt.Sprintf("mailroom_bench_%x", random)
}

// dropSchema drops the schema of o, also after ctx has ended.
func dropSchema(ctx context.Context, o postgres.Options) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return postgres.Drop(ctx, o)
}

// openNode opens the store of one of several nodes. The schema exists already, because the parent created it.
func openNode(o postgres.Options, writers int) storeOpener {
	return func(ctx context.Context, _ string) (*fixture, error) {
		wire, err := postgres.NewWire(o, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		h, err := openHandles(ctx, o, writers)
		if err == nil {
			h.wire = wire
		}
		return h, err
	}
}

// opener returns the opener of the stores to measure.
func (o *Options) opener() storeOpener {
	if o.Store == "" {
		return openFile
	}
	return openPostgres(o.Store, o.Writers)
}

// newFixture opens a new store and starts the ledger. It calls ended for each run at its end.
func newFixture(
	ctx context.Context, open storeOpener, dir, version string, ended func(*mailroom.Run),
) (*fixture, error) {
	h, err := open(ctx, dir)
	if err != nil {
		return nil, err
	}
	h.bus, h.metrics, h.version, h.ledgerDone = bus.New(), operate.NewMetrics(), version, make(chan error, 1)
	h.ledger = ledger.New(h.store, ledger.Options{
		DefaultAgent: agentName,
		Lanes:        h.lanes,
		Due:          h.announceDue,
		Limits:       func(string) ledger.Limits { return h.limits },
		Version: func(agent string) string {
			if agent == agentName {
				return version
			}
			return "" // of the agents of the server itself
		},
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
			AttemptStarted: h.metrics.AttemptStarted, AttemptEnded: h.metrics.AttemptEnded,
		},
		Log: slog.New(slog.DiscardHandler),
	})
	// The context is detached from ctx, because close stops the components in order.
	ledgerCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.cancelLedger = stop
	group, ledgerCtx := errgroup.WithContext(ledgerCtx)
	if h.wire != nil {
		h.relay = bus.NewRelay(h.bus, h.wire, h.ledger.Nudge, slog.New(slog.DiscardHandler))
		group.Go(func() error { return h.relay.Run(ledgerCtx) })
	}
	group.Go(func() error { return h.ledger.Run(ledgerCtx) })
	go func() { h.ledgerDone <- group.Wait() }() // close waits for it
	return h, nil
}

// announceDue publishes to other nodes that a run is due which this node did not claim.
func (h *fixture) announceDue(agent string) {
	if h.relay != nil {
		h.relay.Due(agent)
	}
}

// startEngine starts an engine for each lane, which run agent with the given number of slots together.
func (h *fixture) startEngine(agent mailroom.Agent, slots int) {
	group := &errgroup.Group{}
	ctx, stop := context.WithCancel(context.Background())
	agents := map[string]engine.Agent{agentName: {Agent: agent, Version: h.version}}
	maps.Copy(agents, h.agents)
	for lane := range h.ledger.Lanes() {
		e := engine.New(h.ledger.LaneWorkers(lane), h.bus, engine.Options{
			Agents: agents,
			Runs:   slots / h.ledger.Lanes(), NoLastAttempts: lane > 0, Node: h.node, Local: h.node == "",
			Log: slog.New(slog.DiscardHandler),
			Observe: engine.Observe{
				Started: func(s engine.Start) { h.metrics.Entered(s.Claimed, s.Entered) },
				Renewal: h.metrics.Renewal,
			},
		})
		group.Go(func() error { return e.Run(ctx) })
	}
	h.cancelEngine, h.engineDone = stop, make(chan error, 1)
	go func() { h.engineDone <- group.Wait() }() // stopEngine waits for it
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
	return errors.Join(err, <-h.ledgerDone, h.closeStore(), h.remove())
}

// traffic returns the sum of the traffic that all handles have with PostgreSQL.
func (h *fixture) traffic() (sum postgres.Traffic) {
	for _, s := range append([]store.Store{h.store}, h.lanes...) {
		if s, ok := s.(*postgres.Store); ok {
			sum = sum.Plus(s.Traffic())
		}
	}
	return sum
}

func (h *fixture) closeStore() error {
	err := h.store.Close()
	for _, lane := range h.lanes {
		err = errors.Join(err, lane.Close())
	}
	return err
}

// timedAgent is the echo agent without pauses. It reports when a run enters it.
type timedAgent struct {
	echo    mailroom.Agent
	entered func(mailroom.RunView)
}

func newTimedAgent(entered func(mailroom.RunView)) mailroom.Agent {
	return timedAgent{echo: builtin.NewEcho(0), entered: entered}
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
