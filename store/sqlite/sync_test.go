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
