package request

import (
	"strings"
	"time"
)

// span is a range of time: from is inclusive and upto, if bounded, exclusive. upto may
// be the zero time: then the range is empty.
type span struct {
	any, none bool // any: every time; none: only rows without a time
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

const badTime = `needs a time such as 2026-11-01 or 2026-11-01T08:30:00Z, one after <, <=, > or >=, or two joined by ..`

// parseSpan parses the value of a time key.
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

// parseTime parses a day or an instant and returns its range. An instant lasts one
// unit of its last digit: a second, or less with a fraction.
func parseTime(v string) (begin, end time.Time, ok bool) {
	if day, err := time.Parse(time.DateOnly, v); err == nil {
		return day, day.AddDate(0, 0, 1), true
	}
	at, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return begin, end, false
	}
	length := time.Second
	if i := strings.IndexAny(v, ".,"); i > 0 { // package time accepts both
		for _, c := range v[i+1:] {
			if c < '0' || c > '9' {
				break
			}
			length = max(length/10, 1)
		}
	}
	return at, at.Add(length), true
}
