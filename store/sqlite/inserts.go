package sqlite

import (
	"errors"
	"strings"

	"mailroom"
)

// inserts inserts rows of a table, a fixed number of them with one statement as long as there are so many: a statement
// costs about as much as a row.
type inserts struct {
	one, several string  // statements of one row and of several
	rows         int     // of several
	columns      int     // of a row
	args         []value // values of the rows that are not written yet
}

// newInserts returns the inserts of a statement of one row. Its first list in parentheses behind VALUES has the values.
func newInserts(one string, rows int) inserts {
	begin := strings.Index(one, "VALUES (") + len("VALUES ")
	end := begin + strings.IndexByte(one[begin:], ')') + 1
	row := one[begin:end]
	return inserts{
		one: one, several: one[:end] + strings.Repeat(", "+row, rows-1) + one[end:],
		rows: rows, columns: strings.Count(row, "?"),
	}
}

// newRows has the inserts of a Write.
type newRows struct{ runs, entries, tallies, summaries inserts }

// Rows of one statement. A run that ends changes two counts, and six sums: three steps of its agent and of all.
const (
	runsPerInsert      = 16
	entriesPerInsert   = 16
	talliesPerInsert   = 2
	summariesPerInsert = 6
)

func emptyRows() newRows {
	return newRows{
		runs: newInserts(insertRun, runsPerInsert), entries: newInserts(insertEntry, entriesPerInsert),
		tallies: newInserts(addToTally, talliesPerInsert), summaries: newInserts(addSummary, summariesPerInsert),
	}
}

// drop forgets the rows that are not written yet.
func (n *newRows) drop() {
	for _, i := range [...]*inserts{&n.runs, &n.entries, &n.tallies, &n.summaries} {
		i.drop()
	}
}

// add inserts a row, now or with a later call.
func (i *inserts) add(t *tx, row ...value) error {
	i.args = append(i.args, row...)
	if len(i.args) < i.rows*i.columns {
		return nil
	}
	_, err := execRow(t, i.several, i.args)
	t.store.written += i.rows - 1
	i.drop()
	return err
}

// end inserts the rest of the rows, after the last one or after an error err of a later row, and returns the first
// error. After an error of SQLite it inserts nothing: the transaction may have ended, and then each statement would
// commit by itself.
func (i *inserts) end(t *tx, err error) error {
	if ofRow := (*mailroom.Error)(nil); err != nil && !errors.As(err, &ofRow) {
		return err
	}
	for args := i.args; len(args) > 0; args = args[i.columns:] {
		if _, err := execRow(t, i.one, args[:i.columns]); err != nil {
			return err
		}
	}
	i.drop()
	return err
}

// drop forgets the rows that are not written yet.
func (i *inserts) drop() {
	clear(i.args)
	i.args = i.args[:0]
}
