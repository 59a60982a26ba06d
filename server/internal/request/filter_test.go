package request

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
)

func keys() []FilterKey {
	return []FilterKey{
		{Name: "status", Values: []string{"queued", "running", "failed"}},
		{Name: "agent"}, {Name: "thread"}, {Name: "key"}, {Name: "metadata.*"},
		{Name: "error", Kind: KindText}, {Name: "created", Kind: KindTime}, {Name: "finished", Kind: KindTime},
	}
}

func run(status, agent, thread, key string) FilterRow {
	values := map[string]string{
		"status": status, "agent": agent, "thread": thread, "key": key,
		"metadata.team": "a b", "error": "429: the rate limit was met",
	}
	return FilterRow{
		Text: func(k string) string { return values[k] },
		Time: func(k string) time.Time {
			if k == "finished" {
				return time.Time{}
			}
			return time.Date(2026, 11, 1, 12, 30, 15, 250_000_000, time.UTC)
		},
	}
}

func TestMatch(t *testing.T) {
	nightly := run("failed", "codex", "nightly build", `a"b*c`)
	for _, tc := range []struct {
		q    string
		want bool
	}{
		{"", true},
		{"  ", true},
		{"status:failed", true},
		{"status:queued", false},
		{"status:failed agent:codex", true},
		{"status:failed agent:claude", false},
		{"status:failed status:queued", false},
		{"-status:failed", false},
		{"-status:queued", true},
		{"-status:queued -agent:claude", true},
		{"agent:CODEX", false},
		{"agent:c*", true},
		{"agent:*x", true},
		{"agent:c*d*x", true},
		{"agent:c*x*d", false},
		{"agent:co*ox", false},
		{"agent:*", true},
		{"agent:**", true},
		{"-agent:c*", false},
		{"status:f*", true},
		{`thread:"nightly build"`, true},
		{`thread:nightly" "build`, true},
		{`thread:"nightly *"`, true},
		{`thread:"nightly \*"`, false},
		{"thread:nightly", false},
		{`key:"a\"b\*c"`, true},
		{`key:""`, false},
		{`-key:""`, true},
		{"\tstatus:failed\n agent:codex ", true},
		{`metadata.team:"a b"`, true},
		{"metadata.team:a", false},
		{"metadata.none:a", false},
		{`metadata.none:""`, true},
		{`error:"rate limit"`, true},
		{"error:429", true},
		{"error:430", false},
		{"-error:430", true},
		{"error:429*", true},
		{"error:rate*", false},
		{"error:*rate*met", true},
		{`error:""`, false},
		{"status:queued,failed", true},
		{"status:queued,running", false},
		{"-status:queued,failed", false},
		{"agent:claude,co*", true},
		{`thread:x,"nightly build"`, true},
		{`thread:"x,nightly build"`, false},
		{`error:430,"rate limit"`, true},
		{`key:x,""`, false},
	} {
		f, err := ParseFilter(tc.q, keys())
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.q, err)
			continue
		}
		if got := f.Match(nightly); got != tc.want {
			t.Errorf("%q matches: got %v, want %v", tc.q, got, tc.want)
		}
	}
}

func TestTimesAreDaysInstantsAndRanges(t *testing.T) {
	for _, tc := range []struct {
		q    string // matched against 2026-11-01T12:30:15.25Z
		want bool
	}{
		{"created:2026-11-01", true},
		{"created:2026-11-02", false},
		{"created:2026-10-31", false},
		{"created:>2026-10-31", true},
		{"created:>2026-11-01", false},
		{"created:>=2026-11-01", true},
		{"created:>=2026-11-02", false},
		{"created:<2026-11-02", true},
		{"created:<2026-11-01", false},
		{"created:<=2026-11-01", true},
		{"created:<=2026-10-31", false},
		{"created:2026-10-31..2026-11-01", true},
		{"created:2026-11-01..2026-11-01", true},
		{"created:2026-10-30..2026-10-31", false},
		{"created:2026-11-01T12:30:15Z", true},
		{"created:2026-11-01T13:30:15+01:00", true},
		{"created:2026-11-01T12:30:15.25Z", true},
		{"created:2026-11-01T12:30:15.24Z", false},
		{"created:>2026-11-01T12:30:15Z", false},
		{"created:>2026-11-01T12:30:15.2499Z", true},
		{"created:<=2026-11-01T12:30:15.250000Z", true},
		{"created:<2026-11-01T12:30:15.250000Z", false},
		{`created:">2026-10-31"`, true},
		{"-created:>2026-10-31", false},
		{"created:<0001-01-01", false},
		{"created:<=0000-12-31", false},
		{"created:*", true},
		{`created:""`, false},
		{"finished:*", false},
		{`finished:""`, true},
		{"finished:<2030-01-01", false},
		{"-finished:<2030-01-01", true},
		{"created:>2026-10-31 created:<2026-11-02", true},
	} {
		f, err := ParseFilter(tc.q, keys())
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.q, err)
			continue
		}
		if got := f.Match(run("", "", "", "")); got != tc.want {
			t.Errorf("%q matches: got %v, want %v", tc.q, got, tc.want)
		}
	}
}

