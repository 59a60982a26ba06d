// Package doom makes a server die at a named point, as SIGKILL would: it is what
// the build for the torture adds to the command. Nothing else links it.
package doom

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mailroom"
)

// Doom is an armed point. The zero Doom never comes.
type Doom struct {
	when, what string
	left       atomic.Int64
}

// Parse reads "WHEN WHAT COUNT": the process dies when the point is reached for
// the COUNT-th time. WHEN is at, for a place of the agent (see [Agent]), or
// before or after, for a commit of a kind: the kind of an entry in it, or one of
// any, renewal, burial, definition, flush, purge, deletion. Before means that
// the write was made and not committed, after that it was committed and not
// answered. "" is the zero Doom.
func Parse(s string) (*Doom, error) {
	d := &Doom{}
	if s == "" {
		return d, nil
	}
	words := strings.Fields(s)
	if len(words) != 3 {
		return nil, fmt.Errorf("%q is no point to die at: give WHEN WHAT COUNT", s)
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%q is no point to die at: the count %q is none", s, words[2])
	}
	switch words[0] {
	case "at", "before", "after":
	default:
		return nil, fmt.Errorf("%q is no point to die at: it begins with at, before or after", s)
	}
	d.when, d.what = words[0], words[1]
	d.left.Store(n)
	return d, nil
}

// at dies at a place of the agent.
func (d *Doom) at(place string) {
	if d.when == "at" && d.what == place && d.left.Add(-1) == 0 {
		d.die()
	}
}

// die ends the process at once. What it says is written before.
func (d *Doom) die() {
	_, _ = fmt.Fprintf(os.Stderr, "doom: %s %s\n", d.when, d.what) // it dies also unheard
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill() // a process can always kill itself
	}
	select {}
}

// Store dies around a commit of s.
func (d *Doom) Store(s mailroom.Store) mailroom.Store {
	if d.when != "before" && d.when != "after" {
		return s
	}
	return &store{Store: s, doom: d}
}

type store struct {
	mailroom.Store
	doom *Doom
}

// early is how long an answer that did not wait for its commit has to get out
// and be believed.
const early = 20 * time.Millisecond

func (s *store) Update(ctx context.Context, f func(mailroom.Tx) error) error {
	hit := false
	err := s.Store.Update(ctx, func(tx mailroom.Tx) error {
		w := &watched{Tx: tx, what: s.doom.what}
		if err := f(w); err != nil {
			return err
		}
		hit = w.seen && s.doom.left.Add(-1) == 0
		if hit && s.doom.when == "before" {
			time.Sleep(early)
			s.doom.die()
		}
		return nil
	})
	if hit && err == nil {
		s.doom.die()
	}
	return err
}

// watched is a transaction in which somebody looks for writes of a kind.
type watched struct {
	mailroom.Tx
	what string
	seen bool
}

func (w *watched) Write(c *mailroom.Changes) error {
	w.seen = w.seen || holds(c, w.what)
	return w.Tx.Write(c)
}

func holds(c *mailroom.Changes, what string) bool {
	switch what {
	case "any":
		return len(c.Entries)+len(c.Workers)+len(c.Partials)+len(c.DropEntries)+len(c.Kept) > 0
	case "renewal", "burial":
		for _, w := range c.Workers {
			if w.Dead == (what == "burial") {
				return true
			}
		}
		return false
	case "definition":
		return len(c.Kept) > 0
	case "flush":
		return len(c.Partials) > 0
	case "purge":
		return len(c.DropEntries) > 0
	case "deletion":
		return len(c.DropThreads) > 0
	}
	for _, entries := range c.Entries {
		for i := range entries {
			if entries[i].Kind == what {
				return true
			}
		}
	}
	return false
}
