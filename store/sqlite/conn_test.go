package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// slow is a query of some seconds.
const slow = `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000000)
	SELECT count(*) FROM n WHERE ? IS NOT NULL`

// twoWays returns a function that opens a database by the built-in SQLite, and one that does it by its driver for
// database/sql.
func twoWays() map[string]func(t *testing.T, path string, pragmas ...string) (*session, error) {
	connect := func(path string, pragmas []string) (Driver, driver.Connector, error) {
		d := builtIn()
		connector, err := d.open(path, url.Values{"_pragma": pragmas})
		return d, connector, err
	}
	closed := func(t *testing.T, s *session, err error) (*session, error) {
		t.Cleanup(func() {
			if err == nil && s.close() != nil {
				t.Error("the session does not close")
			}
		})
		return s, err
	}
	return map[string]func(*testing.T, string, ...string) (*session, error){
		"built in": func(t *testing.T, path string, pragmas ...string) (*session, error) {
			d, connector, err := connect(path, pragmas)
			if err != nil {
				return nil, err
			}
			s, err := newSession(t.Context(), &d, connector)
			return closed(t, s, err)
		},
		"driver": func(t *testing.T, path string, pragmas ...string) (*session, error) {
			d, connector, err := connect(path, pragmas)
			if err != nil {
				return nil, err
			}
			s, err := newSession(t.Context(), &d, connector.(builtInConnector).Connector)
			return closed(t, s, err)
		},
	}
}

