package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mailroom/internal/pgtest"
)

// Kinds of faults of servers that share a database.
const (
	oneServer   = "one server"
	twoServers  = "two servers"
	frozenNode  = "a server, frozen" // stopped for longer than its lease, then continued
	database    = "the database"     // killed and restarted
	connections = "all connections to the database"
)

// nodes are servers that share a database. They continue from cycle to cycle; a cycle restarts those
// that ended.
type nodes struct {
	torture  *torture
	database *pgtest.Cluster
	servers  []*process // nil: not started yet
}

// runNodes is run for several servers.
func (t *torture) runNodes(ctx context.Context) (err error) {
	count := t.nodes
	db, err := pgtest.Start(ctx, pgtest.Options{Dir: t.dir})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	n := &nodes{torture: t, database: db, servers: make([]*process, count)}
	defer func() {
		n.killAll()
		err = errors.Join(err, db.Close())
	}()
	operator := filepath.Join(t.dir, "operator")
	if err := os.WriteFile(operator, []byte("the-token-of-all-servers\n"), 0o600); err != nil {
		return err
	}
	for i := range count {
		if err := os.MkdirAll(t.dataOf(i), 0o700); err != nil {
			return err
		}
	}
	if err := t.writeConfigs(fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\n[token]\noperator_file = %q\n", db.URL(), operator)); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := n.startAll(ctx, 0, ""); err != nil {
		return err
	}
	if err := t.openThreads(ctx, n.servers[0]); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(t.seed, 0))
	for i, p := range nodePlans(t.cycles, dice) {
		t.counts.cycles.Add(1)
		begin := time.Now()
		if err := n.cycle(ctx, p, dice.IntN(count)); err != nil {
			return fmt.Errorf("cycle %d (%s): %w", i+1, p, err)
		}
		t.progress("cycle %3d  %-32s %5.1fs  %d operations\n", i+1, p, time.Since(begin).Seconds(), t.journal.next()-1)
	}
	if err := n.startAll(ctx, 0, ""); err != nil {
		return err
	}
	if err := t.finish(ctx, n.servers[0]); err != nil {
		return err
	}
	n.killAll()
	t.runDoctor(ctx, "stopped")
	return context.Cause(ctx)
}

// nodePlans makes n cycles: all points in turn, among the other faults. Nothing is purged.
func nodePlans(n int, dice *rand.Rand) []plan {
	kinds := []string{oneServer, "", frozenNode, "", database, oneServer, "", connections, "", twoServers}
	var list []plan
	for _, p := range plans(2*n, dice) {
		if len(list) == n {
			break
		}
		if kind := kinds[len(list)%len(kinds)]; kind != "" {
			p = plan{kind: kind, load: time.Duration(300+dice.IntN(900)) * time.Millisecond, seed: dice.Uint64(), doctor: len(list)%20 == 5}
		} else if p.kind != atPoint {
			continue
		}
		p.purge, p.backup = false, false
		list = append(list, p)
	}
	return list
}

// startAll starts the servers that do not run. The victim gets the point at which it kills itself.
func (n *nodes) startAll(ctx context.Context, victim int, doom string) error {
	for i, s := range n.servers {
		if s != nil && !s.hasExited() {
			continue
		}
		at := ""
		if i == victim {
			at = doom
		}
		var err error
		if n.servers[i], err = n.torture.startServer(ctx, n.torture.dataOf(i), n.torture.tagged, n.torture.config(usual), at); err != nil && !(at != "" && n.servers[i].died()) {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	return nil
}

func (n *nodes) killAll() {
	for _, s := range n.servers {
		s.kill()
	}
}

// cycle restarts what has ended, checks the data, puts load on all servers and causes the fault.
func (n *nodes) cycle(ctx context.Context, p plan, victim int) error {
	t := n.torture
	if p.doom != "" { // only a new process can have a point
		t.noteKill()
		n.servers[victim].kill()
	}
	if err := n.startAll(ctx, victim, p.doom); err != nil {
		return err
	}
	reading := n.servers[(victim+1)%len(n.servers)]
	if err := t.check(ctx, reading); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	var targets []target
	for _, s := range n.servers {
		at := t.target(s)
		defer at.http.CloseIdleConnections()
		targets = append(targets, at)
	}
	to := func(i int) target { return targets[i%len(targets)] }
	for i := range users {
		wg.Go(func() { t.newUser(to(i), p, 1+i).work(ctx) })
	}
	for i := range 2 {
		wg.Go(func() { t.newUser(to(i), p, 100+i).decideLoop(ctx, false) })
	}
	reader := 0
	for _, r := range t.steady {
		at := to(reader)
		wg.Go(func() { r.followAll(ctx, at) })
		reader++
	}
	for i, r := range t.roving {
		wg.Go(func() { t.rove(ctx, r, to(i), rand.New(rand.NewPCG(p.seed, uint64(200+i)))) })
	}
	if p.doctor {
		t.runDoctor(ctx, "live")
	}
	return n.fault(ctx, p, victim)
}

// fault causes the fault of a plan after its load.
func (n *nodes) fault(ctx context.Context, p plan, victim int) error {
	t, s := n.torture, n.servers[victim]
	late := time.NewTimer(p.load)
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.exited:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i, other := range n.servers {
		if other.hasExited() && (i != victim || s.point() == "") {
			return fmt.Errorf("server %d exited unexpectedly: %s", i, other.last(20))
		}
	}
	t.noteKill()
	switch p.kind {
	case oneServer, atPoint:
		s.kill()
	case twoServers:
		s.kill()
		n.servers[(victim+1)%len(n.servers)].kill()
	case frozenNode:
		if err := freeze(s.cmd.Process); err != nil {
			return err
		}
		pause(ctx, 2200*time.Millisecond)
		if err := thaw(s.cmd.Process); err != nil {
			return err
		}
		pause(ctx, 500*time.Millisecond)
	case database:
		if err := n.database.Kill(); err != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
		if err := n.database.Restart(ctx); err != nil {
			return fmt.Errorf("restart PostgreSQL: %w", err)
		}
		pause(ctx, 1500*time.Millisecond)
	case connections:
		for range 3 {
			if _, err := n.database.Terminate(ctx, "mailroom"); err != nil {
				return fmt.Errorf("end all connections: %w", err)
			}
			pause(ctx, 300*time.Millisecond)
		}
	}
	if p.kind != atPoint || p.doom != "" {
		t.counts.kill(p.String(), s.point())
	}
	return nil
}
