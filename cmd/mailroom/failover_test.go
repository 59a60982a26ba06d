package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/internal/pgtest"
)

// producers submit to the servers, each in a thread of its own, and repeat what was not acknowledged.
type producers struct {
	ended sync.WaitGroup
	mu    sync.Mutex
	acked []string // runs
	count map[int]int
}

func (p *producers) start(ctx context.Context, t *testing.T, name int, h *fixture) {
	c := h.client()
	p.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			in := api.Submit{Thread: fmt.Sprint("t", name), Key: fmt.Sprint("key-", i),
				Messages: []api.NewMessage{{Text: "hello"}}}
			for {
				out, err := c.Submit(t.Context(), in)
				if err == nil {
					p.mu.Lock()
					p.acked = append(p.acked, out.Run)
					p.count[name]++
					p.mu.Unlock()
					break
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-t.Context().Done():
					t.Error(err)
					return
				}
			}
		}
	})
}

// wait waits until each of n producers has so many more acknowledgements.
func (p *producers) wait(t *testing.T, n, more int) {
	t.Helper()
	p.mu.Lock()
	least := map[int]int{}
	for i := range n {
		least[i] = p.count[i] + more
	}
	p.mu.Unlock()
	platformtest.WaitFor(t, "acknowledged submits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range n {
			if p.count[i] < least[i] {
				return false
			}
		}
		return true
	})
}

// TestAcknowledgedWorkSurvivesAFailover kills the primary while two servers submit and run, and promotes
// its synchronous standby.
func TestAcknowledgedWorkSurvivesAFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Durable(t, "synchronous_standby_names=*")
	standby := pgtest.StandbyOf(t, primary)
	address := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(address, []byte(pgtest.URLOf(primary, standby)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newNodesOn(primary, fmt.Sprintf("url_file = %q\ndurable = \"sync\"", address), newFixture(t, ""), 2)
	const each = 2
	ctx, stop := context.WithCancel(t.Context())
	p := &producers{count: map[int]int{}}
	defer p.ended.Wait()
	defer stop()
	for i, n := range c.all {
		n.serve()
		if warned := n.server.output.line(failoverRisk); warned != "" {
			t.Errorf("the server warns of a synchronous standby: %s", warned)
		}
		for j := range each {
			p.start(ctx, t, i*each+j, n)
		}
	}
	n := each * len(c.all)
	p.wait(t, n, 10)
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.cluster, c.url = standby, standby.URL()
	pgtest.StandbyOf(t, standby) // without one, nothing is acknowledged
	p.wait(t, n, 10)
	stop()
	p.ended.Wait()
	runs := func(where string) (ids []string) {
		rows, err := standby.Select(t.Context(), "SELECT id FROM mailroom.run "+where)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			ids = append(ids, row[0])
		}
		slices.Sort(ids)
		return ids
	}
	platformtest.WaitFor(t, "the end of all runs", func() bool { return len(runs("WHERE status <> 'completed'")) == 0 })
	slices.Sort(p.acked)
	if got := runs(""); !slices.Equal(got, p.acked) {
		t.Errorf("the database has %d runs, want exactly the %d that were acknowledged", len(got), len(p.acked))
	}
}
