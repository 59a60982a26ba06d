package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// contractSchema runs Migrate with a contraction, as a later program.
func contractSchema(t *testing.T, schema string, c *code) (before, after Tables, err error) {
	t.Helper()
	return Migrate(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true, code: c}, true)
}

func TestTablesAreContractedOnlyWithoutOlderServers(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	old := openIn(t, schema, "a")
	defer closeStore(t, old)
	now := time.Now().UTC()
	server := func(id string, tables int64, until time.Duration) *store.Worker {
		return &store.Worker{ID: id, Host: "host-" + id, PID: 7, Node: id, Version: "v1", Tables: tables,
			LeaseUntil: now.Add(until)}
	}
	remote := server("remote", 0, time.Hour)
	remote.Node = ""
	dead := server("dead", 0, time.Hour)
	dead.Dead = true
	gone := server("gone", 0, -time.Hour)
	newer := server("newer", codeVersion+1, time.Hour)
	write(t, old, &store.Changes{Workers: []*store.Worker{
		server("unmarked", 0, time.Hour), server("marked", codeVersion, time.Hour), newer, remote, dead, gone,
	}})
	c := next(t, []string{"ALTER TABLE run ADD COLUMN wide bigint;"}, []string{"DROP TABLE cursor;"})
	_, _, err := contractSchema(t, schema, c)
	var refused *OlderServersError
	if !errors.As(err, &refused) || refused.Need != codeVersion+1 {
		t.Fatalf("with older servers: got error %v, want an OlderServersError", err)
	}
	if got, want := strings.Join(refused.Servers,
		", "), "host-marked (process 7, version v1), host-unmarked (process 7, version v1)"; got != want {
		t.Errorf("refused because of %s, want %s", got, want)
	}
	write(t, old, &store.Changes{DropWorkers: []string{"unmarked", "marked"}}) // the refusal has changed nothing
	before, after, err := contractSchema(t, schema, c)
	if want := (Tables{codeVersion + 1, 1}); err != nil || before != want {
		t.Errorf("got tables %+v before and error %v, want %+v", before, err, want)
	}
	if want := (Tables{codeVersion + 1, codeVersion + 1}); after != want {
		t.Errorf("got tables %+v, want %+v", after, want)
	}
	if _, again, err := contractSchema(t, schema, c); err != nil || again != after {
		t.Errorf("again: got tables %+v and error %v, want %+v", again, err, after)
	}
}

// An older server that was paused or cut off during a contraction has no live lease.
func TestAnOlderServerWritesNothingAfterAContraction(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	old := openIn(t, schema, "a")
	defer closeStore(t, old)
	write(t, old, &store.Changes{Threads: []*mailroom.Thread{{ID: "before"}}})
	reads := func() error {
		return old.View(t.Context(), func(r store.Reader) error {
			_, err := r.Threads(store.ThreadQuery{IDs: []string{"before"}})
			return err
		})
	}
	if err := reads(); err != nil { // leaves a connection for the next one
		t.Fatal(err)
	}
	later := next(t, []string{"ALTER TABLE thread ADD COLUMN wide bigint;"},
		[]string{"ALTER TABLE thread DROP COLUMN deliver_to;"})
	newer := openNext(t, schema, later)
	if _, _, err := contractSchema(t, schema, later); err != nil {
		t.Fatal(err)
	}
	writes := func() error {
		return old.Update(t.Context(), func(tx store.Tx) error {
			return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: "after"}}})
		})
	}
	for what, f := range map[string]func() error{"write": writes, "read": reads} {
		err := f()
		var refused *VersionError
		if !errors.As(err, &refused) && mailroom.CodeOf(err) == mailroom.CodeUnavailable {
			err = f() // the first call met the end of its connection, perhaps in its commit
		}
		if !errors.As(err, &refused) || refused.Know != codeVersion || mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("%s by an older program: got error %v, want unavailable for a VersionError", what, err)
		}
	}
	err := newer.View(t.Context(), func(r store.Reader) error {
		written, err := r.Threads(store.ThreadQuery{IDs: []string{"after"}})
		if len(written) > 0 {
			t.Error("the older program has written a row")
		}
		return err
	})
	if err != nil || newer.writer.conn.Ping(t.Context()) != nil {
		t.Errorf("the newer program has lost its connection too: %v", err)
	}
}

func TestMigrateCreatesAndKeepsTables(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	for _, want := range []Tables{{}, {codeVersion, 1}} {
		before, after, err := contractSchema(t, schema, nil)
		if err != nil || before != want || after != (Tables{codeVersion, 1}) {
			t.Errorf("got tables %+v, then %+v, and error %v, want %+v, then version %d for all programs", before, after, err,
				want, codeVersion)
		}
	}
	if err := openIn(t, schema, "a").Close(); err != nil {
		t.Error(err)
	}
}
