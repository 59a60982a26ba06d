package sqlite

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var orderName = regexp.MustCompile("'[0-9a-f]{12}'")

var update = flag.Bool("update", false, "write schema.sql")

// TestANewFileHasTheTablesOfTheMigrations migrates an empty file step by step, and compares its tables and their rows
// with schema.sql, and with those of a file that schema.sql has created.
func TestANewFileHasTheTablesOfTheMigrations(t *testing.T) {
	db := openFile(t, filepath.Join(t.TempDir(), "migrated.db"))
	provider, err := migrator(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := dump(t, db)
	if *update {
		if err := os.WriteFile("schema.sql", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		schema = want
	}
	if diff := cmp.Diff(want, schema); diff != "" {
		t.Errorf("run go test ./store/sqlite -update (-migrations +schema.sql):\n%s", diff)
	}
	names := map[string]bool{}
	for _, file := range []string{"one.db", "other.db"} {
		path := filepath.Join(t.TempDir(), file)
		openAt(t, path, Options{})
		db := openFile(t, path)
		if diff := cmp.Diff(want, dump(t, db)); diff != "" {
			t.Errorf("a new file (-migrations +new):\n%s", diff)
		}
		forEach(t, db, "SELECT order_name FROM given", func(row []any) { names[fmt.Sprint(row[0])] = true })
	}
	if len(names) != 2 {
		t.Errorf("two new stores have the names %v of their orders", names)
	}
}

// TestTwoHandlesCreateAFile opens a new file at the same time: one handle creates the tables.
func TestTwoHandlesCreateAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	var opened errgroup.Group
	for range 4 {
		opened.Go(func() error {
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				return err
			}
			return s.Close()
		})
	}
	if err := opened.Wait(); err != nil {
		t.Error(err)
	}
}

func openFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// dump returns statements that create the tables of a new store and their rows. SQLite makes the tables of a full-text
// index, and its own, by itself.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- The tables of a new file, written by go test ./store/sqlite -update from the migrations.\n")
	var tables []string
	for _, kind := range []string{"table", "index", "trigger", "view"} {
		forEach(t, db, `SELECT name, sql FROM sqlite_schema s WHERE type = ? AND sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
			AND NOT EXISTS (SELECT 1 FROM sqlite_schema v
				WHERE v.sql LIKE 'CREATE VIRTUAL%' AND s.name LIKE v.name || '\_%' ESCAPE '\')
			ORDER BY rowid`, func(row []any) {
			fmt.Fprintf(&b, "\n%s;\n", row[1])
			if name := fmt.Sprint(row[0]); kind == "table" && !strings.HasPrefix(fmt.Sprint(row[1]), "CREATE VIRTUAL") {
				tables = append(tables, name)
			}
		}, kind)
	}
	for _, name := range tables {
		columns := "*"
		if name == "goose_db_version" {
			columns = "version_id, is_applied" // without the time
		}
		forEach(t, db, "SELECT "+columns+" FROM "+name+" ORDER BY 1", func(row []any) {
			into := name
			if columns != "*" {
				into += " (" + columns + ")"
			}
			fmt.Fprintf(&b, "\nINSERT INTO %s VALUES (%s);", into, literals(row))
		})
	}
	// Each store names its order of entries at random, so that a cursor of another store is none of its own.
	return orderName.ReplaceAllString(b.String(), "lower(hex(randomblob(6)))") + "\n"
}

// literals writes values as SQL does.
func literals(row []any) string {
	var list []string
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			list = append(list, "NULL")
		case string:
			list = append(list, "'"+strings.ReplaceAll(v, "'", "''")+"'")
		case []byte:
			list = append(list, fmt.Sprintf("x'%x'", v))
		default:
			list = append(list, fmt.Sprint(v))
		}
	}
	return strings.Join(list, ", ")
}

func forEach(t *testing.T, db *sql.DB, query string, f func(row []any), args ...any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		f(row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
