package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/client"
	"mailroom/entry"
)

// point is a moment of an undisturbed run: a request of the worker, or inside the server, an entry that is committed.
type point struct {
	at  string
	nth int
}

// playEach plays a scenario without a fault, and then once for each pair of a fault of Each and a point of that run.
// Unless all scenarios are played in full, it plays one pair of six, or of eighteen if the fault is a kill, which needs
// a worker or a server of its own. Each column plays other pairs. The agent inside the server meets kills only.
func playEach(t testing.TB, g *stage, s *scenario) error {
	calm := &play{stage: g, s: s}
	if g.proxy != nil {
		g.proxy.reset()
	}
	if err := calm.perform(); err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	points, err := calm.points()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var found error
	crews := make(chan struct{}, 4)
	for i, do := range s.Each {
		every := 6
		if strings.HasPrefix(do, "kill") {
			every = 18
		}
		for j, at := range points {
			f := fault{At: at.at, Nth: at.nth, Do: do}
			if !*fullFlag && (i+j+len(g.column.name))%every != 0 || g.column.name == inside && !strings.HasPrefix(do, "kill") {
				continue
			}
			one := func() {
				if err := playAt(t, g, s, f); err != nil {
					mu.Lock()
					defer mu.Unlock()
					found = errors.Join(found, fmt.Errorf("%s at %s %d: %w", do, f.At, f.Nth, err))
				}
			}
			if !strings.HasPrefix(do, "kill") {
				one() // with the same worker
				continue
			}
			group.Go(func() {
				crews <- struct{}{}
				defer func() { <-crews }()
				one()
			})
		}
	}
	group.Wait()
	return found
}

// playAt plays the scenario with one fault: with the worker of the stage, or with one of its own that the fault kills.
func playAt(t testing.TB, g *stage, s *scenario, f fault) error {
	if !strings.HasPrefix(f.Do, "kill") {
		g.proxy.reset()
		return (&play{stage: g, s: s}).performWith(f)
	}
	if g.column.name != inside {
		own := newStage(t, g.column, g.server, fmt.Sprintf("%s.%s.%s.%d", g.agent, f.Do, f.At, f.Nth), nil)
		own.proxy.reset()
		return (&play{stage: own, s: s}).performWith(f)
	}
	on := &server{binary: g.server.binary, data: t.TempDir(), dir: newNotes(t)}
	on.env = []string{fmt.Sprintf("MAILROOM_TORTURE=%s %s %d", strings.TrimPrefix(f.Do, "kill-"), f.At, f.Nth)}
	if err := on.begin(t, s); err != nil {
		return err
	}
	on.env = nil // the next start of this server has no kill point
	return (&play{stage: newStage(t, g.column, on, inside, nil), s: s}).perform()
}

// performWith plays the scenario with a fault. A fault at a claim, step, effect or settle must happen: only the number
// of other requests, such as those with text, differs between two runs.
func (p *play) performWith(f fault) error {
	p.proxy.arm(f)
	if err := p.perform(); err != nil || !slices.Contains([]string{"claim", "step", "effect", "settle"}, f.At) {
		return err
	}
	return p.until("the fault has happened", func() (bool, error) {
		_, fired := p.proxy.history()
		return len(fired) > 0, nil
	})
}

// points returns the points of a run that has ended.
func (p *play) points() (all []point, err error) {
	if p.column.name != inside {
		seen, _ := p.proxy.history()
		for _, x := range seen {
			if !slices.Contains([]string{"idle", "register", "renew", "leave"}, x.kind) {
				all = append(all, point{x.kind, x.position})
			}
		}
		return all, nil
	}
	count := map[string]int{}
	for e, err := range p.server.client().EachEntry(p.t.Context(), p.threads[0], client.EntriesQuery{}) {
		if err != nil {
			return nil, err
		}
		count[e.Kind]++
		var m mailroom.Message
		if e.Kind == entry.KindMessage && e.Decode(&m) == nil && m.Role == mailroom.RoleUser || e.Kind == entry.KindQueued {
			continue // the submit, which no worker makes
		}
		all = append(all, point{e.Kind, count[e.Kind]})
	}
	return all, nil
}
