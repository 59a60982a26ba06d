package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"mailroom/engine"
	"mailroom/internal/recovery"
)

// work prepares the server, then runs the engines until ctx is done or one fails.
func (n *Node) work(ctx context.Context) error {
	if err := n.prepare(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	close(n.prepared)
	engines := n.lanes
	if n.deliveries != nil {
		engines = append(slices.Clone(engines), n.deliveries)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, e := range engines {
		all.Go(func() (err error) {
			defer recovery.Error(n.log, "engine", &err)
			return e.Run(ctx)
		})
	}
	return all.Wait()
}

// ready returns why a lane starts no runs, or nil if all lanes do.
func (n *Node) ready() error {
	if n.stopping.Load() {
		return errors.New("shutting down")
	}
	for _, e := range n.lanes {
		if err := e.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// laneShare returns the part of n that one of several lanes gets.
func laneShare(n, lane, lanes int) int {
	share := n / lanes
	if lane < n%lanes {
		share++
	}
	return share
}

// laneAgents returns the agents that a lane serves: all agents except those whose limit is too small to be shared
// among the lanes.
func laneAgents(agents map[string]engine.Agent, lane, lanes int) map[string]engine.Agent {
	served := maps.Clone(agents)
	for name, a := range served {
		if a.Limit == 0 {
			continue
		}
		if a.Limit = laneShare(a.Limit, lane, lanes); a.Limit == 0 {
			delete(served, name)
			continue
		}
		served[name] = a
	}
	return served
}

// whileServing makes the agents not ready once this server is stopping, so that other servers claim their runs. If no
// other server uses the store, it returns agents unchanged, and the engine claims runs until it stops.
func (n *Node) whileServing(agents map[string]engine.Agent) map[string]engine.Agent {
	if !n.shared {
		return agents
	}
	for name, a := range agents {
		ready := a.Ready
		a.Ready = func() bool { return !n.stopping.Load() && (ready == nil || ready()) }
		agents[name] = a
	}
	return agents
}

// announceDue publishes to other servers that a run of an agent is due which this server has not claimed.
func (n *Node) announceDue(agent string) {
	if n.relay != nil {
		n.relay.Due(agent)
	}
}
