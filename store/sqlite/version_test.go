package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/doctor"
	"mailroom/store"
)

// execAll runs statements on a database file, and creates it if necessary.
func execAll(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, e := db.ExecContext(t.Context(), s); err == nil {
			err = e
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// version7 makes a copy of a store written by commit 76a9169, in WAL mode.
func version7(t *testing.T) string {
	t.Helper()
	rows, err := os.ReadFile("testdata/version7.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mail.db")
	execAll(t, path, "PRAGMA journal_mode = wal", string(rows))
	return path
}

func TestAStoreOfTheOldestVersionIsMigratedWithAllItsRows(t *testing.T) {
	path := version7(t)
	s := openAt(t, path, Options{Guard: true})
	var got strings.Builder
	err := s.View(t.Context(), func(r store.Reader) error { return printRows(&got, r) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(version7Rows, got.String()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	wantSound(t, path, s)
}

// wantSound runs doctor on the store and its file.
func wantSound(t *testing.T, path string, s *Store) {
	t.Helper()
	report, err := doctor.Check(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Error(f)
	}
	file, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	faults, err := file.Faults(t.Context())
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// printRows writes the rows of a store, one per line.
func printRows(w *strings.Builder, r store.Reader) error {
	threads, err := r.Threads(store.ThreadQuery{Oldest: true})
	for _, t := range threads {
		entries, e := r.Entries(store.EntryQuery{Thread: t.ID})
		err = errors.Join(err, e)
		length := int64(0)
		for i := range entries {
			length += int64(len(entries[i].Raw))
		}
		fmt.Fprintf(w, "thread %.8s %s owner=%q entries=%d current=%t due=%q revision=%d whole=%t\n",
			t.ID, t.Agent, t.Owner, len(entries), t.Current != "", t.Due.Agent, t.Revision, length == t.Bytes)
	}
	runs, e := r.Runs(store.RunQuery{Oldest: true})
	err = errors.Join(err, e)
	for _, x := range runs {
		reply, pieces := "", 0
		if x.Reply != nil {
			reply = *x.Reply
		}
		partials, e := r.Partials(x.ID)
		err = errors.Join(err, e)
		for _, p := range partials {
			pieces += len(p.Text)
		}
		fmt.Fprintf(w, "run %.8s %s %s attempt=%d inputs=%d steers=%d partial=%d via=%s reply=%.20q\n",
			x.Thread, x.Agent, x.Status, x.Attempt, len(x.Inputs), len(x.Steers), pieces, x.Origin.Via, reply)
	}
	return errors.Join(err, printOthers(w, r))
}

// printOthers writes the rows other than threads and runs.
func printOthers(w *strings.Builder, r store.Reader) error {
	tickets, err := r.Tickets(store.TicketQuery{})
	for _, k := range tickets {
		fmt.Fprintf(w, "ticket %.8s %s %s %s %s reason=%q\n", k.Thread, k.Name, k.Kind, k.State, k.Decision, k.Reason)
	}
	tokens, e := r.Tokens()
	err = errors.Join(err, e)
	for _, k := range tokens {
		fmt.Fprintf(w, "token %s scopes=%v namespace=%q agents=%v sum=%.8s revoked=%t threads=%d workers=%d\n",
			k.Name, k.Scopes, k.Namespace, k.Agents, k.Sum, !k.RevokedAt.IsZero(), k.Used.Threads, k.Used.Workers)
	}
	reservations, e := r.Reservations(store.ReservationQuery{})
	err = errors.Join(err, e)
	for _, v := range reservations {
		fmt.Fprintf(w, "reservation %s %s holder=%s fence=%d shared=%t reason=%q\n", v.Thread, v.Name, v.Holder, v.Fence,
			v.Shared, v.Reason)
	}
	workers, e := r.Workers()
	err = errors.Join(err, e)
	for _, v := range workers {
		fmt.Fprintf(w, "worker of %s agents=%v owner=%q local=%t dead=%t\n", v.Host, v.Agents, v.Owner, v.Local, v.Dead)
	}
	keys, e := r.Keys(store.KeyQuery{Thread: "keyed", Keys: []string{"order-1", "order-2"}})
	err = errors.Join(err, e)
	for _, k := range keys {
		fmt.Fprintf(w, "key %s %s\n", k.Key, k.Result.Disposition)
	}
	rows, e := r.Agents()
	cursors, e2 := r.Cursors(store.CursorQuery{})
	fmt.Fprintf(w, "%d definitions, %d cursors\n", len(rows.Definitions), len(cursors))
	return errors.Join(err, e, e2)
}

// version7Rows agrees with the lists that 76a9169 itself printed.
const version7Rows = `thread notes echo owner="ann" entries=10 current=false due="" revision=5 whole=true
thread keyed echo owner="admin" entries=5 current=false due="" revision=2 whole=true
thread toured tour owner="admin" entries=28 current=false due="" revision=17 whole=true
thread 9b122e98 tour owner="admin" entries=5 current=false due="" revision=2 whole=true
thread denied tour owner="admin" entries=24 current=false due="" revision=14 whole=true
thread b42ae2fb tour owner="admin" entries=5 current=false due="" revision=2 whole=true
thread waiting tour owner="admin" entries=20 current=true due="tour" revision=11 whole=true
thread ea093137 tour owner="admin" entries=5 current=false due="" revision=2 whole=true
thread project: echo owner="admin" entries=4 current=false due="" revision=4 whole=true
thread shouted shout owner="admin" entries=7 current=false due="" revision=4 whole=true
thread running echo owner="ann" entries=8 current=true due="" revision=7 whole=true
thread touring tour owner="admin" entries=8 current=true due="" revision=5 whole=true
run notes echo completed attempt=1 inputs=1 steers=0 partial=0 via=user reply="hello"
run notes echo completed attempt=1 inputs=1 steers=0 partial=0 via=user reply="remember the milk: s"
run keyed echo completed attempt=1 inputs=1 steers=0 partial=0 via=user reply="once"
run toured tour completed attempt=2 inputs=1 steers=0 partial=0 via=user reply="What happened:\n- the"
run 9b122e98 tour completed attempt=1 inputs=1 steers=0 partial=0 via=run reply="Grey gulls, a slow t"
run denied tour completed attempt=2 inputs=1 steers=0 partial=0 via=user reply="What happened:\n- the"
run b42ae2fb tour completed attempt=1 inputs=1 steers=0 partial=0 via=run reply="Grey gulls, a slow t"
run waiting tour waiting attempt=1 inputs=1 steers=0 partial=0 via=user reply="I send another run o"
run ea093137 tour completed attempt=1 inputs=1 steers=0 partial=0 via=run reply="Grey gulls, a slow t"
run waiting tour queued attempt=0 inputs=1 steers=0 partial=0 via=user reply=""
run shouted shout completed attempt=1 inputs=1 steers=0 partial=0 via=user reply="LOUD"
run running echo running attempt=1 inputs=1 steers=1 partial=13 via=user reply=""
run running echo queued attempt=0 inputs=2 steers=0 partial=0 via=user reply=""
run touring tour running attempt=1 inputs=1 steers=0 partial=0 via=user reply="Now I call a tool. I"
ticket waiting helper-1 children decided answer reason=""
ticket waiting postcard approval open  reason=""
ticket denied helper-1 children decided answer reason=""
ticket denied postcard approval decided deny reason="not on a Friday"
ticket toured helper-1 children decided answer reason=""
ticket toured postcard approval decided approve reason="have fun"
token ann scopes=[read submit decide] namespace="team-" agents=[] sum=bf5df202 revoked=false threads=2 workers=0
token bob scopes=[read work] namespace="" agents=[shout] sum=b74fb0de revoked=false threads=0 workers=1
token gone scopes=[read] namespace="" agents=[] sum=22c6656e revoked=true threads=0 workers=0
reservation project:default src/** holder=ann fence=1 shared=false reason="refactoring"
reservation project:default docs/design.md holder=bob fence=2 shared=true reason=""
reservation project:default old holder=bob fence=3 shared=false reason=""
worker of here agents=[echo inbox tour] owner="" local=true dead=true
worker of desk agents=[shout] owner="bob" local=false dead=false
worker of here agents=[echo inbox tour] owner="" local=true dead=false
key order-1 queued
4 definitions, 2 cursors
`

func TestTheFirstMigrationMakesTheTablesOfTheOldestVersion(t *testing.T) {
	if diff := cmp.Diff(tables(t, version7(t)), tables(t, oldFile(t, baseVersion))); diff != "" {
		t.Errorf("tables and indexes (-of 76a9169 +of the migration):\n%s", diff)
	}
}

// tables describes the columns and indexes of a database, without comments.
func tables(t *testing.T, path string) (found []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), `
		SELECT m.name || '.' || c.name || ' ' || c.type || ' notnull=' || c."notnull" || ' pk=' || c.pk || ' default=' || coalesce(c.dflt_value, '')
			FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'goose%'
		UNION ALL SELECT l.name || ' strict=' || l.strict || ' wr=' || l.wr FROM pragma_table_list l
			WHERE l.name NOT LIKE 'sqlite%' AND l.name NOT LIKE 'goose%'
		UNION ALL SELECT m.name || ' ' || f."from" || ' references ' || f."table" || ' ' || f."to"
			FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'
		UNION ALL SELECT m.name || ' ' || coalesce(m.sql, m.tbl_name) FROM sqlite_schema m WHERE m.type = 'index'
		ORDER BY 1`)
	if err == nil {
		for rows.Next() {
			var row string
			err = errors.Join(err, rows.Scan(&row))
			found = append(found, row)
		}
		err = errors.Join(err, rows.Err(), rows.Close())
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTablesOfOtherVersionsAreRefusedAndLeftUnchanged(t *testing.T) {
	for _, x := range []struct {
		name, change, want string
	}{
		{
			"older than the oldest", "DELETE FROM goose_db_version WHERE version_id > 6",
			"have version 6, made by an older mailroom; this one migrates version 7 and later: use the mailroom that made them, or ",
		},
		{
			"the first", "DELETE FROM goose_db_version WHERE version_id > 1",
			"have version 1, made by an older mailroom; this one migrates version 7 and later: use the mailroom that made them, or ",
		},
		{
			"newer", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)",
			"have version 99, made by a newer mailroom; ",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			path := version7(t)
			execAll(t, path, x.change)
			before := content(t, path)
			_, err := Open(t.Context(), path, Options{Guard: true})
			wantVersion(t, err, x.want)
			_, err = OpenFile(t.Context(), path)
			wantVersion(t, err, x.want)
			if !bytes.Equal(before, content(t, path)) {
				t.Error("the file was changed")
			}
			beside, err := filepath.Glob(path + "*")
			if err != nil || len(beside) != 1 {
				t.Errorf("files %v, %v, want only the database", beside, err)
			}
		})
	}
}

func wantVersion(t *testing.T, err error, want string) {
	t.Helper()
	version, ok := errors.AsType[*VersionError](err)
	if !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want %q", err, want)
	}
	if version.CanMigrate() {
		t.Errorf("error %v suggests a migration", err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
