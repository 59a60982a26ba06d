package bell_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/protocol/bell"
)

func TestOneProcessListensForASession(t *testing.T) {
	dir := bell.Listeners(filepath.Join(t.TempDir(), "listeners"))
	if all, err := dir.List(); err != nil || len(all) != 0 {
		t.Errorf("without a folder: %v, %v", all, err)
	}
	first := bell.Listener{Inbox: "mine", Server: "http://x", Harness: "claude", Session: "s", PID: 1, Since: start}
	x, err := dir.Add(first)
	must(t, err)
	if _, err := dir.Add(first); !errors.Is(err, bell.ErrListening) {
		t.Errorf("a second listener of the session: %v, want %v", err, bell.ErrListening)
	}
	other := first
	other.Session = "t"
	y, err := dir.Add(other)
	must(t, err)
	x.Rings, x.Rung = 3, start.Add(time.Minute)
	must(t, x.Save())
	all, err := dir.List()
	must(t, err)
	if len(all) != 2 || all[0].Ended || all[1].Ended || all[0].Rings+all[1].Rings != 3 {
		t.Errorf("listeners: %+v, want two that live, one rung three times", all)
	}
	must(t, y.Close())
	must(t, x.Close())
	if all, err = dir.List(); err != nil || len(all) != 0 {
		t.Errorf("after the end: %+v, %v", all, err)
	}
	x, err = dir.Add(first)
	must(t, err)
	must(t, x.Close())
}

func TestAListenerThatWasKilledIsListedAsSuchForAWhile(t *testing.T) {
	dir := bell.Listeners(t.TempDir())
	x, err := dir.Add(bell.Listener{Inbox: "mine", Harness: "wait", Session: "1"})
	must(t, err)
	entries, err := filepath.Glob(filepath.Join(string(dir), "*.json"))
	must(t, err)
	text, err := os.ReadFile(entries[0])
	must(t, err)
	must(t, x.Close())                             // the lock is free, as after a kill,
	must(t, os.WriteFile(entries[0], text, 0o600)) // and the entry is there
	all, err := dir.List()
	must(t, err)
	if len(all) != 1 || !all[0].Ended {
		t.Errorf("listeners: %+v, want one that has ended", all)
	}
	old := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(entries[0], old, old))
	if all, err = dir.List(); err != nil || len(all) != 0 {
		t.Errorf("hours later: %+v, %v, want none", all, err)
	}
}
