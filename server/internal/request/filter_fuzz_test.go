package request

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"mailroom"
)

// FuzzParse checks that a filter matches the same rows after String and ParseFilter, and the
// other rows with a minus before it. An error must have code invalid and name the place.
func FuzzParse(f *testing.F) {
	for _, q := range []string{
		"", "status:failed -agent:co*x", `thread:"a b" key:"\"\\\*"`, "-", "a:b", "key:\"", "key:*", "key:a*b*", `key:""`,
		"created:>2026-11-01", "created:2026-11-01..2026-11-02", "finished:*", "error:x metadata.team:a",
		"status:queued,running -agent:a,b*", `error:"a,b",c`, "key:a,", "key:,",
	} {
		f.Add(q, "codex")
	}
	f.Fuzz(func(t *testing.T, q, v string) {
		once, err := ParseFilter(q, keys())
		if err != nil {
			e, ok := errors.AsType[*mailroom.Error](err)
			if !ok || e.Code != mailroom.CodeInvalid || len(e.Fields) != 1 || e.Fields[0].Location != "q" {
				t.Fatalf("Parse(%q): %#v, want invalid, naming q", q, err)
			}
			if part, _ := e.Fields[0].Value.(string); !strings.Contains(q, part) && !strings.ContainsAny(q, `"*`) {
				t.Errorf("Parse(%q) blames %q, which is not in it", q, part)
			}
			return
		}
		v = string([]rune(v))
		value := run("failed", v, v, v)
		for _, one := range once.terms {
			if want := modelled(one, value); one.kind != KindTime && (Filter{terms: []term{one}}).Match(value) != want {
				t.Errorf("%+v matches %q: got %v, want %v", one, v, !want, want)
			}
		}
		written := once.String()
		if 2*len(written) > MaxFilter {
			return
		}
		again, err := ParseFilter(written+" "+written, keys())
		if err != nil {
			t.Fatalf("%q was written as %q, which cannot be read: %v", q, written, err)
		}
		if got, want := again.Match(value), once.Match(value); got != want {
			t.Errorf("%q written twice as %q matches %q: got %v, want %v", q, written, v, got, want)
		}
		if len(once.terms) == 1 && !once.terms[0].not {
			contrary, err := ParseFilter("-"+written, keys())
			if err != nil || contrary.Match(value) == once.Match(value) {
				t.Errorf("-%s matches the same as without the minus (%v)", written, err)
			}
		}
		if from, before := once.Span("created"); once.Match(value) {
			if at := value.Time("created"); at.Before(from) || !before.IsZero() && !at.Before(before) {
				t.Errorf("%q matches a row of %v although it requires %v to %v", q, at, from, before)
			}
		}
		if exact, ok := once.Exact("agent"); ok && once.Match(value) && v != exact {
			t.Errorf("%q matches agent %q although it requires %q", q, v, exact)
		}
	})
}

// modelled reports by a regular expression whether a text term matches.
func modelled(t term, r FilterRow) bool {
	var each []string
	for _, any := range t.any {
		var quoted []string
		for _, p := range any {
			quoted = append(quoted, regexp.QuoteMeta(p))
		}
		one := "^" + strings.Join(quoted, ".*") + "$"
		if t.kind == KindText && len(quoted) == 1 && quoted[0] != "" {
			one = quoted[0]
		}
		each = append(each, "(?:"+one+")")
	}
	return regexp.MustCompile("(?s)"+strings.Join(each, "|")).MatchString(r.Text(t.key)) != t.not
}

// FuzzTime checks comparisons with an instant against package time.
func FuzzTime(f *testing.F) {
	f.Add("<", int64(1_761_999_015), int64(1_761_999_014), "")
	f.Add("<=", int64(1_761_999_015), int64(1_761_999_015), ",00")
	f.Add(">", int64(-62135596800), int64(-62135596799), "")
	f.Add("<", int64(-62135596800), int64(0), ".000000")
	f.Add("", int64(253402300799), int64(253402300799), ".0000000000")
	f.Fuzz(func(t *testing.T, op string, than, at int64, fraction string) {
		begin := time.Unix(than, 0).UTC()
		when := time.Unix(at, 0).UTC() // a row's time, from year 1 on
		if y := begin.Year(); y < 0 || y > 9999 || when.Before(time.Time{}) ||
			fraction != "" && strings.Trim(fraction[1:], "0") != "" {
			return
		}
		s, problem := parseSpan([]string{op + begin.Format("2006-01-02T15:04:05") + fraction + "Z"})
		if problem != "" {
			return
		}
		length := time.Second
		for range max(0, len(fraction)-1) {
			length = max(length/10, 1)
		}
		end := begin.Add(length)
		want := map[string]bool{
			"": !when.Before(begin) && when.Before(end), "<": when.Before(begin), "<=": when.Before(end),
			">": !when.Before(end), ">=": !when.Before(begin),
		}[op] && !when.IsZero()
		if got := s.contains(when); got != want {
			t.Errorf("%s%v%s holds for %v: got %v, want %v", op, begin, fraction, when, got, want)
		}
	})
}
