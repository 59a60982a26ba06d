package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/postgres"
)

// claimed counts the claims of a store, by key and in all, and keeps the most of each.
type claimed struct {
	mu               sync.Mutex
	looks, key, most int
}

// watch looks at the claims of one moment, again and again, until ctx ends.
func (c *claimed) watch(ctx context.Context, s store.Store) error {
	for {
		keys, all := map[string]int{}, 0
		err := s.View(ctx, func(r store.Reader) error {
			clear(keys)
			threads, err := r.Threads(store.ThreadQuery{})
			if err != nil {
				return err
			}
			var current []string
			for _, t := range threads {
				if t.Worker != "" {
					current = append(current, t.Current)
				}
			}
			if all = len(current); all == 0 {
				return nil
			}
			runs, err := r.Runs(store.RunQuery{IDs: current})
			all = 0
			for _, run := range runs {
				if run.Agent == "slow" {
					keys[run.LimitKey]++
					all++
				}
			}
			return err
		})
		if errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.looks++
		c.most = max(c.most, all)
		for _, n := range keys {
			c.key = max(c.key, n)
		}
		c.mu.Unlock()
	}
}

// startsOf returns the times at which runs of an agent started, by their keys.
func startsOf(h *fixture, s store.Store, agent string) map[string][]time.Time {
	starts := map[string][]time.Time{}
	h.must(s.View(h.t.Context(), func(r store.Reader) error {
		clear(starts)
		runs, err := r.Runs(store.RunQuery{})
		if err != nil {
			return err
		}
		for _, run := range runs {
			if run.Agent != agent {
				continue
			}
			began, err := r.Entries(store.EntryQuery{Thread: run.Thread, Run: run.ID,
				Kinds: []string{entry.KindStarted, entry.KindResumed}})
			if err != nil {
				return err
			}
			for _, e := range began {
				starts[run.LimitKey] = append(starts[run.LimitKey], e.At)
			}
		}
		return nil
	}))
	return starts
}

// checkRates checks that starts exceed the rate of their key in no window, and that they were so many that it held some
// back.
func checkRates(t *testing.T, starts map[string][]time.Time, each time.Duration, burst int) {
	t.Helper()
	for key, at := range starts {
		slices.SortFunc(at, time.Time.Compare)
		tight := 0
		for i := range at {
			for j := i + burst; j < len(at); j++ {
				took, least := at[j].Sub(at[i]), time.Duration(j-i+1-burst)*each
				if took < least {
					t.Errorf("%d runs of key %q started in %s, which takes %s", j-i+1, key, took, least)
				}
				if took < least+each {
					tight++
				}
			}
		}
		if t.Logf("%d starts of key %q, %d windows at its rate", len(at), key, tight); tight == 0 {
			t.Errorf("the rate of key %q was never reached", key)
		}
	}
}

// TestThreeServersKeepTheirLimitsThroughKills kills one of three servers again and again, while all of them start the
// runs of three keys of one agent, and of two of another one. At no moment more claims exist than the limits of the one
// agent and of its keys allow, in no window more runs start than the rate of the keys of the other one allows, all runs
// end, and the counts are right.
func TestThreeServersKeepTheirLimitsThroughKills(t *testing.T) {
	t.Parallel()
	const runs, keys, keyLimit, most = 72, 3, 2, 4
	const pacedRuns, pacedKeys, each, burst = 24, 2, time.Second, 3 // a busy machine reaches a start per second
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	h := newFixture(t, fmt.Sprintf("default_agent = \"slow\"\n[agents.slow]\nkind = \"exec\"\n"+
		"command = [\"sh\", \"-c\", \"cat; exec sleep 0.3\"]\nconcurrency = %d\nkey_limit = %d\nkey_from = \"customer\"\n"+
		"[agents.paced]\nkind = \"exec\"\ncommand = [\"cat\"]\nkey_rate = \"1/s\"\nkey_burst = %d\nkey_from = \"customer\"\n",
		most, keyLimit, burst))
	c := newNodes(h, 3)
	for _, n := range c.all {
		n.serve()
	}
	s, err := postgres.Open(t.Context(), postgres.Options{URL: c.url})
	h.must(err)
	ctx, stop := context.WithCancel(t.Context())
	var seen claimed
	watched := make(chan error, 1)
	go func() { watched <- seen.watch(ctx, s) }()
	for i := range runs {
		_, err := c.all[i%3].client().Submit(t.Context(), api.Submit{Thread: fmt.Sprint("t", i), Text: "hello",
			Metadata: map[string]string{"customer": fmt.Sprint("c", i%keys)}})
		h.must(err)
	}
	for i := range pacedRuns {
		_, err := c.all[i%3].client().Submit(t.Context(), api.Submit{Thread: fmt.Sprint("p", i), Agent: "paced",
			Text: "hello", Metadata: map[string]string{"customer": fmt.Sprint("p", i%pacedKeys)}})
		h.must(err)
	}
	open := func() (n int) {
		h.must(s.View(t.Context(), func(r store.Reader) error {
			n = 0
			rows, err := r.Runs(store.RunQuery{})
			for _, run := range rows {
				if !run.Status.Finished() {
					n++
				}
			}
			return err
		}))
		return n
	}
	kills := 0
	for end := time.Now().Add(waitTimeout); open() > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d runs do not end", open())
		}
		<-time.After(time.Duration(200+dice.IntN(1200)) * time.Millisecond)
		if kills >= 8 {
			continue
		}
		n := c.all[dice.IntN(len(c.all))]
		n.server.kill()
		kills++
		<-time.After(time.Duration(dice.IntN(300)) * time.Millisecond)
		n.serve()
	}
	stop()
	h.must(<-watched)
	checkRates(t, startsOf(h, s, "paced"), each, burst)
	h.must(s.Close())
	t.Logf("%d kills, %d looks: at most %d runs of a key and %d in all", kills, seen.looks, seen.key, seen.most)
	if seen.key > keyLimit || seen.most > most {
		t.Errorf("%d runs of one key ran at once, and %d in all; the limits are %d and %d", seen.key, seen.most,
			keyLimit, most)
	}
	if seen.key < keyLimit || seen.most < most || kills < 3 {
		t.Errorf("the limits were not reached: %d runs of a key, %d in all, %d kills", seen.key, seen.most, kills)
	}
}
