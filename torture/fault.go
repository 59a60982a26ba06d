package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"mailroom/internal/pgtest"
)

// Kinds of faults of servers that share a database.
const (
	oneServer   = "a server"
	twoServers  = "two servers"
	frozenNode  = "a server, frozen"             // stopped, then continued
	frozenTrip  = "a server, frozen in a commit" // stops itself between two trips, holding its locks
	database    = "the database"                 // killed and restarted
	connections = "all connections, terminated"  // the database terminates them
	resets      = "a server's connections"       // closed by the network
	cutOff      = "a server, cut off"            // cut off from the database, while its connections stay open
	noAnswers   = "a server, without answers"    // the database receives its requests, and the answers do not arrive
	noRequests  = "a server, not heard"          // the database receives none of its requests
	slowLine    = "a server, on a slow line"     // 200 ms each way
	noWire      = "a server, without hints"      // its connections for hints of other servers are cut off
)

// lineDelay is the latency of a slow line in each direction.
const lineDelay = 200 * time.Millisecond

// wireName is the end of the application_name of those connections by which servers send each other hints.
const wireName = "_wire"

// nodePlans makes n cycles. They visit all kill points in turn, with other faults between them. No cycle purges
// entries.
func nodePlans(n int, lease time.Duration, dice *rand.Rand) []plan {
	kinds := []string{
		cutOff, "", oneServer, database, noAnswers, frozenNode, "", slowLine, "", connections,
		noRequests, "", oneServer, "", noWire, frozenTrip, frozenNode, resets, "", twoServers,
	}
	var list []plan
	for _, p := range plans(2*n, dice) {
		if len(list) == n {
			break
		}
		if kind := kinds[len(list)%len(kinds)]; kind != "" {
			p = nodePlan(kind, lease, dice)
			p.doctor = len(list)%20 == 5
		} else if p.kind != atPoint {
			continue
		}
		p.purge, p.backup = false, false
		list = append(list, p)
	}
	return list
}

// nodePlan draws a cycle with a fault of this kind. Two of three faults of a server last until other servers must
// have taken over its runs. Some faults are combined with another one.
func nodePlan(kind string, lease time.Duration, dice *rand.Rand) plan {
	p := plan{kind: kind, load: time.Duration(300+dice.IntN(900)) * time.Millisecond, seed: dice.Uint64(),
		resets: dice.IntN(2) == 0}
	switch kind {
	case oneServer, twoServers, frozenNode, frozenTrip, cutOff, noAnswers, noRequests:
		p.long = dice.IntN(2) == 0
		p.lasts = time.Duration(dice.Int64N(int64(lease)))
		if dice.IntN(3) > 0 {
			p.lasts = takeoverBound(lease) + 500*time.Millisecond
		}
	case slowLine, noWire:
		p.lasts = time.Duration(1+dice.IntN(3)) * time.Second
	default:
		p.lasts = 200 * time.Millisecond
	}
	switch kind {
	case frozenTrip:
		p.doom, p.load = fmt.Sprintf("freeze any %d", 10+dice.IntN(200)), 4*time.Second
	case frozenNode, cutOff, noAnswers, noRequests, slowLine:
		p.also = []string{"", "", "", "", oneServer, oneServer, connections, database}[dice.IntN(8)]
	}
	return p
}

// fault causes the faults of a plan, and repairs them.
func (n *nodes) fault(ctx context.Context, p plan, victim int) error {
	t := n.torture
	if p.kind == atPoint {
		t.faults.addKill()
		n.servers[victim].kill()
		if p.doom != "" {
			t.counts.kill(p.String(), n.servers[victim].point())
		}
		return nil
	}
	t.faults.begin()
	defer t.faults.end()
	victims := []int{victim}
	if p.kind == twoServers {
		victims = append(victims, n.after(victim))
	}
	began, err := n.causeAll(ctx, p, victims)
	if err != nil {
		return err
	}
	pause(ctx, p.lasts/4)
	if p.also != "" {
		also, err := n.causeAll(ctx, plan{kind: p.also}, []int{n.after(victim)})
		if err != nil {
			return err
		}
		began = append(began, also...)
	}
	pause(ctx, p.lasts-p.lasts/4)
	if err := n.endOutages(ctx, p, began); err != nil {
		return err
	}
	for _, kind := range []string{p.also, p.kind} {
		if err := n.repair(ctx, kind, victim, p.resets); err != nil {
			return err
		}
	}
	if p.kind == frozenNode || p.kind == frozenTrip || p.also == database {
		pause(ctx, 500*time.Millisecond) // the time in which the resumed server must change nothing
	}
	t.counts.kill(p.String(), "")
	return nil
}

// causeAll causes one fault at several servers, and returns the outages that the fault begins.
func (n *nodes) causeAll(ctx context.Context, p plan, victims []int) (began []outage, err error) {
	for _, i := range victims {
		if err := n.cause(ctx, p.kind, i); err != nil {
			return nil, fmt.Errorf("cause a fault: %w", err)
		}
	}
	switch p.kind {
	case oneServer, twoServers, frozenNode, frozenTrip, cutOff, noAnswers, noRequests:
		return n.beginOutages(ctx, p, victims)
	}
	return nil, nil
}

func (n *nodes) cause(ctx context.Context, kind string, victim int) error {
	proxy, s := n.proxies[victim], n.servers[victim]
	switch kind {
	case oneServer, twoServers:
		s.kill()
	case frozenNode, frozenTrip: // the server may not have reached its kill point
		return freeze(s.cmd.Process)
	case database:
		if err := n.database.Kill(); err != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	case connections:
		for range 3 {
			if _, err := n.database.Terminate(ctx, ""); err != nil {
				return fmt.Errorf("end all connections: %w", err)
			}
			pause(ctx, 300*time.Millisecond)
		}
	case resets:
		for range 3 {
			proxy.CloseConnections("")
			pause(ctx, 300*time.Millisecond)
		}
	case cutOff:
		proxy.SetLink(pgtest.Link{HoldRequests: true, HoldAnswers: true})
	case noAnswers:
		proxy.SetLink(pgtest.Link{HoldAnswers: true})
	case noRequests:
		proxy.SetLink(pgtest.Link{HoldRequests: true})
	case slowLine:
		proxy.SetLink(pgtest.Link{Delay: lineDelay})
	case noWire:
		proxy.SetLink(pgtest.Link{HoldRequests: true, HoldAnswers: true, Only: wireName})
	}
	return nil
}

// repair ends a fault of a server. If reset is set, connections that were cut off are closed, so that the data in
// them is lost; otherwise the data arrives now. A server that was killed starts with the next cycle.
func (n *nodes) repair(ctx context.Context, kind string, victim int, reset bool) error {
	switch kind {
	case frozenTrip:
		if n.servers[victim].point() == "" { // the server has not reached its kill point yet
			n.servers[victim].kill()
			return nil
		}
		return n.servers[victim].resume(ctx)
	case frozenNode:
		return thaw(n.servers[victim].cmd.Process)
	case database:
		if err := n.database.Restart(ctx); err != nil {
			return fmt.Errorf("restart PostgreSQL: %w", err)
		}
		pause(ctx, 1500*time.Millisecond)
	case cutOff, noAnswers, noRequests, noWire:
		if reset {
			n.proxies[victim].CloseConnections("")
		}
		fallthrough
	case slowLine:
		n.proxies[victim].SetLink(pgtest.Link{})
	}
	return nil
}
