package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// lowRole connects as a role that may do nothing but connect.
func lowRole(t *testing.T, c *pgtest.Cluster) *pgx.Conn {
	t.Helper()
	name := c.Schema(t) + "_low"
	admin, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+name+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	low, err := pgx.Connect(t.Context(), strings.Replace(c.URL(), "user=pgtest", "user="+name, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { low.Close(context.Background()) })
	return low
}

// oldLocks are the advisory locks by which version 11 excluded others, of a schema and some topics.
func oldLocks(schema string, topics ...string) (calls []string) {
	for _, class := range []int64{migrationLock, copyLock, programLock + codeVersion, programLock + 11} {
		calls = append(calls, fmt.Sprintf("(%d, hashtext('%s'))", class, schema))
	}
	for _, topic := range topics {
		calls = append(calls, fmt.Sprintf("(hashtext('%s'), hashtext('%s'))", schema, topic))
	}
	return calls
}

// changeTokens changes a token below a topic, first in a new transaction and then behind another lock.
func changeTokens(t *testing.T, s *Store, topic string) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		if _, err := tx.Load(store.Need{Topics: []string{topic}}); err != nil {
			return err
		}
		if _, err := tx.Load(store.Need{Topics: []string{"agents"}}); err != nil {
			return err
		}
		rows, err := tx.Tokens("ann")
		if err != nil || len(rows) > 0 {
			return err
		}
		return tx.Write(&store.Changes{Tokens: []*auth.Token{{Name: "ann"}}})
	})
}

// A role that may only connect holds each advisory lock that servers of any version use: nothing waits for it.
func TestLocksOfARoleThatMayOnlyConnectBlockNoServer(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema, target := cluster.Schema(t), cluster.Schema(t)
	low := lowRole(t, cluster)
	for _, name := range []string{schema, target} {
		for _, call := range oldLocks(name, "tokens", "agents", "definitions") {
			if _, err := low.Exec(t.Context(), "SELECT pg_advisory_lock"+call); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := low.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	s := openIn(t, schema, "a") // migrates
	defer closeStore(t, s)
	second := openIn(t, schema, "b")
	defer closeStore(t, second)
	for _, topic := range []string{"tokens", "definitions"} {
		changeTokens(t, s, topic)
		changeTokens(t, second, topic)
	}
	if got := s.Traffic(); got.Tries != got.Updates {
		t.Errorf("%d updates took %d tries, want one each", got.Updates, got.Tries)
	}
	if _, _, err := contractSchema(t, schema, next(t, []string{"ALTER TABLE thread ADD COLUMN wide bigint;"},
		nil)); err != nil {
		t.Error(err)
	}
	c, err := openCopy(t, target)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, c.Store)
	for _, text := range []string{"SELECT FROM " + schema + ".topic FOR UPDATE", "LOCK TABLE " + schema + "." +
		migrationTable + " IN ACCESS SHARE MODE",
		"LOCK TABLE " + schema + ".token IN ACCESS SHARE MODE", "LOCK TABLE " + schema + ".token IN ROW SHARE MODE"} {
		if _, err := low.Exec(t.Context(), text); err == nil {
			t.Errorf("the role may run %s", text)
		}
		if _, err := low.Exec(t.Context(), "ROLLBACK; BEGIN"); err != nil {
			t.Fatal(err)
		}
	}
}

// A server of version 11 holds a topic by an advisory lock: this version waits for it, and it for this version.
func TestATopicIsHeldAlsoBesideAnOlderServer(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "a")
	defer closeStore(t, s)
	old := hold(t, s, fmt.Sprintf("SELECT pg_advisory_xact_lock(hashtext('%s'), hashtext('tokens'))", schema), "0")
	var changed sync.WaitGroup
	changed.Go(func() { changeTokens(t, s, "tokens") })
	waitFor(t, s, fmt.Sprintf("SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = %d AND wait_event = 'PgSleep'",
		s.writer.conn.PgConn().PID()))
	if n := countTokens(t, s); n != 0 {
		t.Errorf("got %d tokens while the older server holds the topic, want none", n)
	}
	old.close()
	changed.Wait()
	if n := countTokens(t, s); n != 1 {
		t.Errorf("got %d tokens, want 1", n)
	}

	other := hold(t, s, "SELECT 1", "0")
	update(t, s, func(tx store.Tx) error {
		if _, err := tx.Load(store.Need{Topics: []string{"tokens"}}); err != nil {
			return err
		}
		var free bool
		err := other.conn.QueryRow(t.Context(), "SELECT pg_try_advisory_xact_lock(hashtext($1), hashtext('tokens'))",
			schema).Scan(&free)
		if free {
			t.Error("an older server got the topic of a running transaction")
		}
		return err
	})
}

func countTokens(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Tokens()
		n = len(rows)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// A program of version 11 that migrates holds an advisory lock: this version waits for its end.
func TestAMigrationWaitsForAnOlderProgram(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "a")
	defer closeStore(t, s)
	old := hold(t, s, fmt.Sprintf("SELECT pg_advisory_lock(%d, hashtext('%s'))", migrationLock, schema), "0")
	later := next(t, []string{"ALTER TABLE thread ADD COLUMN wide bigint;"}, nil)
	var migrated sync.WaitGroup
	migrated.Go(func() {
		if _, _, err := Migrate(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true,
			code: later}, false); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, s, "SELECT count(*) > 0 FROM pg_locks WHERE relation = '"+schema+"."+migrationTable+
		"'::regclass AND granted")
	if got := tablesOf(t, s).Version; got != codeVersion {
		t.Errorf("got version %d beside an older program that migrates, want %d", got, codeVersion)
	}
	old.close()
	migrated.Wait()
	if got := tablesOf(t, s).Version; got != codeVersion+1 {
		t.Errorf("got version %d, want %d", got, codeVersion+1)
	}
}

// A contraction ends the connections of a program of version 11, which has another mark.
func TestAContractionEndsConnectionsWithAnOldMark(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "a")
	defer closeStore(t, s)
	old := hold(t, s, fmt.Sprintf("SELECT pg_advisory_lock_shared(%d, hashtext('%s'))", programLock+11, schema), "0")
	later := next(t, []string{"ALTER TABLE thread ADD COLUMN wide bigint;"},
		[]string{"ALTER TABLE thread DROP COLUMN deliver_to;"})
	newer := hold(t, s, "SELECT 1", "0")
	if err := mark(t.Context(), newer.conn, later.version, schema); err != nil {
		t.Fatal(err)
	}
	other := openIn(t, pgtest.Shared(t).Schema(t), "other") // an older server, of other tables
	defer closeStore(t, other)
	if _, _, err := contractSchema(t, schema, later); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := old.conn.Ping(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the connection of the older program: %v, want its end", err)
	}
	for name, c := range map[string]*session{"a newer program": newer, "another schema": other.writer} {
		if err := c.conn.Ping(ctx); err != nil {
			t.Errorf("the connection of %s: %v, want it to live", name, err)
		}
	}
}
