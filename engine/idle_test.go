package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/sqlite"
)

// A commit costs a sync of the disk. The sweeps, and the claims that find nothing, are several a second.
func TestAnIdleServerWritesNothingButRenewals(t *testing.T) {
	everywhere(t, func(h *fixture) {
		o := serving(streaming("done"))
		o.Renew, o.Sweep = time.Second, 100*time.Millisecond
		h.start(o)
		sent := h.send("t", "hello")
		h.wait(time.Minute)
		h.status(sent.Run, mailroom.StatusCompleted)

		renewals := 0
		h.line.onWrite(func(c *store.Changes) error {
			rest := *c
			if rest.Workers = nil; len(c.Workers) == 0 || !rest.Empty() {
				h.t.Errorf("an idle server writes %+v", *c)
			}
			renewals++
			return nil
		}, nil)
		h.wait(10 * time.Second)
		h.line.onWrite(nil, nil)
		if renewals == 0 {
			h.t.Error("no renewal in 10 s: the server does nothing at all")
		}
	})
}

func TestAnIdleStoreKeepsItsRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(context.Background(), path, sqlite.Options{Guard: true})
		if err != nil {
			t.Fatal(err)
		}
		h := &fixture{t: t, store: s}
		h.process = h.newProcess()
		o := serving(streaming("done"))
		o.Lease, o.Renew = time.Hour, 20*time.Minute // a renewal is a commit
		h.start(o)
		h.send("t", "hello")
		h.wait(time.Minute)
		before, _, err := sqlite.ReadRevision(path)
		h.must(err)
		h.wait(10 * time.Second)
		after, _, err := sqlite.ReadRevision(path)
		h.must(err)
		if before.Commits == 0 || before != after {
			t.Errorf("an idle store went from %+v to %+v in 10 s", before, after)
		}
		h.stop()
		h.must(s.Close())
	})
}
