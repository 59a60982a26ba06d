// Package killpoint kills or stops a server at a named point, as SIGKILL or SIGSTOP would. Only the
// torture build links it.
package killpoint

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mailroom/store"
)

// KillPoint is an armed point. The zero KillPoint never kills.
type KillPoint struct {
	when, what string
	remaining  atomic.Int64
}

// Parse reads "WHEN WHAT COUNT": the process is killed when the point is reached for
// the COUNT-th time. WHEN is at, for a place in the agent (see [KillPoint.Agent]), or
// before or after, for a commit of a kind: the kind of an entry in it, or any,
// renewal, burial, definition, flush, purge or deletion. Before means written but not
// committed, after means committed but not acknowledged. WHEN may also be freeze: before, but the
// process is stopped until SIGCONT, while a store with row locks holds them. "" is the zero
// KillPoint.
func Parse(s string) (*KillPoint, error) {
	d := &KillPoint{}
	if s == "" {
		return d, nil
	}
	words := strings.Fields(s)
	if len(words) != 3 {
		return nil, fmt.Errorf("invalid kill point %q: use WHEN WHAT COUNT", s)
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("invalid kill point %q: the count %q is not a positive number", s, words[2])
	}
	switch words[0] {
	case "at", "before", "after", "freeze":
	default:
		return nil, fmt.Errorf("invalid kill point %q: it must start with at, before, after or freeze", s)
	}
	d.when, d.what = words[0], words[1]
	d.remaining.Store(n)
	return d, nil
}

// reach kills the process if place is the armed place of the agent.
func (d *KillPoint) reach(place string) {
	if d.when == "at" && d.what == place && d.remaining.Add(-1) == 0 {
		d.kill()
	}
}

// announce writes the point to Stderr.
func (d *KillPoint) announce() {
	_, _ = fmt.Fprintf(os.Stderr, "killpoint: %s %s\n", d.when, d.what) // kill even if writing fails
}

// kill ends the process at once.
func (d *KillPoint) kill() {
	d.announce()
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill() // a process can always kill itself
	}
	select {}
}

// Store wraps s so that a commit of the armed kind kills the process.
func (d *KillPoint) Store(s store.Store) store.Store {
	if d.when == "" || d.when == "at" {
		return s
	}
	return &storeProxy{Store: s, point: d}
}

type storeProxy struct {
	store.Store
	point *KillPoint
}

// replyGrace is a time that is long enough for a client to get a reply which the server wrongly sends before its
// commit.
const replyGrace = 20 * time.Millisecond

func (s *storeProxy) Update(ctx context.Context, f func(store.Tx) error) error {
	hit := false
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		w := &watchedTx{Tx: tx, what: s.point.what}
		if err := f(w); err != nil {
			return err
		}
		hit = w.seen && s.point.remaining.Add(-1) == 0
		switch {
		case hit && s.point.when == "before":
			time.Sleep(replyGrace)
			s.point.kill()
		case hit && s.point.when == "freeze":
			s.point.announce()
			if err := stopProcess(); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(os.Stderr, "killpoint: resumed") // go on even if writing fails
		}
		return nil
	})
	if hit && err == nil && s.point.when == "after" {
		s.point.kill()
	}
	return err
}

// watchedTx is a transaction that notices writes of one kind.
type watchedTx struct {
	store.Tx
	what string
	seen bool
}

func (w *watchedTx) Write(c *store.Changes) error {
	w.seen = w.seen || containsKind(c, w.what)
	return w.Tx.Write(c)
}

func containsKind(c *store.Changes, what string) bool {
	switch what {
	case "any":
		return len(c.Entries)+len(c.Workers)+len(c.Partials)+len(c.DropEntries)+len(c.Definitions) > 0
	case "renewal", "burial":
		for _, w := range c.Workers {
			if w.Dead == (what == "burial") {
				return true
			}
		}
		return false
	case "definition":
		return len(c.Definitions) > 0
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
