package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"mailroom/store/storetest"
)

// A newer version adds fields to the bodies of threads and runs, and columns for other rows.
func TestRewrittenRowsKeepWhatANewerVersionWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := []string{
		"thread", "run", "entry", "submit_key", "partial", "ticket", "worker", "definition", "token", "cursor", "reservation",
	}
	kept := storetest.Rewrite(t, s, func() {
		for _, table := range tables {
			for _, text := range []string{"ALTER TABLE " + table + " ADD COLUMN newer TEXT",
				"UPDATE " + table + " SET newer = 'kept'"} {
				if _, err := db.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	for _, kind := range []string{"thread t", "thread bare", "run"} {
		if got := kept[kind]; got != storetest.NewerField {
			t.Errorf("%s: got %q of a newer version in the body, want %q", kind, got, storetest.NewerField)
		}
	}
	for _, table := range tables {
		var lost, rows int
		if err := db.QueryRow("SELECT count(*) FILTER (WHERE newer IS NULL), count(*) FROM "+table).Scan(&lost,
			&rows); err != nil {
			t.Fatal(err)
		}
		if lost > 0 || rows == 0 {
			t.Errorf("%s: %d of %d rows have lost a column of a newer version", table, lost, rows)
		}
	}
}
