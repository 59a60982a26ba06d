package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"mailroom"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/store"
	"mailroom/store/memory"
)

// failingStore is a store that closes at its first write after broken is set, as after an error of the
// disk.
type failingStore struct {
	store.Store
	broken atomic.Bool
}

func (b *failingStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if b.broken.Load() {
		return mailroom.Errorf(mailroom.CodeUnavailable, "write: %w", store.ErrClosed)
	}
	return b.Store.Update(ctx, f)
}

func TestNodeEndsWithAnErrorWhenItsStoreCloses(t *testing.T) {
	settings, err := config.Parse("test.toml", []byte("renew = \"100ms\""), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := &failingStore{Store: memory.New()}
	n, err := New(t.Context(), Options{
		Store: st, Config: settings, Token: "token", Files: datadir.Dir(t.TempDir()).Files(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	st.broken.Store(true)
	if err := n.Run(t.Context(), ln, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("error %v, want a closed store", err)
	}
}
