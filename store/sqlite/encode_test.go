package sqlite

import (
	"errors"
	"testing"

	"mailroom"
	"mailroom/internal/recovery"
)

// A panic of the goroutine that encodes fails the Update, and the store stays usable.
func TestAPanicWhileRowsAreEncodedFailsTheUpdate(t *testing.T) {
	s := openTest(t, Options{})
	c := newBatch(t, "a", encodeBeside)
	c.Runs[3] = nil
	err := write(t, s, c)
	if _, ok := errors.AsType[*recovery.Panic](err); !ok || mailroom.CodeOf(err) != mailroom.CodeInternal {
		t.Errorf("got error %v, want a panic of code internal", err)
	}
	if err := write(t, s, newBatch(t, "b", encodeBeside)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, s); got != [3]int{encodeBeside, encodeBeside, encodeBeside} {
		t.Errorf("the store has %v threads, runs and entries, want %d of each", got, encodeBeside)
	}
}

func TestLargeBuffersOfRowsAreNotKept(t *testing.T) {
	s := openTest(t, Options{})
	c := newBatch(t, "a", 1+runsPerInsert)
	c.Runs[0].Checkpoint = make([]byte, 2*maxKept)
	if err := write(t, s, c); err != nil {
		t.Fatal(err)
	}
	if n := cap(s.encoder.buffer); n > maxKept {
		t.Errorf("the store keeps a buffer of %d bytes, want at most %d", n, maxKept)
	}
	for _, args := range [][]value{s.newRows.runs.args, s.newRows.entries.args} {
		for _, arg := range args[:cap(args)] {
			if arg.ofDriver() != nil {
				t.Fatalf("the store keeps the value %v of a row", arg.ofDriver())
			}
		}
	}
}
