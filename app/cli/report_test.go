package cli

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
)

// TestTheBeginOfAReportIsATimeOfTheClockOnTheWall has the days on which Berlin changes its clocks, and other zones.
func TestTheBeginOfAReportIsATimeOfTheClockOnTheWall(t *testing.T) {
	for _, c := range []struct{ zone, now, since, want string }{
		{"UTC", "2026-01-02T08:00:00Z", "22:00", "2026-01-01T22:00:00Z"},
		{"UTC", "2026-01-02T08:00:00Z", "07:59", "2026-01-02T07:59:00Z"},
		{"UTC", "2026-01-02T08:00:00Z", "12h", "2026-01-01T20:00:00Z"},
		{"UTC", "2026-01-02T08:00:00Z", "2026-01-01", "2026-01-01T00:00:00Z"},
		{"UTC", "2026-01-02T08:00:00Z", "2026-01-01T02:00:00+02:00", "2026-01-01T02:00:00+02:00"},
		{"Europe/Berlin", "2026-03-29T08:00:00+02:00", "22:00", "2026-03-28T22:00:00+01:00"},
		{"Europe/Berlin", "2026-03-29T08:00:00+02:00", "02:30", "2026-03-29T03:30:00+02:00"}, // skipped
		{"Europe/Berlin", "2026-03-29T08:00:00+02:00", "today", "2026-03-29T00:00:00+01:00"},
		{"Europe/Berlin", "2026-10-25T08:00:00+01:00", "22:00", "2026-10-24T22:00:00+02:00"},
		{"Europe/Berlin", "2026-10-26T08:00:00+01:00", "yesterday", "2026-10-25T00:00:00+02:00"},
		{"Asia/Kathmandu", "2026-01-02T01:00:00+05:45", "22:00", "2026-01-01T22:00:00+05:45"},
	} {
		place, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := reportTime("--since", c.since, now.In(place))
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s at %s: got %s, %v, want %s", c.since, c.now, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, bad := range []string{"", "x", "25:00", "-1h", "0s", "2026-13-01"} {
		if _, err := reportTime("--since", bad, time.Now()); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// TestAReportIsPrintedAsPlainText has texts that a terminal or a Markdown reader could take for more than text.
func TestAReportIsPrintedAsPlainText(t *testing.T) {
	evil := "\x1b[2J<b>@all</b> | [x](javascript:y) `c` https://evil.example \u202e\r\n# heading"
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	r := api.Report{Since: at, Until: at.Add(time.Hour),
		Agents: []api.ReportAgent{{Agent: evil, Items: []api.ReportRun{{ID: "r", Thread: evil, Text: evil}},
			Paused: &api.Pause{By: evil, At: at, Reason: evil}}},
		Questions: api.ReportQuestions{Items: []api.ReportQuestion{{Agent: evil, Text: evil, Thread: evil, State: "open"},
			{Agent: evil, Text: evil, Thread: evil, State: "decided", DecidedBy: evil, Reason: evil}}},
		Branches: []api.ReportBranch{{Branch: evil, Agent: evil, Thread: evil, Left: evil, Commits: 1},
			{Branch: evil, PullRequest: "https://git.example/pull/12", Number: 12, Commits: 2, Pushed: "origin"}},
		Schedules: []api.ReportSchedule{{Name: evil, Why: evil}},
	}
	text := reportText(&command.Console{}, &r)
	if strings.ContainsAny(text, "\x1b\r\u202e") || strings.Contains(text, "\n#") ||
		!strings.Contains(text, "pull request #12 https://git.example/pull/12\n") {
		t.Errorf("text:\n%s", text)
	}
	shown := reportMarkdown(&r)
	for _, part := range []string{"\x1b", "\u202e", "<b>", "](javascript", "https://evil", "@all", "`c`"} {
		if strings.Contains(shown, part) {
			t.Errorf("Markdown has %q:\n%s", part, shown)
		}
	}
	none := api.Report{Since: at, Until: at.Add(time.Hour), MoreThreads: 20,
		Agents: []api.ReportAgent{{Agent: "coder"}}}
	text = reportText(&command.Console{}, &none)
	if !strings.Contains(text, "branches of 20 others were not looked up") {
		t.Errorf("a report without branches:\n%s", text)
	}
	if got := plainMarkdown("- fix-roof -1 -"); got != `\- fix-roof \-1 \-` {
		t.Errorf("dashes: %s", got)
	}
	if !strings.HasPrefix(shown, "## What agents did\n\nFrom 2026-01-02 03:00 UTC to 2026-01-02 04:00 UTC: 0 done") ||
		!strings.Contains(shown, "](<https://git.example/pull/12>) of") ||
		!strings.Contains(shown, `\| \[x\]\(javascript&#58;y\)`) {
		t.Errorf("Markdown:\n%s", shown)
	}
}
