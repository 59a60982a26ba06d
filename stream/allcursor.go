package stream

import (
	"strconv"
	"strings"

	"mailroom"
	"mailroom/store"
)

// AllCursor is a reader's position in the stream of all threads. It is opaque to clients. The zero
// value means from now on.
type AllCursor struct {
	Order    string // order of the store's entries; see [store.AllEntries]
	Position store.Position
}

const (
	orderLength  = 12
	numberBase   = 36
	cursorFields = 4
)

// ParseAllCursor parses the text of a cursor. Anything else is CodeInvalid.
func ParseAllCursor(s string) (AllCursor, error) {
	fields := strings.Split(s, "-")
	if len(fields) != cursorFields || len(fields[0]) != orderLength || strings.Trim(fields[0], digits) != "" {
		return AllCursor{}, errNotAllCursor(s)
	}
	c := AllCursor{Order: fields[0]}
	for i, into := range []*int64{&c.Position.Commit, &c.Position.Thread, &c.Position.Seq} {
		n, err := strconv.ParseInt(fields[i+1], numberBase, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, numberBase) != fields[i+1] {
			return AllCursor{}, errNotAllCursor(s)
		}
		*into = n
	}
	return c, nil
}

// digits are the digits of base 36.
const digits = "0123456789abcdefghijklmnopqrstuvwxyz"

func errNotAllCursor(s string) error {
	return mailroom.Errorf(mailroom.CodeInvalid,
		"invalid cursor %q of the stream of all threads: use the id of one of its events", cutCursor(s))
}

// String returns the cursor in the form that ParseAllCursor accepts, at most 54 characters.
func (c AllCursor) String() string {
	p := c.Position
	return strings.Join([]string{
		c.Order, strconv.FormatInt(p.Commit, numberBase), strconv.FormatInt(p.Thread, numberBase),
		strconv.FormatInt(p.Seq, numberBase),
	}, "-")
}
