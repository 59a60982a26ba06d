package postgres

import (
	"strconv"
	"time"

	"mailroom/store/internal/sqlstore"
)

// reader answers the queries of package store in a transaction of PostgreSQL.
type reader struct {
	send  func(doing string, t trip) error
	clock func() time.Time
	unpin string // undoes a pin
}

// A pin lets the queries of one trip use certain plans only, whatever the statistics say.
const (
	// pinSeek keeps PostgreSQL from reading all later entries to sort them. The index has the order of positions, and
	// an incremental sort orders the rows of each position alone.
	pinSeek = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_sort', 'off', true)`

	// pinWords allows only the index of words.
	pinWords = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'on', true)"

	unpinReader = `SELECT set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true),
		set_config('enable_sort', 'on', true)`

	// unpinWriter restores the settings of pinPlans after a pin.
	unpinWriter = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_sort', 'on', true)`
)

// queryPinned sends a query with a pin.
func (r reader) queryPinned(doing, pin string, each func(c *columns) error, text string, args ...any) error {
	return r.send(doing, trip{{text: pin}, {text, args, each}, {text: r.unpin}})
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.clock() }

func (r reader) query(doing string, each func(c *columns) error, text string, args ...any) error {
	return r.send(doing, trip{{text, args, each}})
}

// micros encodes a time; 0 is the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// pageRows are the rows of the first page of a list that is limited in bytes; later pages are
// larger.
const pageRows = 64

// list runs the SELECT s up to the limits of rows and bytes. PostgreSQL sends all rows that a statement selects, so a
// list that is limited in bytes is read in pages.
func list[T any](
	r reader, doing string, s *sqlstore.Select, limit, budget int, scan func(c *columns) (T, error),
) ([]T, error) {
	var found []T
	text, args := s.Numbered(), s.Args()
	if budget <= 0 {
		if limit > 0 {
			text, args = text+" LIMIT $"+strconv.Itoa(len(args)+1), append(args, int64(limit))
		}
		return found, r.query(doing, func(c *columns) error {
			row, err := scan(c)
			found = append(found, row)
			return err
		}, text, args...)
	}
	text += " LIMIT $" + strconv.Itoa(len(args)+1) + " OFFSET $" + strconv.Itoa(len(args)+2)
	g, more := sqlstore.Gauge{Limit: limit, Budget: budget}, true
	for page := pageRows; ; page *= 2 {
		rows := 0
		err := r.query(doing, func(c *columns) error {
			if rows++; !more {
				return nil
			}
			row, err := scan(c)
			found = append(found, row)
			more = g.Add(c.size)
			return err
		}, text, append(args[:len(args):len(args)], int64(page), int64(g.Rows))...)
		if err != nil || !more || rows < page {
			return found, err
		}
	}
}