// openSession opens a session of the built-in SQLite.
func openSession(t *testing.T, path string, pragmas ...string) *session {
	t.Helper()
	s, err := twoWays()["built in"](t, path, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustExec(t *testing.T, s *session, text string, args ...any) changes {
	t.Helper()
	done, err := s.exec(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return done
}

// allRows returns the values of all rows.
func allRows(t *testing.T, s *session, text string, args ...any) (found [][]driver.Value) {
	t.Helper()
	err := s.query(t.Context(), text, args, func(c *columns) (bool, error) {
		found = append(found, c.all())
		return true, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return found
}

func TestValuesComeBackAsTheyWereBound(t *testing.T) {
	long := strings.Repeat("ä", mostRoom)
	for name, open := range twoWays() {
		t.Run(name, func(t *testing.T) {
			s, err := open(t, filepath.Join(t.TempDir(), "a.db"))
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, s, "CREATE TABLE t (n INTEGER, s TEXT, b BLOB) STRICT")
			rows := [][]driver.Value{
				{int64(math.MaxInt64), long, []byte(long)},
				{nil, nil, nil},
				{int64(math.MinInt64), "", []byte{0}},
				{int64(0), "a\x00b", []byte("a\x00b")},
				{int64(-1), "'", bytes.Repeat([]byte{0xff}, leastRoom+1)},
			}
			for i, row := range rows {
				done := mustExec(t, s, "INSERT INTO t VALUES (?, ?, ?)", row[0], row[1], row[2])
				if want := (changes{rows: 1, lastKey: int64(i + 1)}); done != want {
					t.Errorf("row %d: got %+v, want %+v", i, done, want)
				}
			}
			if got := allRows(t, s, "SELECT * FROM t ORDER BY rowid"); !reflect.DeepEqual(got, rows) {
				t.Errorf("the rows came back differently: got %.200q, want %.200q", got, rows)
			}
			err = s.query(t.Context(), "SELECT n, s, b, n FROM t WHERE n IS ?", []any{nil}, func(c *columns) (bool, error) {
				n, s, b, at := c.Int64(), c.Text(), c.body(), c.Time()
				if n != 0 || s != "" || b != "" || !at.IsZero() {
					t.Errorf("NULL reads as %d, %q, %q and %v, want zero values", n, s, b, at)
				}
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if done := mustExec(t, s, "UPDATE t SET s = ? WHERE n >= ?", "x", int64(0)); done.rows != 2 {
				t.Errorf("the update changed %d rows, want 2", done.rows)
			}
		})
	}
}

// A statement that is bound again reads nothing of what it or another one was bound to before.
func TestARowHasNothingOfTheRowBefore(t *testing.T) {
	s := openSession(t, filepath.Join(t.TempDir(), "a.db"))
	mustExec(t, s, "CREATE TABLE t (a, b)")
	const insert = "INSERT INTO t VALUES (?, ?)"
	var want [][]driver.Value
	for i := range 50 {
		a, b := driver.Value(strings.Repeat("a", i*i*i)), driver.Value(nil)
		if i%2 == 0 {
			a, b = b, a
		}
		mustExec(t, s, insert, a, b)
		want = append(want, []driver.Value{a, b})
		if got := allRows(t, s, "SELECT ?, length(?)", "other", "text"); got[0][0] != "other" || got[0][1] != int64(4) {
			t.Fatalf("got %v", got)
		}
	}
	for i, got := range allRows(t, s, "SELECT * FROM t") {
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("row %d: got %.60q, want %.60q", i, got, want[i])
		}
	}
	err := s.query(t.Context(), "SELECT ? UNION SELECT ?", []any{"a", "b"}, func(c *columns) (bool, error) {
		_, err := s.exec(t.Context(), insert, "x", "y")
		return true, err
	})
	if err == nil {
		t.Error("a statement ran while the arguments of a query were in use")
	}
	for _, args := range [][]any{{}, {"a"}, {"a", "b", "c"}, {"a", 1.5}} {
		if _, err := s.exec(t.Context(), insert, args...); err == nil {
			t.Errorf("%d arguments for 2 parameters were accepted: %v", len(args), args)
		}
	}
	if got := allRows(t, s, "SELECT count(*) FROM t"); got[0][0] != int64(50) {
		t.Errorf("refused arguments left %v rows, want 50", got[0][0])
	}
	if conn := s.conn.(*conn); conn.room > mostRoom {
		t.Errorf("the connection keeps %d bytes, want at most %d", conn.room, mostRoom)
	}
}

func TestBindingAllocatesNothing(t *testing.T) {
	s := openSession(t, filepath.Join(t.TempDir(), "a.db"))
	mustExec(t, s, "CREATE TABLE t (n, s, b)")
	text, body, number := strings.Repeat("text", 10), []byte("body"), int64(1e9)
	n := testing.AllocsPerRun(100, func() {
		number++
		_, err := s.exec(context.Background(), "UPDATE t SET n = ?, s = ?, b = ?", number, text, body)
		if err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("a statement allocates %v times, want 0", n)
	}
}

// failure fails in a way, on the database at path, which open opens.
type failure = func(t *testing.T, path string, open func(pragmas ...string) (*session, error)) error

// failures are ways to fail, with the code that SQLite gives for each.
func failures() map[int]failure {
	run := func(texts ...string) failure {
		return func(_ *testing.T, _ string, open func(pragmas ...string) (*session, error)) error {
			s, err := open()
			for i := 0; err == nil && i < len(texts); i++ {
				_, err = s.exec(context.Background(), texts[i])
			}
			return err
		}
	}
	const table = "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, s TEXT UNIQUE NOT NULL) STRICT"
	return map[int]failure{
		sqlite3.SQLITE_ERROR:                 run("SELECT no_such_function()"),
		sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: run(table, "INSERT INTO t VALUES (1, 'a'), (1, 'b')"),
		sqlite3.SQLITE_CONSTRAINT_UNIQUE:     run(table, "INSERT INTO t VALUES (1, 'a'), (2, 'a')"),
		sqlite3.SQLITE_CONSTRAINT_NOTNULL:    run(table, "INSERT INTO t VALUES (1, NULL)"),
		sqlite3.SQLITE_CONSTRAINT_DATATYPE:   run(table, "INSERT INTO t VALUES (1, x'00')"),
		sqlite3.SQLITE_READONLY:              run(table, "PRAGMA query_only = 1", "DELETE FROM t"),
		sqlite3.SQLITE_FULL: run(table, "PRAGMA max_page_count = 1",
			"INSERT INTO t VALUES (1, hex(zeroblob(100000)))"),
		sqlite3.SQLITE_TOOBIG: run("SELECT zeroblob(2000000000)"),
		sqlite3.SQLITE_BUSY: func(t *testing.T, _ string, open func(pragmas ...string) (*session, error)) error {
			holder, err := open("journal_mode(wal)")
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, holder, "BEGIN IMMEDIATE")
			defer mustExec(t, holder, "ROLLBACK")
			other, err := open("busy_timeout(10)")
			if err != nil {
				t.Fatal(err)
			}
			_, err = other.exec(t.Context(), "BEGIN IMMEDIATE")
			return err
		},
		sqlite3.SQLITE_NOTADB: func(t *testing.T, path string, open func(pragmas ...string) (*session, error)) error {
			if err := os.WriteFile(path, bytes.Repeat([]byte("no database"), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := open("journal_mode(wal)")
			return err
		},
		sqlite3.SQLITE_CORRUPT: func(t *testing.T, _ string, open func(pragmas ...string) (*session, error)) error {
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, s, table)
			mustExec(t, s, "PRAGMA writable_schema = 1")
			mustExec(t, s, "UPDATE sqlite_schema SET rootpage = 1000 WHERE name = 't'")
			again, err := open()
			if err != nil {
				t.Fatal(err)
			}
			_, err = again.value(t.Context(), "SELECT count(*) FROM t")
			return err
		},
		sqlite3.SQLITE_CANTOPEN: func(t *testing.T, path string, open func(pragmas ...string) (*session, error)) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := open()
			return err
		},
	}
}

// Errors decide whether the store goes on, so they have the codes and texts of the driver's.
func TestErrorsHaveTheCodesOfTheDriver(t *testing.T) {
	d := builtIn()
	texts := make(map[int]string)
	for name, open := range twoWays() {
		for want, fail := range failures() {
			path := filepath.Join(t.TempDir(), "a.db")
			err := fail(t, path, func(pragmas ...string) (*session, error) { return open(t, path, pragmas...) })
			if err == nil {
				t.Errorf("%s: no error, want one with code %d", name, want)
				continue
			}
			if code, _ := d.Code(fmt.Errorf("wrapped: %w", err)); code != want {
				t.Errorf("%s: got code %d of %v, want %d", name, code, err, want)
			}
			got := strings.TrimSuffix(err.Error(), " (SQLITE_BUSY)")
			if other, ok := texts[want]; ok && got != other {
				t.Errorf("%s: got error %q, want %q", name, got, other)
			}
			texts[want] = got
		}
	}
}

// SQLite forgets an interrupt that comes before a statement begins, so the context ends while a long argument is bound,
// or later.
func TestAStatementEndsWithItsContext(t *testing.T) {
	s := openSession(t, filepath.Join(t.TempDir(), "a.db"))
	read := func(*columns) (bool, error) { return false, errors.New("the query was not interrupted") }
	long := make([]byte, 32<<20)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		if err := s.query(ctx, slow, []any{long}, read); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("round %d: got error %v, want that of the context", i, err)
		}
		cancel()
		if got := allRows(t, s, "SELECT 1"); len(got) != 1 {
			t.Fatalf("round %d: the connection reads %v after it", i, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.exec(ctx, slow, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v of a context that has ended, want its error", err)
	}
}

func TestAWaitForALockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	holder := openSession(t, path, "journal_mode(wal)")
	mustExec(t, holder, "BEGIN IMMEDIATE")
	waiter := openSession(t, path, "busy_timeout(3600000)") // longer than the test
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := waiter.exec(ctx, "BEGIN IMMEDIATE")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v, want that of the context", err)
		}
		if got, err := waiter.value(t.Context(), "PRAGMA busy_timeout"); err != nil || got != int64(3600000) {
			t.Fatalf("the timeout is %v after it, %v", got, err)
		}
	}
	released := make(chan error)
	time.AfterFunc(20*time.Millisecond, func() {
		_, err := holder.exec(context.Background(), "ROLLBACK")
		released <- err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := waiter.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		t.Errorf("the waiter did not get the lock: %v", err)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
	mustExec(t, waiter, "ROLLBACK")
}

func TestATextMustBeOneStatement(t *testing.T) {
	s := openSession(t, filepath.Join(t.TempDir(), "a.db"))
	for _, text := range []string{"", "-- nothing", "SELECT 1; SELECT 2", "SELECT"} {
		if _, err := s.exec(t.Context(), text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	mustExec(t, s, "SELECT 1;")
}
