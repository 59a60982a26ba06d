package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/agent/echo"
	"mailroom/agent/exec"
	"mailroom/bus"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/stream"
)

// node is one server: the parts over one store.
type node struct {
	ledger *ledger.Ledger
	engine *engine.Engine
	server *server.Server
}

// newNode puts the parts together. It starts nothing.
func newNode(store mailroom.Store, c *config.Config, token string, log *slog.Logger) (*node, error) {
	agents, err := buildAgents(c)
	if err != nil {
		return nil, err
	}
	n := &node{}
	b := bus.New()
	n.ledger = ledger.New(store, ledger.Options{
		DefaultAgent: c.DefaultAgent,
		Version:      func(agent string) string { return agents[agent].Version },
		Publish: func(thread string, entries []mailroom.Entry) {
			b.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Lease: c.Lease,
		Log:   log,
	})
	n.engine = engine.New(n.ledger, b, engine.Options{
		Agents: agents, Runs: c.Runs, Lease: c.Lease, Renew: c.Renew, Sweep: c.Sweep, Deadline: c.RunDeadline,
		StopGrace: c.StopGrace, ShutdownGrace: c.ShutdownGrace, AgentGrace: c.AgentGrace, Local: true, Log: log,
	})
	names := slices.Sorted(maps.Keys(agents))
	n.server = server.New(server.Options{
		Ledger: n.ledger, Streams: stream.New(n.ledger, b), Token: token, Hosts: hosts(c.Listen),
		Agents: func() []string { return names }, Ready: n.engine.Ready, Version: version().Version, Log: log,
	})
	return n, nil
}

func buildAgents(c *config.Config) (map[string]engine.Agent, error) {
	agents := map[string]engine.Agent{}
	for name, a := range c.Agents {
		version, err := a.Version()
		if err != nil {
			return nil, err
		}
		built := engine.Agent{Version: version, Limit: a.Limit, Deadline: a.Deadline}
		switch a.Kind {
		case config.KindEcho:
			built.Agent = echo.New(echo.Options{Pace: a.Pace})
		case config.KindExec:
			built.Agent, err = exec.New(exec.Options{
				Command: a.Command, Dir: a.Dir, Env: variables(a.Env), EnvAllow: a.EnvAllow,
				StartTimeout: a.StartTimeout, IdleTimeout: a.IdleTimeout, TotalTimeout: a.TotalTimeout,
			})
		default:
			err = fmt.Errorf("nothing can run the kind %q", a.Kind)
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", name, err)
		}
		agents[name] = built
	}
	return agents, nil
}

func variables(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// hosts are the names that requests may be addressed to beside the loopback ones.
func hosts(listen string) []string {
	host, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return nil
	case host == "":
		return []string{"0.0.0.0"}
	}
	return []string{host}
}

// run serves ln until ctx ends or a part fails; then the parts end in order:
// the server takes nothing more, the engine settles or releases its runs, and
// the ledger commits what was handed in.
func (n *node) run(ctx context.Context, ln net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	ledgerCtx, stopLedger := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	defer stopLedger()
	group.Go(func() error {
		defer stopEngine()
		return n.server.Serve(ctx, ln)
	})
	group.Go(func() error {
		defer stopLedger()
		if err := n.ledger.EndLocal(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("end the leases of the process before: %w", err)
		}
		return n.engine.Run(engineCtx)
	})
	group.Go(func() error { return n.ledger.Run(ledgerCtx) })
	return group.Wait()
}
