// Package sqlstore has what the stores in SQL databases share: the building of SELECTs, the limits of
// their results, the turns of calls with their refusals, idle connections, and the counts. The encoding
// of rows is in package format.
//
// A database's dialect stays in its own store, which passes the texts that differ. Select itself knows
// how each database writes the place of an argument (see [Select.Text] and [Select.Numbered]).
package sqlstore

import (
	"slices"
	"strconv"
	"strings"
)

// Select builds a SELECT from fixed texts, so that there are few distinct statements to prepare: every
// variable part is an argument. Each ? in a text is the place of one.
type Select struct {
	text  strings.Builder
	args  []any
	where bool // the innermost SELECT has a condition
}

// Begin adds a text that ends with the tables of a SELECT. The next condition is its first one.
func (s *Select) Begin(text string) {
	s.Add(text)
	s.where = false
}

// Add adds a text.
func (s *Select) Add(text string, args ...any) {
	s.text.WriteString(text)
	s.args = append(s.args, args...)
}

// Cond adds a condition.
func (s *Select) Cond(text string, args ...any) {
	and := " WHERE "
	if s.where {
		and = " AND "
	}
	s.where = true
	s.Add(and)
	s.Add(text, args...)
}

// Equal adds the condition that a column has a value, unless that is "".
func (s *Select) Equal(column, value string) {
	if value != "" {
		s.Cond(column+" = ?", value)
	}
}

// EqualTo adds the condition that a column has the value, which may be "", unless value is nil.
func (s *Select) EqualTo(column string, value *string) {
	if value != nil {
		s.Cond(column+" = ?", *value)
	}
}

// ByKey adds the order of lists, newest first unless oldest is set, and the condition that rows come after the key
// from; 0: all rows.
func (s *Select) ByKey(column string, from int64, oldest bool) {
	switch {
	case from != 0 && oldest:
		s.Cond(column+" > ?", from)
	case from != 0:
		s.Cond(column+" < ?", from)
	}
	s.Add(" ORDER BY " + column)
	if !oldest {
		s.Add(" DESC")
	}
}

// Under adds the condition that a column of unique ids has a prefix and comes after the id after, and the order of the
// ids. An index of the column has these rows side by side.
func (s *Select) Under(column, prefix, after string) {
	if after < prefix {
		s.Cond(column+" >= ?", prefix)
	} else {
		s.Cond(column+" > ?", after)
	}
	if end := PrefixEnd(prefix); end != "" {
		s.Cond(column+" < ?", end)
	}
	s.Add(" ORDER BY " + column)
}

// Limit adds a limit of the rows; 0: no limit.
func (s *Select) Limit(rows int) {
	if rows > 0 {
		s.Add(" LIMIT ?", int64(rows))
	}
}

// Args returns the arguments.
func (s *Select) Args() []any { return s.args }

// Text returns the statement as SQLite reads it.
func (s *Select) Text() string { return s.text.String() }

// Numbered returns the statement as PostgreSQL reads it: the places are $1, $2 and so on.
func (s *Select) Numbered() string {
	var b strings.Builder
	rest := s.text.String()
	for n := 1; ; n++ {
		before, after, found := strings.Cut(rest, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		rest = after
	}
}

// Distinct returns the words of a list, sorted and without duplicates. Its result is not nil, which
// PostgreSQL reads as NULL.
func Distinct[T ~string](list []T) []T {
	list = append([]T{}, list...)
	slices.Sort(list)
	return slices.Compact(list)
}

// Gauge tracks the rows and bytes of a result against its limits.
type Gauge struct {
	Rows, Bytes   int // rows and bytes that were read so far
	Limit, Budget int // most rows and bytes; 0: no limit
}

// Add counts a row, and reports whether the limits allow another.
func (g *Gauge) Add(size int) bool {
	g.Rows++
	g.Bytes += size
	return !Full(g.Rows, g.Limit) && (g.Budget <= 0 || g.Bytes <= g.Budget)
}

// Full reports whether n rows reach the limit; 0 is no limit.
func Full(n, limit int) bool { return limit > 0 && n >= limit }
