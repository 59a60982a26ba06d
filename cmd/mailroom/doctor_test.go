package main

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
)

// scriptUntouched is scriptExits for a command that must not change the data folder.
func scriptUntouched(ts *testscript.TestScript, neg bool, args []string) {
	before := contents(ts)
	scriptExits(ts, neg, args)
	after := contents(ts)
	names := slices.Sorted(maps.Keys(before))
	if got := slices.Sorted(maps.Keys(after)); !slices.Equal(got, names) {
		ts.Fatalf("files of the data folder: %q, want %q", got, names)
	}
	for _, name := range names {
		if !bytes.Equal(before[name], after[name]) {
			ts.Fatalf("%s was changed", name)
		}
	}
}

// contents returns the files of the data folder with their bytes.
func contents(ts *testscript.TestScript) map[string][]byte {
	files, err := filepath.Glob(ts.Getenv("MAILROOM_DATA") + "/*")
	ts.Check(err)
	all := map[string][]byte{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		ts.Check(err)
		all[name] = b
	}
	return all
}

// scriptSQL runs a statement on the database of the store.
func scriptSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.Getenv("MAILROOM_DATA")+"/mailroom.db")
	ts.Check(err)
	_, err = db.Exec(strings.Join(args, " "))
	ts.Check(err)
	ts.Check(db.Close())
}

// scriptLoad creates a store in WAL mode, as a server does. FILE is relative to the folder of this test.
func scriptLoad(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: load FILE")
	}
	statements, err := os.ReadFile(args[0])
	ts.Check(err)
	scriptSQL(ts, false, []string{"PRAGMA journal_mode = wal;", string(statements)})
}

// scriptFalsify makes the rows of a thread inconsistent: "due" makes it due without a run, "attempt"
// adds to the attempts of its current or last run.
func scriptFalsify(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, ts.Getenv("MAILROOM_DATA")+"/mailroom.db", sqlite.Options{})
	ts.Check(err)
	ts.Check(s.Update(ctx, func(tx store.Tx) error {
		_, threads, err := storetest.Lock(tx, nil, args[1:])
		if err != nil {
			return err
		}
		runs, err := tx.Runs(store.RunQuery{Thread: args[1], Limit: 1})
		if err != nil {
			return err
		}
		switch args[0] {
		case "due":
			threads[0].Due = mailroom.Due{At: time.UnixMicro(1), Agent: "echo", Priority: 128}
		case "attempt":
			runs[0].Attempt += 6
		}
		return tx.Write(&store.Changes{Threads: threads, Runs: runs})
	}))
	ts.Check(s.Close())
}

// scriptDamage overwrites the page of an index that the checks of the rows do not read.
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	db, err := sql.Open("sqlite", path)
	ts.Check(err)
	var page int64
	ts.Check(db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'thread_deliver'").Scan(&page))
	ts.Check(db.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	ts.Check(err)
	_, err = f.WriteAt(bytes.Repeat([]byte("damage! "), 512), (page-1)*4096)
	ts.Check(err)
	ts.Check(f.Close())
}
