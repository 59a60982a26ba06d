package node

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"

	"mailroom/internal/recovery"
	"mailroom/stream"
)

// assemble builds the parts of a server and starts none. Each part uses only parts that are built above it.
func assemble(o Options, agents *agentSet) *Node {
	a := newAssembly(o, agents)
	n := a.node
	n.ledger = a.newLedger()                // commits what happens in threads
	n.relay = a.newRelay()                  // announces commits to other servers; nil: no other servers
	a.streams = stream.New(n.ledger, a.bus) // reads threads as they grow
	n.channels = a.newChannels()            // connect to platforms; one server at a time runs a channel
	n.receivers = a.newReceivers()          // receive the events of channels; each server runs all receivers
	n.secretFiles = a.newSecretFiles()      // tell channels of changed tokens
	n.maintenance = n.newDuty("maintenance")
	n.janitor = a.newJanitor()       // removes obsolete data
	n.follower = a.newFollower()     // submits alerts; nil: no targets
	n.lanes = a.newLanes()           // run agents: an engine for each lane of the ledger
	n.deliveries = a.newDeliveries() // sends replies and alerts: an engine; nil: nothing to send
	n.server = a.newServer()         // answers HTTP
	return n
}

// parts returns the parts that run at the same time in a server. The methods of [phases] say when each lifetime ends.
func (n *Node) parts(ln net.Listener, lost <-chan error) []part {
	watchStore := func(ctx context.Context) error { return awaitLoss(ctx, lost) }
	serve := func(ctx context.Context) error { return n.server.Serve(ctx, ln) }
	all := []part{ // name, begin, lifetime, what a panic does, function, its replacement if the part never begins
		{"ledger", atOnce, lifeOfLedger, stopsServer, n.ledger.Run, nil},
		{"store watcher", atOnce, lifeOfNode, stopsServer, watchStore, nil},
		{"janitor of files", atOnce, lifeOfNode, isLogged, n.cleanFiles, nil},
		{"engines", atOnce, lifeOfEngines, stopsServer, n.work, nil}, // work prepares the server first
		{"server", prepared, lifeOfServer, stopsServer, serve, ln.Close},
		{"janitor", prepared, lifeOfDuties, isLogged, n.serveMaintenance, nil},
		{"schedules of the configuration", prepared, lifeOfDuties, isLogged, n.applySchedules, nil},
		{"channels", prepared, lifeOfDuties, stopsServer, n.serveChannels, nil},
		{"receivers", prepared, lifeOfNode, stopsServer, n.runReceivers, nil},
	}
	if n.relay != nil { // lives until the last run is released, because another server may start that run
		all = append(all, part{"relay", atOnce, lifeOfLedger, stopsServer, n.relay.Run, nil})
	}
	return all
}

// awaitLoss returns the error with which the store failed by itself, or nil at the end of ctx.
func awaitLoss(ctx context.Context, lost <-chan error) error {
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Run serves ln until ctx is done or a part fails or panics, and returns when all parts have ended. lost receives the
// error with which the store fails by itself.
func (n *Node) Run(ctx context.Context, ln net.Listener, lost <-chan error) error {
	group, ctx := errgroup.WithContext(ctx)
	all := n.parts(ln, lost)
	p := newPhases(ctx, n.shared, all, &n.stopping, n.log)
	for _, one := range all {
		group.Go(func() (err error) {
			defer recovery.Error(n.log, one.name, &err)
			return n.runPart(p, one)
		})
	}
	return group.Wait()
}

// runPart runs a part for its lifetime.
func (n *Node) runPart(p *phases, one part) error {
	defer p.ended(one.lives)
	if one.panics == isLogged {
		defer recovery.Log(n.log, one.name)
	}
	if one.begins == prepared {
		select {
		case <-n.prepared:
		case <-p.node.Done():
			if one.instead == nil {
				return nil
			}
			return one.instead()
		}
	}
	return one.run(p.context(one.lives))
}
