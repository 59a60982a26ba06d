//go:build torture

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/internal/killpoint"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/sqlite"
)

const (
	tortureAgent   = "torture"
	tortureVersion = "746f72747572"
	conformAgent   = "inside" // the conformance agent in this process
)

// addTorture adds the torture agent. The returned function wraps a handle of the store, so that the
// process is killed at the point that MAILROOM_TORTURE names. The agent's effects go to the file MAILROOM_TORTURE_FILE.
// MAILROOM_TORTURE_LIMIT limits its concurrent runs, so that a second worker gets some. CONFORMANCE_DIR is the folder
// of the conformance agent, which is there with it.
func addTorture(r *agentSet) (wrap func(store.Store) store.Store, err error) {
	d, err := killpoint.Parse(os.Getenv("MAILROOM_TORTURE"))
	if err != nil {
		return nil, err
	}
	limit := 0
	if s := os.Getenv("MAILROOM_TORTURE_LIMIT"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil {
			return nil, fmt.Errorf("MAILROOM_TORTURE_LIMIT: %w", err)
		}
	}
	r.agents[tortureAgent] = engine.Agent{
		Agent: d.Agent(os.Getenv("MAILROOM_TORTURE_FILE")), Version: tortureVersion, Limit: limit,
	}
	r.kinds[tortureAgent] = tortureAgent
	if dir := os.Getenv("CONFORMANCE_DIR"); dir != "" {
		r.agents[conformAgent] = engine.Agent{Agent: killpoint.Conform(dir)}
		r.kinds[conformAgent] = tortureAgent
	}
	r.present = append(r.present, store.Definition{
		Agent: tortureAgent, Version: tortureVersion, Body: json.RawMessage(`{"kind":"torture"}`),
	})
	r.old = slices.DeleteFunc(r.old, func(k store.Definition) bool { return k.Agent == tortureAgent })
	return d.Store, nil
}

// moreCommands adds a second worker: an engine in its own process on the store of a
// running server.
func moreCommands(con *command.Console) []*cobra.Command {
	cmd := &cobra.Command{Use: "torture-worker", Hidden: true, Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return err
		}
		c, err := loadConfig(con, dir, "")
		if err != nil {
			return err
		}
		return besideServer(cmd.Context(), con, dir, c)
	}
	return []*cobra.Command{cmd}
}

func besideServer(ctx context.Context, con *command.Console, dir datadir.Dir, c *config.Config) (err error) {
	log := slog.New(slog.NewTextHandler(con.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	file, err := sqlite.Open(ctx, dir.Database(), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := newAgentSet(c, nil, nil, log)
	if err != nil {
		return err
	}
	wrap, err := addTorture(r)
	if err != nil {
		return err
	}
	l := ledger.New(wrap(file), ledger.Options{
		DefaultAgent: c.DefaultAgent, Version: func(agent string) string { return r.agents[agent].Version },
		Lease: c.Lease, Deadline: func(string) time.Duration { return c.RunDeadline }, StopGrace: c.StopGrace,
		LongestAttempt: func(string) time.Duration { return c.LongestRun },
		MaxQueued:      unlimitedIfZero(c.MaxQueued), Log: log,
	})
	e := engine.New(l.Workers(), bus.New(), engine.Options{
		Agents: r.agents, Runs: c.Runs, Lease: c.Lease, Renew: c.Renew, Sweep: c.Sweep, Deadline: c.RunDeadline,
		StopGrace: c.StopGrace, ShutdownGrace: c.ShutdownGrace, AgentGrace: c.AgentGrace, Log: log,
	})
	con.Infof("working as process %d", os.Getpid())
	group := &errgroup.Group{}
	ledgerCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() (err error) {
		defer recovery.Error(log, "ledger", &err)
		return l.Run(ledgerCtx)
	})
	group.Go(func() (err error) {
		defer recovery.Error(log, "engine", &err)
		defer end()
		return e.Run(ctx)
	})
	return group.Wait()
}
