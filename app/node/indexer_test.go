package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
)

// runIndexer runs an indexer for a while.
func (d *janitorFixture) runIndexer(x *indexer, l *ledger.Ledger, while time.Duration) {
	ctx, stop := context.WithTimeout(d.t.Context(), while)
	defer stop()
	x.follow(ctx, l)
}

func (d *janitorFixture) wantFound(n int) {
	d.t.Helper()
	found := 0
	_, err := d.Search(d.t.Context(), &ledger.SearchQuery{
		Search: store.Search{Words: []string{"hello"}, Limit: 100}, CanSee: func(*mailroom.Thread) bool {
			return true
		}, Each: func(mailroom.Message, int64) {
			found++
		},
	})
	d.must(err)
	if found != n {
		d.t.Errorf("found %d messages, want %d", found, n)
	}
}

func TestMessagesAreIndexedBehindTheLog(t *testing.T) {
	withJanitorFixture(t, func(d *janitorFixture) {
		x := &indexer{on: true, log: slog.New(slog.DiscardHandler)}
		d.submit("t", "1")
		d.wantFound(0)
		d.runIndexer(x, d.Ledger, time.Millisecond)
		d.wantFound(1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.runIndexer(x, d.Ledger, 3*indexInterval)
		}()
		d.runJanitor(janitor{}, indexInterval/2)
		d.submit("t", "1")
		d.submit("u", "1")
		d.runJanitor(janitor{}, indexInterval)
		d.wantFound(3)
		<-ended
		d.submit("t", "1")
		d.runIndexer(&indexer{log: x.log}, d.Ledger, time.Minute)
		d.wantFound(3)
	})
}

// brokenStore is a store whose views fail while out is set.
type brokenStore struct {
	store.Store
	out bool
}

func (s *brokenStore) View(ctx context.Context, f func(store.Reader) error) error {
	if s.out {
		return errors.New("the disk is gone")
	}
	return s.Store.View(ctx, f)
}

func TestTheIndexerGoesOnAfterAFailure(t *testing.T) {
	withJanitorFixture(t, func(d *janitorFixture) {
		rows := &brokenStore{Store: d.store, out: true}
		l := ledger.New(rows, ledger.Options{})
		var log strings.Builder
		x := &indexer{on: true, log: slog.New(slog.NewTextHandler(&log, nil))}
		d.submit("t", "1")
		d.runIndexer(x, l, indexRetry+time.Second)
		if n := strings.Count(log.String(), "messages not indexed; retrying"); n != 2 ||
			!strings.Contains(log.String(), "the disk is gone") {
			t.Errorf("logged %d times, want twice: %s", n, log.String())
		}
		rows.out = false
		d.runIndexer(x, l, time.Second/2)
		d.wantFound(1)
	})
}
