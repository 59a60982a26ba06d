package store

import (
	"cmp"
	"math"

	"mailroom"
)

// Position is the place of an entry in the order of all threads. Positions of a thread grow with its
// seqs. Positions of different threads are compared by commit, as far as commits have an order.
type Position struct {
	Commit int64 // a number of the commit; several commits may share one
	Thread int64 // Key of the thread
	Seq    int64
}

// Compare returns -1 if p is before q, 0 if they are equal, and 1 if p is after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Commit, q.Commit), cmp.Compare(p.Thread, q.Thread), cmp.Compare(p.Seq, q.Seq))
}

// StartOf returns the position before all entries of a commit.
func StartOf(commit int64) Position { return Position{Commit: commit} }

// AllEntries is a query for the entries of all threads, ordered by Position, also of threads that are being deleted.
// While a running transaction may still commit an entry with a lower position, the query holds back the entries above
// that position; a later query returns them. Entries that were written before the store had positions are never
// returned.
type AllEntries struct {
	After Position // exclusive
	None  bool     // return no entries and set only the fields below

	// The query sets the fields below.

	// Order names the order, in 12 characters a-z and 0-9. Positions of another order mean nothing in this one.
	Order     string
	Positions []Position // positions of the returned entries
	End       Position   // every later entry that a query returns is after it
	// Removed is the greatest position of an entry that DropEntries removed from a thread that was not
	// being deleted.
	Removed Position
	Pending bool // there are committed entries that a later query returns
}

// Add appends to found the entries of one row that are after a.After, until more returns false for the size of an
// entry. It reports whether the caller may add a further row.
func (a *AllEntries) Add(
	found, row []mailroom.Entry, commit, thread int64, more func(size int) bool,
) ([]mailroom.Entry, bool) {
	for _, e := range row {
		at := Position{commit, thread, e.Seq}
		if at.Compare(a.After) <= 0 {
			continue
		}
		found, a.Positions = append(found, e), append(a.Positions, at)
		if !more(len(e.Raw)) {
			return found, false
		}
	}
	return found, true
}

// WholeRow returns the query that decodes all entries of one row, up to the bytes of q.
func WholeRow(q EntryQuery) EntryQuery { return EntryQuery{Before: math.MaxInt64, Bytes: q.Bytes} }
