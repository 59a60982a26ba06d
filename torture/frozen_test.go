package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/api"
)

var frozenFlag = flag.Duration("frozen", 0,
	"how long a server stays frozen in a commit; 0: until the other one has written to all of its threads")

// A server that stops between the two trips of a transaction keeps its threads locked until
// PostgreSQL ends its session (idle_in_transaction). Until then, and after it, all operations succeed at another
// server.
func TestAServerFrozenInACommitStopsNoOther(t *testing.T) {
	plain, tagged := build(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	tt, err := newTorture(plain, tagged, filepath.Join(t.TempDir(), "frozen"), 1, seed)
	if err != nil {
		t.Fatal(err)
	}
	tt.nodes, tt.lease = 2, 3*time.Second
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	tt.stop = stop
	n, err := tt.openNodes(ctx)
	defer func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.startAll(ctx, 0, "freeze message 40"); err != nil {
		t.Fatal(err)
	}
	frozen, other := n.servers[0], n.servers[1]
	if err := tt.openThreads(ctx, other); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	p := plan{kind: frozenTrip, seed: seed}
	at := tt.target(frozen)
	defer at.http.CloseIdleConnections()
	for i, thread := range tt.threads.echo {
		wg.Go(func() {
			for h := tt.newUser(at, p, i); !isClosed(frozen.frozen) && ctx.Err() == nil; {
				h.submit(thread)
			}
		})
	}
	select {
	case <-frozen.frozen:
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	began := time.Now()
	defer frozen.kill()
	locked := lockedThreads(ctx, t, n)
	t.Logf("seed %d; locked threads: %v", seed, locked)

	ended := work(ctx, t, tt, other, locked, p)
	if err := frozen.resume(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	ops := tt.journal.since(1)
	t.Logf("operations at the other server while one was frozen for %s:\n%s", ended.Sub(began).Round(time.Millisecond),
		latencies(ops, began, ended))
	for _, o := range ops {
		if o.Outcome == unknown && o.Called.After(began) && o.Returned.Before(ended) {
			t.Errorf("operation %d, %s, had no answer: %s", o.N, o.Kind, o.Why)
		}
	}
	if err := tt.finish(ctx, other); err != nil {
		t.Error(err)
	}
	for _, v := range tt.violations() {
		t.Errorf("thread %s: %s", v.thread, v.what)
	}
}

// lockedThreads returns the threads of users that sessions between two trips have locked, so those
// of the frozen server too. It does not lock rows itself, and needs less time than the server may
// wait between two trips.
func lockedThreads(ctx context.Context, t *testing.T, n *nodes) (locked []string) {
	t.Helper()
	rows, err := n.database.Select(ctx,
		`SELECT t.id FROM mailroom.thread t JOIN pg_stat_activity a ON a.backend_xid = t.xmax
		WHERE a.state = 'idle in transaction' AND t.id LIKE 'echo-%' ORDER BY t.id`)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		locked = append(locked, row[0])
	}
	if len(locked) == 0 {
		sessions, err := n.database.Select(ctx,
			"SELECT application_name, state, backend_xid, state_change, now(), query FROM pg_stat_activity WHERE datname = current_database()")
		t.Fatalf("the frozen server has locked no thread of users; sessions: %v (error: %v)", sessions, err)
	}
	return locked
}

// work does operations of every kind at a server until each locked thread was written to, and
// frozenFlag has passed. It returns the time before it ended the operations under way.
func work(ctx context.Context, t *testing.T, tt *torture, s *process, locked []string, p plan) time.Time {
	t.Helper()
	at := tt.target(s)
	defer at.http.CloseIdleConnections()
	ctx, end := context.WithCancel(ctx)
	late := time.NewTimer(*frozenFlag)
	defer late.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	for i := range users {
		wg.Go(func() { tt.newUser(at, p, 100+i).work(ctx) })
	}
	wg.Go(func() { tt.newUser(at, p, 200).decideLoop(ctx, false) })
	var writes sync.WaitGroup
	for i, thread := range locked {
		writes.Go(func() {
			h := tt.newUser(at, p, 300+i)
			text := fmt.Sprintf("m%d.%d to a locked thread", tt.journal.next(), h.dice.IntN(1<<30))
			o := h.send(&operation{Kind: "submit", Thread: thread, Text: text,
				Submit: &api.Submit{Thread: thread, Text: text, Key: text}})
			if o.Outcome != done {
				t.Errorf("a submit to locked thread %s: %s", thread, o.Why)
			}
		})
	}
	writes.Wait()
	select {
	case <-late.C:
	case <-ctx.Done():
	}
	return time.Now()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// latencies returns a table of the operations that were called and answered within a time.
func latencies(ops []*operation, from, to time.Time) string {
	took := map[string][]time.Duration{}
	for _, o := range ops {
		if o.Called.After(from) && o.Returned.Before(to) {
			took[o.Kind] = append(took[o.Kind], o.Returned.Sub(o.Called))
		}
	}
	table := &strings.Builder{}
	kinds := make([]string, 0, len(took))
	for kind := range took {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		slices.Sort(took[kind])
		fmt.Fprintf(table, "%-12s %s\n", kind, percentiles(took[kind]))
	}
	return table.String()
}
