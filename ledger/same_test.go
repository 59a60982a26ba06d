package ledger_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/store"
)

// difference is cmp.Diff with sameRows of the rows that are not deeply equal. Nearly all rows are equal,
// and cmp is slow.
func difference(a, b contents) string {
	a, b = a.without(b), b.without(a)
	if reflect.ValueOf(a).IsZero() && reflect.ValueOf(b).IsZero() {
		return ""
	}
	return cmp.Diff(a, b, sameRows())
}

// diffOf is cmp.Diff with sameRows, for values that are nearly always deeply equal.
func diffOf(a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b, sameRows())
}

// without returns c without the rows and logs that other has as well.
func (c contents) without(other contents) contents {
	is := c
	is.Threads = differing(c.Threads, other.Threads, func(a, b *mailroom.Thread) bool {
		x, y := *a, *b
		x.Key, x.Revision, y.Key, y.Revision = 0, 0, 0, 0
		return reflect.DeepEqual(x, y)
	})
	is.Runs = differing(c.Runs, other.Runs, func(a, b *mailroom.Run) bool {
		x, y := *a, *b
		x.Key, y.Key = 0, 0
		return reflect.DeepEqual(x, y)
	})
	is.Tickets = differing(c.Tickets, other.Tickets, func(a, b *mailroom.Ticket) bool {
		x, y := *a, *b
		x.Key, y.Key = 0, 0
		return reflect.DeepEqual(x, y)
	})
	is.Logs = differing(c.Logs, other.Logs, slices.Equal[[]string])
	is.Keys = differing(c.Keys, other.Keys, func(a, b store.SubmitKey) bool { return reflect.DeepEqual(a, b) })
	is.Partials = differing(c.Partials, other.Partials, func(a, b []store.Partial) bool { return reflect.DeepEqual(a, b) })
	is.Blobs = differing(c.Blobs, other.Blobs, func(a, b threadBlobs) bool { return reflect.DeepEqual(a, b) })
	is.Workers = unless(c.Workers, other.Workers)
	is.Tokens = unless(c.Tokens, other.Tokens)
	is.Kept = unless(c.Kept, other.Kept)
	is.Pauses = unless(c.Pauses, other.Pauses)
	is.Cursors = unless(c.Cursors, other.Cursors)
	is.Reserved = unless(c.Reserved, other.Reserved)
	is.Ended = unless(c.Ended, other.Ended)
	return is
}

// unless returns rows, or nil if they are the others.
func unless[V any](rows, others []V) []V {
	if len(rows) == 0 || reflect.DeepEqual(rows, others) {
		return nil
	}
	return rows
}

func differing[V any](rows, others map[string]V, same func(a, b V) bool) map[string]V {
	var left map[string]V
	for id, row := range rows {
		if other, ok := others[id]; !ok || !same(row, other) {
			if left == nil {
				left = map[string]V{}
			}
			left[id] = row
		}
	}
	return left
}

// TestADifferenceInAnyRowIsDetected changes and removes one row of each kind.
func TestADifferenceInAnyRowIsDetected(t *testing.T) {
	x := newTrial(t, dayInMemory(t)(t))
	is := x.contents()
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
	is.Keys = map[string]store.SubmitKey{"a k1": {Key: "k1"}} // fillDay creates no keys
	is.Blobs = map[string]threadBlobs{"busy": {Found: []store.Blob{{Size: 2}}}}
	if diff := difference(is, is); diff != "" {
		t.Fatalf("contents differ from themselves:\n%s", diff)
	}
	for name, change := range map[string]func(c *contents){
		"thread":    func(c *contents) { c.Threads = alterations(c.Threads, func(r *mailroom.Thread) { r.LastSeq++ }) },
		"run":       func(c *contents) { c.Runs = alterations(c.Runs, func(r *mailroom.Run) { r.Attempt++ }) },
		"ticket":    func(c *contents) { c.Tickets = alterations(c.Tickets, func(r *mailroom.Ticket) { r.Digest += "0" }) },
		"no thread": func(c *contents) { c.Threads = alterations(c.Threads, nil) },
		"no run":    func(c *contents) { c.Runs = alterations(c.Runs, nil) },
		"no ticket": func(c *contents) { c.Tickets = alterations(c.Tickets, nil) },
		"no key":    func(c *contents) { c.Keys = nil },
		"key":       func(c *contents) { c.Keys = map[string]store.SubmitKey{"a k1": {Key: "k1", Digest: "other"}} },
		"log": func(c *contents) {
			c.Logs = maps.Clone(c.Logs)
			c.Logs["busy"] = c.Logs["busy"][1:]
		},
		"no partial": func(c *contents) { c.Partials = nil },
		"no blobs":   func(c *contents) { c.Blobs = nil },
		"blob": func(c *contents) {
			c.Blobs = map[string]threadBlobs{"busy": {Found: []store.Blob{{Size: 1}}}}
		},
		"no worker":  func(c *contents) { c.Workers = c.Workers[1:] },
		"no token":   func(c *contents) { c.Tokens = c.Tokens[1:] },
		"no version": func(c *contents) { c.Kept = nil },
		"partial":    func(c *contents) { c.Partials = map[string][]store.Partial{"r": {{}}} },
		"pause":      func(c *contents) { c.Pauses = append(slices.Clone(c.Pauses), store.Pause{Agent: "a"}) },
		"cursor":     func(c *contents) { c.Cursors = append(slices.Clone(c.Cursors), store.Cursor{Channel: "c"}) },
		"reserved":   func(c *contents) { c.Reserved = append(slices.Clone(c.Reserved), store.Reservation{}) },
		"ended":      func(c *contents) { c.Ended = append(slices.Clone(c.Ended), store.Summary{}) },
	} {
		other := is
		change(&other)
		if difference(is, other) == "" || difference(other, is) == "" {
			t.Errorf("%s: the difference is not detected", name)
		}
	}
}

// alterations returns copies of the rows in which one row is changed or missing.
func alterations[R any](rows map[string]*R, change func(*R)) map[string]*R {
	rows = maps.Clone(rows)
	for id, row := range rows {
		delete(rows, id)
		if change != nil {
			changed := *row
			change(&changed)
			rows[id] = &changed
		}
		break
	}
	return rows
}
