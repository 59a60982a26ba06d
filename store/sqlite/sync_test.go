package sqlite

import (
	"fmt"
	"testing"
)

// In WAL mode SQLite syncs the log at each commit only if synchronous is full, 2; with normal, 1, a
// power cut loses the last commits.
func TestEachCommitIsSynced(t *testing.T) {
	s := openTest(t, Options{})
	mustPut(t, s, "t")
	for name, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		got, err := s.writer.value(t.Context(), "PRAGMA "+name)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
}

// The file layer holds writes until a sync. A transaction that writes to the log before its commit, and
// is rolled back, would leave them there.
func TestNothingIsWrittenToTheLogBeforeACommit(t *testing.T) {
	s := openTest(t, Options{})
	got, err := s.writer.value(t.Context(), "PRAGMA cache_spill")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "0" {
		t.Errorf("cache_spill: got %v, want 0", got)
	}
}