func TestInvalidFiltersNameTheTerm(t *testing.T) {
	for _, tc := range []struct{ q, named string }{
		{"colour:red", `"colour"`},
		{"-colour:red", `"colour"`},
		{"status:failed Status:failed", `"Status"`},
		{"failed", "key:value"},
		{":failed", "key:value"},
		{"-", "key:value"},
		{"--status:failed", `"-status"`},
		{`"status":failed`, "key:value"},
		{"status:", "no value"},
		{"status: failed", "no value"},
		{"status:failed,", "no value"},
		{"status:,failed", "no value"},
		{"status:failed,broken", `"broken"`},
		{"created:2026-11-01,2026-11-02", "needs a time"},
		{"status:broken", `"broken"`},
		{"-status:broken", `"broken"`},
		{`thread:"nightly`, "quote"},
		{`thread:"nightly\`, "quote"},
		{`thread:"nightly\"`, "quote"},
		{"thread:\xff", "UTF-8"},
		{"metadata.:a", `"metadata."`},
		{"metadata:a", `"metadata"`},
		{"statu:failed", `the filter has an unknown key "statu" (did you mean "status"?): use one of status, agent`},
		{"colour:red", `unknown key "colour": use one of`},
		{"status:faild", `the filter has no such status "faild" (did you mean "failed"?): use one of queued`},
		{"created:yesterday", "needs a time"},
		{"created:2026-13-01", "needs a time"},
		{"created:2026-11-*", "needs a time"},
		{"created:=2026-11-01", "needs a time"},
		{"created:<>2026-11-01", "needs a time"},
		{"created:2026-11-01..", "needs a time"},
		{"created:..2026-11-01", "needs a time"},
		{"created:>2026-11-01..2026-11-02", "needs a time"},
		{"thread:" + strings.Repeat("x", MaxFilter), "longer"},
	} {
		_, err := ParseFilter(tc.q, keys())
		if got := mailroom.CodeOf(err); got != mailroom.CodeInvalid {
			t.Errorf("Parse(%.40q): got code %q, want invalid", tc.q, got)
			continue
		}
		if !strings.Contains(err.Error(), tc.named) {
			t.Errorf("Parse(%.40q): %q does not name %s", tc.q, err, tc.named)
		}
	}
}

func TestSpanIsTheRangeThatAllTermsRequire(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	for _, tc := range []struct {
		q            string
		from, before time.Time
	}{
		{q: ""},
		{q: "status:failed"},
		{q: "created:2026-11-02", from: day(2), before: day(3)},
		{q: "created:>2026-11-02", from: day(3)},
		{q: "created:<2026-11-02", before: day(2)},
		{q: "created:2026-11-02..2026-11-04", from: day(2), before: day(5)},
		{q: "created:>=2026-11-02 created:<2026-11-09 created:>=2026-11-03 created:<2026-11-08", from: day(3), before: day(8)},
		{q: "created:2026-11-02 created:2026-11-05", from: day(5), before: day(3)}, // matches nothing
		{q: "-created:2026-11-02"},
		{q: "created:* finished:2026-11-02"},
		{q: `created:""`},
		{q: `created:>=2026-11-02 created:"" -created:<2026-11-05 created:*`, from: day(2)},
	} {
		f, err := ParseFilter(tc.q, keys())
		if err != nil {
			t.Fatal(err)
		}
		if from, before := f.Span("created"); !from.Equal(tc.from) || !before.Equal(tc.before) {
			t.Errorf("%q: got %v to %v, want %v to %v", tc.q, from, before, tc.from, tc.before)
		}
	}
}

func TestExactReturnsRequiredValues(t *testing.T) {
	for _, tc := range []struct {
		q, want string
		ok      bool
	}{
		{"agent:codex", "codex", true},
		{"status:failed agent:codex", "codex", true},
		{"-agent:codex", "", false},
		{"agent:co*", "", false},
		{`agent:"co\*"`, "co*", true},
		{`agent:""`, "", true},
		{"status:failed", "", false},
		{"agent:c* agent:codex", "codex", true},
		{"agent:codex,claude", "", false},
		{"agent:codex,codex", "codex", true},
		{"agent:codex,claude agent:claude", "claude", true},
	} {
		f, err := ParseFilter(tc.q, keys())
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := f.Exact("agent"); got != tc.want || ok != tc.ok {
			t.Errorf("%q: got %q, %v, want %q, %v", tc.q, got, ok, tc.want, tc.ok)
		}
	}
}

func TestOneOfReturnsTheAlternativesOfOneTerm(t *testing.T) {
	for _, tc := range []struct {
		q    string
		want []string
	}{
		{"agent:codex,claude", []string{"codex", "claude"}},
		{"agent:codex,claude,codex", []string{"codex", "claude"}},
		{"agent:a,b,c agent:b,d", []string{"b", "d"}},
		{"agent:codex,cl*", nil},
		{"-agent:codex,claude", nil},
		{`agent:codex,""`, []string{"codex", ""}},
	} {
		f, err := ParseFilter(tc.q, keys())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.OneOf("agent"); !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.q, got, tc.want)
		}
	}
}

func TestRequiresReportsThatNoEmptyValueMatches(t *testing.T) {
	for q, want := range map[string]bool{
		"error:x": true, "error:x*": true, "error:x,y": true, `error:x,""`: false, "error:*": false, `error:""`: false,
		"-error:x": false, "agent:x": false,
	} {
		f, err := ParseFilter(q, keys())
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Requires("error"); got != want {
			t.Errorf("%q: got %v, want %v", q, got, want)
		}
	}
}
