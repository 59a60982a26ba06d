package postgres

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mailroom/internal/pgtest"
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

func TestAServerWithoutSyncIsRefused(t *testing.T) {
	_, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: "refused"})
	if err == nil || !strings.Contains(err.Error(), "fsync is off") {
		t.Errorf("got error %v, want one about fsync", err)
	}
}
