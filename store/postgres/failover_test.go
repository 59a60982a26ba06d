package postgres

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

func runSQL(t *testing.T, c *pgtest.Cluster, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := c.Select(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// await waits until a query returns a row.
func await(t *testing.T, c *pgtest.Cluster, query string) {
	t.Helper()
	for {
		rows, err := c.Select(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s never returned a row", query)
		}
	}
}

func openAt(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// The old primary accepts no writes any more, but keeps its connections and answers reads. A store whose
// address has both servers continues at the new one, also with its reads.
func TestAReadOnlyServerIsReplacedByThePrimary(t *testing.T) {
	t.Parallel()
	old := pgtest.Durable(t)
	standby := pgtest.StandbyOf(t, old)
	s := openAt(t, Options{URL: pgtest.URLOf(standby, old)}) // the standby is not the primary yet
	calls := 0
	if err := count(t, s, "t", &calls); err != nil {
		t.Fatal(err)
	}
	if got := counted(t, s, "t"); got != 1 {
		t.Fatalf("got count %d, want 1", got)
	}
	if n, err := s.AsynchronousStandbys(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d asynchronous standbys and error %v, want 1", n, err)
	}
	await(t, old, "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()")
	runSQL(t, old, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	await(t, old, "SELECT 1 WHERE current_setting('transaction_read_only') = 'on'")
	calls = 0
	if err := count(t, s, "t", &calls); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("without a primary: got error %v, want one of code unavailable", err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	epoch := s.Epoch()
	if err := count(t, s, "t", &calls); err != nil {
		t.Errorf("with a new primary: %v", err)
	}
	if s.Epoch() == epoch {
		t.Error("the epoch did not change with the server")
	}
	if got := counted(t, s, "t"); got != 2 {
		t.Errorf("got count %d, want 2: a view must not read the old server", got)
	}
	if n, err := s.AsynchronousStandbys(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d asynchronous standbys and error %v of the new primary, want none", n, err)
	}
}

// wantNotAcknowledged calls f, whose commit waits for the standby, and makes the server stop waiting.
func wantNotAcknowledged(t *testing.T, c *pgtest.Cluster, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		if _, err := c.Select(t.Context(),
			"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
				t.Errorf("the standby has not confirmed %s: got error %v, want one of code unavailable", what, err)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// With durable = "sync", the promotion of the standby loses no acknowledged commit. A commit that the
// server stopped waiting for is not acknowledged.
func TestASynchronousStandbyHasEveryAcknowledgedCommit(t *testing.T) {
	t.Parallel()
	primary := pgtest.Durable(t, "synchronous_standby_names=*")
	standby := pgtest.StandbyOf(t, primary)
	runSQL(t, primary, "CREATE ROLE app LOGIN", "GRANT CREATE ON DATABASE postgres TO app")
	address := strings.Replace(pgtest.URLOf(primary, standby), "user=pgtest", "user=app", 1)
	s := openAt(t, Options{URL: address, Durable: DurableSync})
	calls := 0
	for range 20 {
		if err := count(t, s, "t", &calls); err != nil {
			t.Fatal(err)
		}
	}
	if err := standby.Stop(); err != nil {
		t.Fatal(err)
	}
	wantNotAcknowledged(t, primary, "a commit", func() error { return count(t, s, "t", &calls) })
	// The primary shows that commit, so a repeat of it has nothing to write; its lock alone makes it wait.
	wantNotAcknowledged(t, primary, "a repeat", func() error {
		return s.Update(t.Context(), func(tx store.Tx) error {
			_, _, err := storetest.Lock(tx, nil, []string{"t"})
			return err
		})
	})
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := counted(t, s, "t"); got != 20 {
		t.Errorf("got count %d after the failover, want the 20 that were acknowledged", got)
	}
}
