package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// called records the attempt of each effect's last call, by run and name.
type called struct {
	mu       sync.Mutex
	dice     *rand.Rand
	attempts map[string]int // of the last call
}

func (c *called) call(run mailroom.RunView, name string) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[run.ID+"/"+name] = run.Attempt
	return time.Duration(c.dice.IntN(40)) * time.Millisecond
}

func (c *called) within(n int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.dice.IntN(n)) * time.Millisecond
}

func TestASettledEffectIsNeverCalledAgainOverAThousandKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &called{dice: rand.New(rand.NewPCG(seed, 0)), attempts: map[string]int{}}
	const threads = 60
	o := serving(func(ctx context.Context, s mailroom.Session) error {
		for i := range 4 {
			name := fmt.Sprint("e", i)
			_, err := s.Do(ctx, mailroom.Effect{Name: name, Idempotent: true},
				func(ctx context.Context, _ string) (json.RawMessage, error) {
					select {
					case <-time.After(c.call(s.Run(), name)):
						return json.Marshal(name)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	o.Local, o.Log = true, slog.New(slog.DiscardHandler)
	localOnly(t, func(h *fixture) {
		for kills, round := 0, 0; kills < 1000; round++ {
			busy := map[string]bool{} // threads with unfinished runs, to avoid a backlog
			for _, r := range h.runsIn(mailroom.StatusQueued) {
				busy[r.Thread] = true
			}
			for i := range threads {
				if thread := fmt.Sprint("t", i); !busy[thread] {
					h.send(thread, "go")
				}
			}
			victim := h.newProcess()
			victim.start(o)
			h.wait(c.within(100))
			kills += len(h.runsIn(mailroom.StatusRunning))
			victim.kill()
			h.must(h.ledger.Workers().EndLocalWorkers(context.Background(), false))
			h.wait(6 * time.Second) // the claims of all lost workers have expired
		}
		h.start(o)
		h.wait(time.Minute)
		settled := 0
		for i := range threads {
			settled += h.wantOnceSettled(fmt.Sprint("t", i), c)
		}
		t.Logf("%d effects settled", settled)
	})
}

func (h *fixture) runsIn(status mailroom.Status) []*mailroom.Run {
	h.t.Helper()
	return query(h, func(r store.Reader) ([]*mailroom.Run, error) {
		return r.Runs(store.RunQuery{Statuses: []mailroom.Status{status}})
	})
}

// wantOnceSettled checks that an effect has at most one settled entry and was not called in a later
// attempt. It returns the number of settled effects.
func (h *fixture) wantOnceSettled(thread string, c *called) int {
	h.t.Helper()
	seen := map[string]bool{}
	for _, e := range h.entries(thread, entry.KindEffectSettled) {
		id := e.Run + "/" + body[entry.EffectEntry](h, e).Name
		if seen[id] {
			h.t.Errorf("effect %s was settled twice", id)
		}
		seen[id] = true
		if c.attempts[id] > e.Attempt {
			h.t.Errorf("effect %s was settled in attempt %d and called in attempt %d", id, e.Attempt, c.attempts[id])
		}
	}
	for _, r := range query(h, func(r store.Reader) ([]*mailroom.Run, error) {
		return r.Runs(store.RunQuery{Thread: thread})
	}) {
		if !r.Status.Finished() {
			h.t.Errorf("run %s is %s", r.ID, r.Status)
		}
	}
	return len(seen)
}
