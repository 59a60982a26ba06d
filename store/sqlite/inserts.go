package sqlite

import (
	"errors"
	"strings"

	"mailroom"
)

// rowsPerInsert is the number of rows of one statement of [inserts].
const rowsPerInsert = 16

// inserts inserts new rows of a table, rowsPerInsert with one statement as long as there are so many: a statement costs
// about as much as a row.
type inserts struct {
	one, several string // statements of one row and of rowsPerInsert
	columns      int
	args         []any // values of the rows that are not written yet
}

// newInserts returns the inserts of a statement of one row, which ends in its list of values.
func newInserts(one string) inserts {
	values := one[strings.LastIndexByte(one, '('):]
	return inserts{
		one: one, several: one + strings.Repeat(", "+values, rowsPerInsert-1), columns: strings.Count(values, "?"),
	}
}

// add inserts a row, now or with a later call.
func (i *inserts) add(t *tx, values ...any) error {
	i.args = append(i.args, values...)
	if len(i.args) < rowsPerInsert*i.columns {
		return nil
	}
	err := t.run(i.several, i.args...)
	t.store.written += rowsPerInsert - 1
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
		if err := t.run(i.one, args[:i.columns]...); err != nil {
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
