package bd

import (
	"strings"
	"testing"
	"time"
)

// FuzzPlan checks that any text is refused, or that each of its issues has a heading.
func FuzzPlan(f *testing.F) {
	f.Add("## One\ntext\n### Priority\n1\n### Labels\na, b\n## Two\n```\n## no\n```\n")
	f.Add("## \n###\n")
	f.Add("no issue\n")
	f.Fuzz(func(t *testing.T, text string) {
		drafts, err := parsePlan(text)
		if err == nil && len(drafts) == 0 || err != nil && len(drafts) > 0 {
			t.Fatalf("%d issues and the error %v", len(drafts), err)
		}
		if headings := strings.Count("\n"+text, "\n## "); len(drafts) > headings {
			t.Fatalf("%d issues of %d headings", len(drafts), headings)
		}
	})
}

func TestTimesAreParsed(t *testing.T) {
	now := time.Date(2026, 3, 4, 15, 30, 0, 0, time.UTC) // a Wednesday
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "2026-01-31": "2026-01-31T00:00:00Z",
		"2026-01-31T15:04:05+01:00": "2026-01-31T15:04:05+01:00", "2026-01-31 15:04": "2026-01-31T15:04:00Z",
		"now": "2026-03-04T15:30:00Z", "today": "2026-03-04T00:00:00Z", "Tomorrow": "2026-03-05T00:00:00Z",
		"next monday": "2026-03-09T00:00:00Z", "next Wednesday": "2026-03-11T00:00:00Z",
		"+6h": "2026-03-04T21:30:00Z", "+1d": "2026-03-05T15:30:00Z", "+2w": "2026-03-18T15:30:00Z",
		"-1m": "2026-02-04T15:30:00Z",
	} {
		if at, err := parseTimeAt(text, now); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v, want %s", text, at.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"soon", "+d", "+1y", "1d", "next", "next day", "+99999999999d", "2026-13-01"} {
		if at, err := parseTimeAt(text, now); err == nil {
			t.Errorf("%q is %s", text, at)
		}
	}
}
