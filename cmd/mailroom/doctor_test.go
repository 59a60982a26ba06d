package main

import (
	"bytes"
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptUntouched is exits for a command that must leave every byte of the data
// folder, and every file's name, as they were.
func scriptUntouched(ts *testscript.TestScript, neg bool, args []string) {
	before := contents(ts)
	scriptExits(ts, neg, args)
	after := contents(ts)
	names := slices.Sorted(maps.Keys(before))
	if got := slices.Sorted(maps.Keys(after)); !slices.Equal(got, names) {
		ts.Fatalf("the data folder had %q and has %q", names, got)
	}
	for _, name := range names {
		if !bytes.Equal(before[name], after[name]) {
			ts.Fatalf("%s was changed", name)
		}
	}
}

// contents are the files of the data folder.
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

// scriptSQL changes rows of the store behind everybody's back.
func scriptSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.Getenv("MAILROOM_DATA")+"/mailroom.db")
	ts.Check(err)
	_, err = db.Exec(strings.Join(args, " "))
	ts.Check(err)
	ts.Check(db.Close())
}

// scriptDamage overwrites the last page of a database.
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	info, err := f.Stat()
	ts.Check(err)
	_, err = f.WriteAt(bytes.Repeat([]byte("damage! "), 512), info.Size()-4096)
	ts.Check(err)
	ts.Check(f.Close())
}
