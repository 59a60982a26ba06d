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

// nodes are servers that share a database, each behind a proxy. They keep running from cycle to cycle; a cycle
// restarts those that have ended.
type nodes struct {
	torture  *torture
	database *pgtest.Cluster
	proxies  []*pgtest.Proxy
	servers  []*process // nil: the server has not started yet
	dice     *rand.Rand // draws the programs of servers
}

// runNodes does the work of run for several servers.
func (t *torture) runNodes(ctx context.Context) (err error) {
	n, err := t.openNodes(ctx)
	defer func() { err = errors.Join(err, n.close()) }()
	if err != nil {
		return err
	}
	if err := n.startAll(ctx, 0, ""); err != nil {
		return err
	}
	if err := t.openThreads(ctx, n.servers[0]); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(t.seed, 0))
	for i, p := range nodePlans(t.cycles, t.lease, dice) {
		t.counts.cycles.Add(1)
		begin := time.Now()
		if err := n.cycle(ctx, p, dice.IntN(t.nodes)); err != nil {
			return fmt.Errorf("cycle %d (%s): %w", i+1, p, err)
		}
		t.progress("cycle %3d  %-50s %5.1fs  %d operations\n", i+1, p, time.Since(begin).Seconds(), t.journal.next()-1)
	}
	return n.finish(ctx)
}

// finish lets all runs end, checks all logs and the store, and stops the servers.
func (n *nodes) finish(ctx context.Context) error {
	if err := n.startAll(ctx, 0, ""); err != nil {
		return err
	}
	if err := n.torture.finish(ctx, n.servers[0]); err != nil {
		return err
	}
	n.killAll()
	n.torture.runDoctor(ctx, "stopped")
	return context.Cause(ctx)
}

// openNodes starts the database and its proxies, and writes the configurations. The caller must call close even after
// an error, to end what was started.
func (t *torture) openNodes(ctx context.Context) (*nodes, error) {
	n := &nodes{torture: t, servers: make([]*process, t.nodes), dice: rand.New(rand.NewPCG(t.seed, 1))}
	var err error
	if n.database, err = pgtest.Start(ctx, pgtest.Options{}); err != nil {
		return n, fmt.Errorf("start PostgreSQL: %w", err)
	}
	operator := filepath.Join(t.dir, "operator")
	if err := os.WriteFile(operator, []byte("the-token-of-all-servers\n"), 0o600); err != nil {
		return n, err
	}
	text := func(url string) []byte {
		return []byte(configText(t.lease,
			fmt.Sprintf("[store]\nkind = \"postgres\"\n[postgres]\nurl = %q\n[token]\noperator_file = %q\n", url, operator)))
	}
	for i := range t.nodes {
		if err := os.MkdirAll(t.dataOf(i), 0o700); err != nil {
			return n, err
		}
		proxy, err := pgtest.NewProxy(n.database)
		if err != nil {
			return n, fmt.Errorf("start a proxy: %w", err)
		}
		n.proxies = append(n.proxies, proxy)
		if err := os.WriteFile(configOf(t, i), text(proxy.URL()), 0o600); err != nil {
			return n, err
		}
	}
	// The configuration is also written for commands on the data folder of the first server.
	return n, errors.Join(os.WriteFile(filepath.Join(t.data(), "mailroom.toml"), text(n.database.URL()), 0o600),
		os.WriteFile(t.config(usual), text(n.database.URL()), 0o600))
}

func configOf(t *torture, server int) string { return t.config(fmt.Sprintf("server-%d", server)) }

func (n *nodes) close() (err error) {
	n.killAll()
	for _, p := range n.proxies {
		err = errors.Join(err, p.Close())
	}
	if n.database != nil {
		err = errors.Join(err, n.database.Close())
	}
	return err
}

// startAll starts the servers that do not run. The server with number victim kills itself at the point doom.
func (n *nodes) startAll(ctx context.Context, victim int, doom string) error {
	t := n.torture
	for i, s := range n.servers {
		if s != nil && !s.hasExited() {
			continue
		}
		at := ""
		if i == victim {
			at = doom
		}
		var err error
		if n.servers[i], err = t.startServer(ctx, t.dataOf(i), n.program(), configOf(t, i), at); err != nil &&
			!(at != "" && n.servers[i].died()) {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	return nil
}

// program returns the program to start as a server.
func (n *nodes) program() string {
	t := n.torture
	if t.old == "" {
		return t.tagged
	}
	if n.dice.IntN(2) == 0 {
		t.counts.olderStarts.Add(1)
		return t.old
	}
	t.counts.newerStarts.Add(1)
	return t.tagged
}

func (n *nodes) killAll() {
	for _, s := range n.servers {
		s.kill()
	}
}

// cycle restarts what has ended, checks the data, puts load on all servers and causes the fault.
func (n *nodes) cycle(ctx context.Context, p plan, victim int) error {
	t := n.torture
	if p.doom != "" { // only a new process can get a kill point
		t.faults.addKill()
		n.servers[victim].kill()
	}
	if err := n.startAll(ctx, victim, p.doom); err != nil {
		return err
	}
	reading := n.servers[n.after(victim)]
	if err := t.check(ctx, reading); err != nil {
		return err
	}
	return n.underLoad(ctx, p, func(ctx context.Context) error {
		if p.doctor {
			t.runDoctor(ctx, "live")
		}
		if err := n.awaitFault(ctx, p, victim); err != nil {
			return err
		}
		return n.fault(ctx, p, victim)
	})
}

// underLoad calls f while users, deciders and readers work at all servers that run now.
func (n *nodes) underLoad(ctx context.Context, p plan, f func(ctx context.Context) error) error {
	t := n.torture
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
	return f(ctx)
}

// after returns the server that follows another one.
func (n *nodes) after(server int) int { return (server + 1) % len(n.servers) }

// awaitFault waits until the load of a plan ends, or its victim reaches its point.
func (n *nodes) awaitFault(ctx context.Context, p plan, victim int) error {
	s := n.servers[victim]
	late := time.NewTimer(p.load)
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.exited:
	case <-s.frozen:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i, other := range n.servers {
		if other.hasExited() && (i != victim || s.point() == "") {
			return fmt.Errorf("server %d exited unexpectedly: %s", i, other.last(20))
		}
	}
	return nil
}
