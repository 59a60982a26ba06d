package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// openFiles returns the number of files in a folder that the process has open.
func openFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

func TestAFailedOpenLeavesNoFileOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	for _, last := range []string{"no pragma (", "user_version = 1; SELECT 1"} {
		if _, err := twoWays()["built in"](t, path, "journal_mode(wal)", last); err == nil {
			t.Fatalf("the pragma %q was accepted", last)
		}
		if n := openFiles(t, dir); n != 0 {
			t.Errorf("after the failed pragma %q: %d files are open, want none", last, n)
		}
	}
	openSession(t, path, "journal_mode(wal)")
	if openFiles(t, dir) == 0 {
		t.Error("an open database has no file open")
	}
}

func TestACommitThatCannotBeSyncedHasItsCode(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "mail.db"), Options{Readers: 1})
	mustPut(t, s, "before")
	_, err := s.writer.exec(context.Background(), "BEGIN IMMEDIATE")
	if err == nil {
		_, err = s.writer.exec(context.Background(), "DELETE FROM thread")
	}
	if err != nil {
		t.Fatal(err)
	}
	withoutSync(t, dir, func() { _, err = s.writer.exec(context.Background(), "COMMIT") })
	if code, _ := s.driver.Code(err); code != sqlite3.SQLITE_IOERR_FSYNC {
		t.Errorf("got error %v, want one with code %d", err, sqlite3.SQLITE_IOERR_FSYNC)
	}
}
