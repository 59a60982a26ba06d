package server_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/store"
	"mailroom/store/memory"
)

// cancelledAccounts fails a lookup whose context has ended, as SQLite does.
type cancelledAccounts struct {
	server.Accounts
	broken error
}

func (h cancelledAccounts) Tokens(ctx context.Context) ([]*auth.Token, error) {
	return nil, errors.Join(h.broken, context.Cause(ctx))
}

func TestAStopBeforeServingIsNoFailure(t *testing.T) {
	gone, stop := context.WithCancel(t.Context())
	stop()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		broken error
	}{
		{"stopped before", gone, nil},
		{"a broken store", t.Context(), store.ErrClosed},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		parts := server.PartsOf(ledger.New(memory.New(), ledger.Options{}))
		parts.Accounts = cancelledAccounts{parts.Accounts, tc.broken}
		s := server.New(server.Options{Ledger: parts, Access: server.Access{Token: token}})
		if err := s.Serve(tc.ctx, ln); !errors.Is(err, tc.broken) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.broken)
		}
		if conn, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			t.Errorf("%s: the server still listens", tc.name)
			_ = conn.Close() // the test has failed already
		}
	}
}
