package ledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/store/transfer"
)

// kindsOfStores returns an empty store of each kind.
func kindsOfStores(t *testing.T) map[string]store.Store {
	t.Helper()
	cluster := pgtest.Shared(t)
	all := map[string]store.Store{
		"memory": memory.New(),
		"SQLite": must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{}))(t),
		"PostgreSQL": must(postgres.Open(t.Context(), postgres.Options{
			URL: cluster.URL(), Schema: cluster.Schema(t), AllowUnsafe: true,
			// On a busy machine a transaction is silent for seconds.
			IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
		}))(t),
	}
	t.Cleanup(func() {
		for _, s := range all {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return all
}

// A search in a copied store finds the same messages in the same order, the newest first, and a new message
// before them.
func TestASearchInACopyHasTheOrderOfTheSource(t *testing.T) {
	for from, source := range kindsOfStores(t) {
		d := open(t, source, ledger.Options{})
		for i := range 20 {
			d.submit(text(fmt.Sprint("t", (i*7)%4), fmt.Sprint("message number ", i)))
		}
		d.index()
		want := d.search("message")
		if len(want) != 20 || want[0] != "message number 19" {
			t.Fatalf("%s: the source finds %q, want the newest first", from, want)
		}
		for to, target := range kindsOfStores(t) {
			if _, err := transfer.Copy(t.Context(), source, target, func(transfer.Rows) {}); err != nil {
				t.Fatal(err)
			}
			if err := ledger.CopyIndex(t.Context(), source, target); err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			c := open(t, target, ledger.Options{})
			c.index() // nothing is left
			if got := c.search("message"); !slices.Equal(got, want) {
				t.Errorf("%s to %s: found %q, want %q", from, to, got, want)
			}
			c.submit(text("t3", "message of the copy"))
			c.index()
			if got := c.search("message"); !slices.Equal(got, append([]string{"message of the copy"}, want...)) {
				t.Errorf("%s to %s: found %q, want the new message first", from, to, got)
			}
		}
	}
}
