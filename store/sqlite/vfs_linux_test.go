package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite"
)

// openDatabase returns a connection pool of one connection with the layer.
func openDatabase(t *testing.T, path string) *sql.DB {
	t.Helper()
	if fileLayer() == "" {
		t.Fatal("SQLite has another layout of its files than this package expects")
	}
	db, err := sql.Open("sqlite", "file:"+path+"?vfs="+fileLayer()+
		"&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_spill(false)&_pragma=cache_size(-64)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func do(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func valueIn(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	var out any
	if err := db.QueryRowContext(context.WithoutCancel(t.Context()), text).Scan(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return fmt.Sprint(out)
}

// many inserts 4,000 rows that begin with a word.
func many(word string) string {
	return "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT '" +
		word + "' || hex(randomblob(500)) FROM n"
}

// Two connections write to one log in turn, in commits larger than the buffer and the page cache, and
// roll back others. Each reads what the other has committed.
func TestConnectionsThatShareAWALReadEachOthersCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	dbs := []*sql.DB{openDatabase(t, path), openDatabase(t, path)}
	do(t, dbs[0], "CREATE TABLE t (x)", "PRAGMA wal_autocheckpoint = 0")
	rows := 0
	for i := range 6 {
		do(t, dbs[i%2], "BEGIN IMMEDIATE", many("undone"), "ROLLBACK")
		do(t, dbs[(i+1)%2], "BEGIN IMMEDIATE", many("kept"), "COMMIT", "INSERT INTO t VALUES (1)")
		rows += 4001
		if i == 3 {
			do(t, dbs[0], "PRAGMA wal_checkpoint(TRUNCATE)")
		}
		for k, db := range dbs {
			if got := valueIn(t, db, "SELECT count(*) FROM t"); got != fmt.Sprint(rows) {
				t.Fatalf("round %d: connection %d reads %s rows, want %d", i, k, got, rows)
			}
			if got := valueIn(t, db, "SELECT count(*) FROM t WHERE x LIKE 'undone%'"); got != "0" {
				t.Fatalf("round %d: connection %d reads %s rows of a rollback", i, k, got)
			}
			if got := valueIn(t, db, "PRAGMA integrity_check"); got != "ok" {
				t.Fatalf("round %d: connection %d: %s", i, k, got)
			}
		}
	}
}

// logOf returns the descriptor of the only log that is open in a folder.
func logOf(t *testing.T, dir string) int {
	t.Helper()
	found := -1
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		to, err := os.Readlink("/proc/self/fd/" + d.Name())
		if err != nil || !strings.HasPrefix(to, dir) || !strings.HasSuffix(to, "-wal") {
			continue // for example the descriptor of the list, which is closed
		}
		if found >= 0 {
			t.Fatal("two logs are open")
		}
		if _, err := fmt.Sscan(d.Name(), &found); err != nil {
			t.Fatal(err)
		}
	}
	if found < 0 {
		t.Fatal("no log is open")
	}
	return found
}

// withoutSync calls f while the only open log in a folder is the null device, which takes each write and cannot sync.
func withoutSync(t *testing.T, dir string, f func()) {
	t.Helper()
	log := logOf(t, dir)
	kept, err := syscall.Dup(log)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(int(null.Fd()), log, syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	f()
	if err := syscall.Dup3(kept, log, syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Close(kept), null.Close()); err != nil {
		t.Fatal(err)
	}
}

// A commit that cannot be synced must fail, so it was not reported before the log was synced, and no connection may
// read it.
func TestACommitWhoseLogCannotBeSyncedFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	db := openDatabase(t, path)
	do(t, db, "CREATE TABLE t (x)", "INSERT INTO t VALUES ('before')")
	var err error
	withoutSync(t, dir, func() { _, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES ('unsynced')") })
	if err == nil || !strings.Contains(err.Error(), "disk I/O error") {
		t.Errorf("a commit whose log cannot be synced: got %v, want a disk I/O error", err)
	}
	for _, reader := range []*sql.DB{db, openDatabase(t, path)} {
		if got := valueIn(t, reader, "SELECT group_concat(x) FROM t"); got != "before" {
			t.Errorf("got rows %q, want those of the commit before", got)
		}
	}
}
