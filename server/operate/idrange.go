package operate

import (
	"cmp"
	"slices"

	"mailroom"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// minIDPrefix is the length of the shortest beginning of an id that is worth a range read. Ids begin with the time, so
// a shorter one has too many.
const minIDPrefix = 6

// idRange reads rows by the beginning of their ids, which are side by side in the index of ids. A list uses it only
// for a token that sees all threads: for others, the number of rows in the range would be a fact about other tokens.
type idRange[R any] struct {
	prefix string
	id     func(R) string
	read   func(rd store.Reader, prefix, after string, limit int) ([]R, error)
}

// rangeOf returns the range of ids that a filter requires, or nil if it is too wide.
func rangeOf[R any](f request.Filter, id func(R) string,
	read func(rd store.Reader, prefix, after string, limit int) ([]R, error),
) *idRange[R] {
	prefix := f.Prefix("id")
	if len(prefix) < minIDPrefix {
		return nil
	}
	return &idRange[R]{prefix, id, read}
}

// rows returns the rows of the range with a key below from (0: all), the newest first, at most limit. It reports false
// if the range has more rows than one read returns: more than a page, or more bytes than one view may hold.
func (r *idRange[R]) rows(rd store.Reader, key func(R) int64, from int64, limit int) (found []R, ok bool, err error) {
	found, err = r.read(rd, r.prefix, "", scanPage)
	if err != nil {
		return nil, false, err
	}
	if len(found) > 0 {
		more, err := r.read(rd, r.prefix, r.id(found[len(found)-1]), 1)
		if err != nil || len(more) > 0 {
			return nil, false, err
		}
	}
	found = slices.DeleteFunc(found, func(row R) bool { return from != 0 && key(row) >= from })
	slices.SortFunc(found, func(a, b R) int { return cmp.Compare(key(b), key(a)) })
	return found[:min(len(found), limit)], true, nil
}

func runsUnder(rd store.Reader, prefix, after string, limit int) ([]*mailroom.Run, error) {
	return rd.Runs(store.RunQuery{Prefix: prefix, After: after, Limit: limit, Bytes: scanBytes})
}

func threadsUnder(rd store.Reader, prefix, after string, limit int) ([]*mailroom.Thread, error) {
	return rd.Threads(store.ThreadQuery{Prefix: prefix, After: after, Limit: limit, Bytes: scanBytes})
}

func ticketsUnder(rd store.Reader, prefix, after string, limit int) ([]*mailroom.Ticket, error) {
	return rd.Tickets(store.TicketQuery{Prefix: prefix, After: after, Limit: limit, Bytes: scanBytes})
}
