package filter

import (
	"strings"
	"time"
)

// span is a part of the time line: from an instant on, and before another if it
// is bounded. That end may be the zero time: nothing is before it.
type span struct {
	any, none bool // every time, and only the absence of one
	from      time.Time
	bounded   bool
	upto      time.Time
}

func (s span) contains(at time.Time) bool {
	switch {
	case s.none:
		return at.IsZero()
	case at.IsZero():
		return false
	}
	return s.any || !at.Before(s.from) && (!s.bounded || at.Before(s.upto))
}

const badTime = `needs a time: 2026-11-01, 2026-11-01T08:30:00Z, one of them behind <, <=, > or >=, or two with .. between them`

// parseSpan reads the value of a time key.
func parseSpan(pieces []string) (s span, problem string) {
	if len(pieces) > 1 {
		if strings.Join(pieces, "") != "" {
			return s, badTime
		}
		return span{any: true}, ""
	}
	v := pieces[0]
	if v == "" {
		return span{none: true}, ""
	}
	if first, last, ok := strings.Cut(v, ".."); ok {
		from, _, ok1 := parseTime(first)
		_, upto, ok2 := parseTime(last)
		if !ok1 || !ok2 {
			return s, badTime
		}
		return span{from: from, bounded: true, upto: upto}, ""
	}
	op := v[:len(v)-len(strings.TrimLeft(v, "<>="))]
	begin, end, ok := parseTime(v[len(op):])
	if !ok {
		return s, badTime
	}
	switch op {
	case "":
		return span{from: begin, bounded: true, upto: end}, ""
	case ">":
		return span{from: end}, ""
	case ">=":
		return span{from: begin}, ""
	case "<":
		return span{bounded: true, upto: begin}, ""
	case "<=":
		return span{bounded: true, upto: end}, ""
	}
	return s, badTime
}

// parseTime returns the span that a day or an instant is. An instant is as long
// as what is written of it: a second, or less.
func parseTime(v string) (begin, end time.Time, ok bool) {
	if day, err := time.Parse(time.DateOnly, v); err == nil {
		return day, day.AddDate(0, 0, 1), true
	}
	at, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return begin, end, false
	}
	length := time.Second
	if i := strings.IndexAny(v, ".,"); i > 0 { // package time takes both
		for _, c := range v[i+1:] {
			if c < '0' || c > '9' {
				break
			}
			length = max(length/10, 1)
		}
	}
	return at, at.Add(length), true
}
