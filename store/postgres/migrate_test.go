package postgres

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom/internal/pgtest"
	"mailroom/store"
)

func TestTheNewestMigrationIsTheVersionOfTheCode(t *testing.T) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		number, _, _ := strings.Cut(path.Base(f.Name()), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			t.Errorf("migration %s: want number %d", f.Name(), i+1)
		}
	}
	if len(files) != codeVersion {
		t.Errorf("got %d migrations, codeVersion is %d", len(files), codeVersion)
	}
}

func TestHandlesThatStartTogetherMigrateOnce(t *testing.T) {
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

func TestNewerTablesAreUsedAsFarAsTheyAllow(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "a")
	set := func(version, least int) {
		if _, err := s.writer.conn.Exec(t.Context(), "UPDATE schema_version SET version = $1, min_code = $2", version, least); err != nil {
			t.Fatal(err)
		}
	}
	defer s.Close()
	set(codeVersion+3, codeVersion)
	if err := openIn(t, schema, "b").Close(); err != nil {
		t.Error(err)
	}
	have, _, err := versions(t.Context(), s.writer.conn)
	if err != nil || have != codeVersion+3 {
		t.Errorf("after an older program: got version %d and error %v, want %d", have, err, codeVersion+3)
	}
	set(codeVersion+3, codeVersion+1)
	var refused *VersionError
	_, err = Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true})
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
	if _, err := admin.Exec(ctx, strings.ReplaceAll("CREATE ROLE x LOGIN; CREATE SCHEMA x AUTHORIZATION x; REVOKE CREATE, TEMPORARY ON DATABASE postgres FROM PUBLIC", "x", schema)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, Options{URL: strings.Replace(cluster.URL(), "user=pgtest", "user="+schema, 1), Schema: schema, AllowUnsafe: true})
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
