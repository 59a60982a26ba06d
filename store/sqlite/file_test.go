package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/store"
)

// parts returns the existing files of a database, with their bytes.
func parts(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, part := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + part)
		switch {
		case err == nil:
			all[part] = string(b)
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
	}
	return all
}

// countThreads opens the database for reading and returns its number of threads.
func countThreads(t *testing.T, path string) (threads int) {
	t.Helper()
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	err = f.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		threads = len(rows)
		return err
	})
	found, e := f.Faults(t.Context())
	if err = errors.Join(err, e, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, fault := range found {
		t.Error(fault)
	}
	return threads
}

// leaves copies the files that a killed process leaves of a database.
func leaves(t *testing.T, path string, which ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "mail.db")
	all := parts(t, path)
	for _, part := range which {
		if err := os.WriteFile(to+part, []byte(all[part]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestOpenFileChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	mustPut(t, s, "a")
	mustPut(t, s, "b")
	if got := countThreads(t, path); got != 2 {
		t.Errorf("while a store has it open: %d threads, want 2", got)
	}
	mustPut(t, s, "c")
	for name, which := range map[string][]string{
		"after a crash":                            {"", "-wal", "-shm"},
		"after a crash, without the index":         {"", "-wal"},
		"after a crash, with the index of another": {"", "-wal", "-shm"},
	} {
		killed := leaves(t, path, which...)
		if strings.Contains(name, "another") {
			if err := os.WriteFile(killed+"-shm", make([]byte, 32768), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := parts(t, killed)
		if got := countThreads(t, killed); got != 3 {
			t.Errorf("%s: %d threads, want 3", name, got)
		}
		after := parts(t, killed)
		if len(which) == 2 {
			delete(after, "-shm") // it has no content of its own
		}
		for part := range after {
			if after[part] != before[part] {
				t.Errorf("%s: mail.db%s was changed", name, part)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := parts(t, path)
	if got := countThreads(t, path); got != 3 {
		t.Errorf("after it was closed: %d threads, want 3", got)
	}
	if after := parts(t, path); len(after) != 1 || after[""] != before[""] {
		t.Errorf("after Close: %d files, same bytes %t", len(after), after[""] == before[""])
	}
}

func TestAReaderOfTheFileDoesNotBlockAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	mustPut(t, s, "a")
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	err = f.View(t.Context(), func(r store.Reader) error {
		for n := range 2 {
			rows, err := r.Threads(store.ThreadQuery{})
			if err != nil {
				return err
			}
			if len(rows) != 1 {
				t.Errorf("a view sees %d threads, want the one there was", len(rows))
			}
			mustPut(t, s, fmt.Sprint("after ", n))
		}
		return nil
	})
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A database that no process has open is read without a lock. A writer that starts in the meantime
// is detected, and the rows read so far are discarded.
func TestAWriterDuringAReadIsDetected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{})
	mustPut(t, s, "a")
	seen := func(doing string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "changed while it was read") {
			t.Errorf("%s: %v", doing, err)
		}
	}
	_, err = f.Faults(t.Context())
	seen("faults", err)
	seen("a view", f.View(t.Context(), func(store.Reader) error { return nil }))
	target := filepath.Join(t.TempDir(), "copy.db")
	seen("a backup", f.Backup(t.Context(), target, func(string) error { return nil }))
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the backup exists: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreNoStoreAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err == nil {
		_, err = db.Exec("CREATE TABLE t (a)")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	newer := oldFile(t, baseVersion, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
	for _, x := range []struct {
		path, want string
		none       bool
	}{
		{filepath.Join(dir, "nowhere.db"), "does not exist", true},
		{write("empty.db", ""), "is empty", true},
		{other, "without the tables of a store", true},
		{write("letter.db", "dear reader"), "is not a SQLite database", false},
		{dir, "is not a SQLite database", false},
		{oldFile(t, baseVersion), "have version 7, made by an older mailroom; this one reads version", false},
		{newer, "have version 99, made by a newer mailroom", false},
	} {
		f, err := OpenFile(t.Context(), x.path)
		if err == nil {
			t.Errorf("%s: no error", x.path)
			_ = f.Close() // the test has failed
		} else if !strings.Contains(err.Error(), x.want) || errors.Is(err, ErrNoStore) != x.none {
			t.Errorf("error %q, want %q", err, x.want)
		}
	}
}

func TestFaultsOfTheFileAreFound(t *testing.T) {
	for _, x := range []struct{ name, damage, want string }{
		{"a run of no thread", "UPDATE run SET thread = 7", "row 1 of table run refers to a row of table thread that does not exist"},
		{"a key of no run", `INSERT INTO submit_key (thread, key, digest, result) VALUES (1, 'k', '', '{"run":"gone","disposition":"queued"}')`,
			`key "k" of thread "t" made run gone, which does not exist`},
		{"a column of its own mind", "UPDATE run SET status = 'failed'", "row 1 of table run has columns that differ from its body"},
		{"a thread that is due by its columns", "UPDATE thread SET due_at = 1", "row 1 of table thread has columns that differ from its body"},
		{"a body that is cut", "UPDATE thread SET body = x'ff'", "row 1 of table thread is unreadable: corrupt row body"},
		{"a row behind itself", "UPDATE entry SET previous = rowid",
			"row 1 of table entry follows row 1, which is not before it in its thread"},
		{"a thread with another end", "UPDATE thread SET entry_seq = 8",
			"row 1 of table thread ends with row 1 of table entry, which is not its last one"},
		{"an index of another table",
			"PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = 'CREATE INDEX run_thread ON run (first_seq)' WHERE name = 'run_thread'",
			"integrity check: "},
	} {
		path := filepath.Join(t.TempDir(), "mail.db")
		s := openAt(t, path, Options{})
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.Write(&store.Changes{
				Threads: []*mailroom.Thread{{ID: "t"}}, Runs: []*mailroom.Run{{ID: "r", Thread: "t", FirstSeq: 9}},
				Entries: [][]mailroom.Entry{entriesOf(t, "t", 1, 2)},
			})
		})
		db, e := sql.Open("sqlite", path)
		if err = errors.Join(err, e, s.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(x.damage)
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := f.Faults(t.Context())
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), x.want) {
			t.Errorf("%s: found %q, want %q", x.name, found, x.want)
		}
	}
}

func TestABackupIsConsistent(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "mail.db"), filepath.Join(dir, "copy.db")
	s := openAt(t, path, Options{})
	mustPut(t, s, "a")
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	approved := ""
	err = f.Backup(t.Context(), target, func(at string) error {
		approved = at
		mustPut(t, s, "b") // too late for the copy
		if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the copy has its name before the approval: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := countThreads(t, target); got != 1 {
		t.Errorf("the copy has %d threads, want the 1 there was", got)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v; want it for its owner only", info.Mode(), err)
	}
	before := parts(t, target)
	if err := f.Backup(t.Context(), target, func(string) error { return nil }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup onto another: %v", err)
	}
	if !bytes.Equal([]byte(parts(t, target)[""]), []byte(before[""])) {
		t.Error("the first backup was changed")
	}
	refused := errors.New("refused")
	other := filepath.Join(dir, "other.db")
	if err := f.Backup(t.Context(), other, func(string) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a copy that was not approved: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Backup(ctx, other, func(string) error { return nil }); err == nil {
		t.Error("a cancelled backup returned no error")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{approved, other} {
		if _, err := os.Lstat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s exists: %v", gone, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".copy*"))
	more, e := filepath.Glob(filepath.Join(dir, ".other*"))
	if err = errors.Join(err, e); err != nil || len(left)+len(more) > 0 {
		t.Errorf("remaining files %q, %q, %v", left, more, err)
	}
	restored := openAt(t, target, Options{})
	mustPut(t, restored, "c")
	if got := count(t, restored); got != 2 {
		t.Errorf("the restored store has %d threads, want 2", got)
	}
}
