package operate

import (
	"testing"

	"mailroom"
	"mailroom/auth"
)

// FuzzPageCursor checks that a cursor is valid only for its own list and token, and survives a
// restart.
func FuzzPageCursor(f *testing.F) {
	runs, threads := list[int64, int64]{name: "runs"}, list[int64, int64]{name: "threads"}
	s, again := pager{cursors: newCursorCipher("secret")}, pager{cursors: newCursorCipher("secret")}
	other := pager{cursors: newCursorCipher("another secret")}
	ann, bob := &auth.Token{Name: "ann"}, &auth.Token{Name: "bob"}
	f.Add("", int64(1))
	f.Add(runs.cursor(s, ann, place{key: 7}), int64(7))
	f.Add(runs.cursor(s, ann, place{group: "team-x"}), int64(7))
	f.Add("cnVuczotMQ", int64(-1))
	f.Add("cnVuczorMQ=", int64(0))
	f.Fuzz(func(t *testing.T, cursor string, key int64) {
		made := runs.cursor(s, ann, place{key: key})
		if got, err := runs.parseCursor(again, ann, made); key > 0 && (got != (place{key: key}) || err != nil) ||
			key <= 0 && err == nil {
			t.Errorf("cursor of %d is decoded as %v, %v", key, got, err)
		}
		got, err := runs.parseCursor(s, ann, cursor)
		switch {
		case err != nil && mailroom.CodeOf(err) != mailroom.CodeInvalid:
			t.Errorf("%q: %v, want invalid", cursor, err)
		case err == nil && cursor != "" && (got == place{} || got.key < 0):
			t.Errorf("%q is decoded as %v", cursor, got)
		}
		_, ofThreads := threads.parseCursor(s, ann, made)
		_, ofBob := runs.parseCursor(s, bob, made)
		_, elsewhere := runs.parseCursor(other, ann, made)
		if ofThreads == nil || ofBob == nil || elsewhere == nil {
			t.Errorf("a cursor of ann's runs is accepted for her threads, bob's runs, or on another server: %v, %v, %v",
				ofThreads, ofBob, elsewhere)
		}
	})
}
