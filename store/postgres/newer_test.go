package postgres

import (
	"context"
	"testing"

	"mailroom/internal/pgtest"
	"mailroom/store/storetest"
)

// Two versions share a database during an upgrade. The newer one has added columns, and fields to
// the bodies of rows.
func TestRewrittenRowsKeepWhatANewerVersionWrote(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	exec := func(text string) {
		t.Helper()
		if _, err := s.writer.conn.Exec(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	kept := storetest.Rewrite(t, s, func() {
		for _, table := range rowTables() {
			exec("ALTER TABLE " + table + " ADD COLUMN newer text")
			exec("UPDATE " + table + " SET newer = 'kept'")
		}
	})
	for kind, got := range kept {
		if got != storetest.NewerField {
			t.Errorf("%s: got %q of a newer version in the body, want %q", kind, got, storetest.NewerField)
		}
	}
	for _, table := range rowTables() {
		if table == "removed" || table == "failure" || table == "deadline" { // of a purge, failed runs, deadlines
			continue
		}
		var lost, rows int
		err := s.writer.conn.QueryRow(context.Background(), "SELECT count(*) FILTER (WHERE newer IS NULL), count(*) FROM "+
			table).Scan(&lost, &rows)
		if err != nil {
			t.Fatal(err)
		}
		if table == "tally" {
			lost, rows = 0, rows-lost // a change of counts may insert rows
		}
		if lost > 0 || rows == 0 {
			t.Errorf("%s: %d of %d rows have lost a column of a newer version", table, lost, rows)
		}
	}
}
