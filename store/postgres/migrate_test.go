package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

func TestTheNewestMigrationIsTheVersionOfTheCode(t *testing.T) {
	c, err := released()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range c.expand {
		if m.version != int64(i+1) {
			t.Errorf("%s: want number %d", m.name, i+1)
		}
		statements, alone := m.statements()
		for _, text := range statements {
			if strings.Contains(text, "$$") || strings.Contains(text, "INDEX CONCURRENTLY") && !buildsIndex().MatchString(text) {
				t.Errorf("%s: the statement cannot run alone, or not again: %s", m.name, text)
			}
		}
		if !alone && strings.Contains(m.text, "CONCURRENTLY") {
			t.Errorf("%s: its first line must be %q", m.name, noTransaction)
		}
	}
	if len(c.expand) != codeVersion {
		t.Errorf("got %d migrations, codeVersion is %d", len(c.expand), codeVersion)
	}
	for _, m := range c.contract {
		if m.version > codeVersion {
			t.Errorf("%s: a program must know a version before it can require it, codeVersion is %d", m.name, codeVersion)
		}
	}
}

func TestHandlesThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	for range 8 { // where they meet differs
		schema := pgtest.Shared(t).Schema(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestTablesOfANewerVersionAreOpenedIfTheirMinimumCodeVersionAllows(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "a")
	set := func(version, least int) {
		if _, err := s.writer.conn.Exec(t.Context(), "UPDATE schema_version SET version = $1, min_code = $2", version,
			least); err != nil {
			t.Fatal(err)
		}
	}
	defer s.Close()
	set(codeVersion+3, codeVersion)
	if err := openIn(t, schema, "b").Close(); err != nil {
		t.Error(err)
	}
	if have := tablesOf(t, s); have.Version != codeVersion+3 {
		t.Errorf("after an older program: got version %d, want %d", have.Version, codeVersion+3)
	}
	set(codeVersion+3, codeVersion+1)
	var refused *VersionError
	_, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true})
	if !errors.As(err, &refused) {
		t.Errorf("tables for newer programs only: got error %v, want a VersionError", err)
	}
}

// A role that owns a schema and nothing else can run a server.
func TestARoleNeedsNoRightsButItsSchema(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	admin, err := pgx.Connect(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx,
		strings.ReplaceAll(
			"CREATE ROLE x LOGIN; CREATE SCHEMA x AUTHORIZATION x; REVOKE CREATE, TEMPORARY ON DATABASE postgres FROM PUBLIC",
			"x", schema)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, Options{URL: strings.Replace(cluster.URL(), "user=pgtest", "user="+schema, 1), Schema: schema,
		AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	write(t, s, usual(t, time.UnixMicro(1_000_000).UTC()))
	write(t, s, &store.Changes{DropThreads: []string{"t"}})
}

func TestAServerWithoutSyncIsRefused(t *testing.T) {
	_, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: "refused"})
	if err == nil || !strings.Contains(err.Error(), "fsync is off") {
		t.Errorf("got error %v, want one about fsync", err)
	}
}

// next returns what a later program knows of the tables: this one's, and further migrations.
func next(t *testing.T, expand, contract []string) *code {
	t.Helper()
	c, err := released()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range expand {
		c.version++
		c.expand = append(c.expand, migration{version: c.version, text: text})
	}
	for _, text := range contract {
		c.contract = append(c.contract, migration{version: c.version, text: text})
	}
	return &c
}

// openNext opens a handle of a later program.
func openNext(t *testing.T, schema string, c *code) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, Node: "next",
		AllowUnsafe: true, code: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func tablesOf(t *testing.T, s *Store) Tables {
	t.Helper()
	tables, err := readTables(t.Context(), s.writer.conn)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// wantIndex checks that the tables have an index that queries can use.
func wantIndex(t *testing.T, s *Store, name string) {
	t.Helper()
	var valid bool
	if err := s.writer.conn.QueryRow(t.Context(), "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)",
		name).Scan(&valid); err != nil || !valid {
		t.Errorf("index %s: got valid %t and error %v, want a valid index", name, valid, err)
	}
}

// An older handle writes while an index is built: the build waits for its transaction, and no write
// waits for the build. A build that was broken off has left an invalid index.
func TestAnIndexIsBuiltBesideRunningServers(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	old := openIn(t, schema, "a")
	defer closeStore(t, old)
	write(t, old, usual(t, time.UnixMicro(1_000_000).UTC()))
	fails := next(t,
		[]string{noTransaction + "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS entry_wide ON entry ((thread * 0));"}, nil)
	for _, thread := range []string{"x", "y"} { // two equal values
		e, err := entry.New(thread, 1, entry.KindStep, "", 0, time.UnixMicro(1), entry.StepNamed{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, old, &store.Changes{Threads: []*mailroom.Thread{{ID: thread}}, Entries: [][]mailroom.Entry{{e}}})
	}
	if _, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true,
		code: fails}); err == nil {
		t.Fatal("a unique index of equal values was built")
	}
	holder := hold(t, old, "LOCK TABLE entry IN ROW EXCLUSIVE MODE", "0")
	works := next(t,
		[]string{noTransaction +
			"-- The index.\nALTER TABLE run\n\tADD COLUMN IF NOT EXISTS wide bigint;\nCREATE INDEX CONCURRENTLY IF NOT EXISTS entry_wide ON entry (first_seq);\n"}, nil)
	var migrated sync.WaitGroup
	migrated.Go(func() {
		if _, _, err := Migrate(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true,
			code: works}, false); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, old,
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%INDEX CONCURRENTLY%entry_wide%' AND wait_event_type = 'Lock'")
	write(t, old, &store.Changes{Threads: []*mailroom.Thread{{ID: "besides"}}})
	holder.close()
	migrated.Wait()
	wantIndex(t, old, "entry_wide")
	if got := tablesOf(t, old); got != (Tables{codeVersion + 1, 1}) {
		t.Errorf("got tables %+v, want version %d for all programs", got, codeVersion+1)
	}
	write(t, old, &store.Changes{Threads: []*mailroom.Thread{{ID: "later"}}})
}

// hold begins a transaction with a lock, which the server ends after some time; 0: it does not.
func hold(t *testing.T, s *Store, lock, timeout string) *session {
	t.Helper()
	c, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	if _, err := c.conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = '"+timeout+"'; BEGIN; "+
		lock); err != nil {
		t.Fatal(err)
	}
	return c
}

// waitFor waits until a query returns true, on a connection of its own.
func waitFor(t *testing.T, s *Store, query string) {
	t.Helper()
	c, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for is := false; !is; {
		if err := c.conn.QueryRow(ctx, query).Scan(&is); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// A migration needs a lock that a transaction holds for longer than one try waits.
func TestAMigrationIsRepeatedUntilItGetsItsLocks(t *testing.T) {
	t.Parallel()
	schema := pgtest.Shared(t).Schema(t)
	old := openIn(t, schema, "a")
	defer closeStore(t, old)
	hold(t, old, "LOCK TABLE run IN ACCESS SHARE MODE", "2500ms")
	if got := tablesOf(t,
		openNext(t, schema, next(t, []string{"ALTER TABLE run ADD COLUMN wide bigint;"},
			nil))); got.Version != codeVersion+1 {
		t.Errorf("got version %d, want %d", got.Version, codeVersion+1)
	}
}
