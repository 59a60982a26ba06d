package thread

import (
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPattern(t *testing.T) {
	for message, want := range map[string]string{
		"":               "",
		" \t\n":          "",
		"out of memory":  "out of memory",
		"a\n\tb  c\x01d": "a b c d",

		// Numbers and units.
		"exit status 137":                      "exit status #",
		"took 12ms":                            "took <duration>",
		"took 123456789ms":                     "took <duration>",
		"took 1234567890ms":                    "took <duration>",
		"1,234.5 of 10:45, 3":                  "# of #, #",
		"2026-11-26":                           "<time>",
		"invalid utf8":                         "invalid utf#",
		"can't connect to 10.0.0.7:5432":       "can't connect to #",
		"2 worker(s) lost, see [1]":            "# worker(s) lost, see [#]",
		"its worker was lost 3 times in a row": "its worker was lost # times in a row",
		"limit 1.5. Try again":                 "limit #. Try again",

		// Ids.
		"no run 0198f0c2-7c1e-7bd0-a1f0-5f8f2f3c9d10":             "no run #",
		"panic at 0xc000123abc":                                   "panic at #",
		"commit 3f2a9c1d":                                         "commit #",
		"commit deadbeef":                                         "commit deadbeef",
		"commit 12345678":                                         "commit #",
		"request req_011CSHoEeqs5C35K2 failed":                    "request req_# failed",
		"request req_004f83 failed":                               "request req_# failed",
		"completion chatcmpl-9XyzAbCdEf":                          "completion chatcmpl-#",
		"late by -123456ms":                                       "late by -<duration>",
		"gpt-4o on x86_64 in utf-8":                               "gpt-#o on x#_# in utf-#",
		"model sonnet-20240620":                                   "model sonnet-#",
		"rate limit for org-Ab3dE5fG7hI9kL1m: try again in 12.5s": "rate limit for org-#: try again in <duration>",
		"internationalization":                                    "internationalization",

		// Quotes.
		`unknown model "gpt-9"`:              `unknown model "*"`,
		"unknown model `gpt-9`":              "unknown model `*`",
		"unknown model “gpt-9”":              "unknown model “*”",
		"unknown model 'gpt-9'.":             "unknown model '*'.",
		"can't and won't":                    "can't and won't",
		"name 'it's' is taken":               "name '*' is taken",
		`an open " and 5`:                    `an open " and #`,
		"an open \" before\nthe end\" of it": `an open " before the end" of it`,
		`""`:                                 `"*"`,

		// Addresses and paths.
		"open /home/u/x.json: no such file":              "open <path>: no such file",
		"open ./x.json, ../y/z and ~/w":                  "open <path>, <path> and <path>",
		`open C:\Users\u\x.json failed`:                  "open <path> failed",
		"/srv/app/main.go:12:5: undefined":               "<path>: undefined",
		"path=/etc/passwd":                               "path=<path>",
		"read/write of 1/2 and / at 7":                   "read/write of #/# and / at #",
		`Get "https://api.example.com/v1?k=1": EOF`:      `Get "*": EOF`,
		"get https://api.example.com/v1?k=1: 503 (busy)": "get <url>: # (busy)",
		"dial postgres://u:p@10.0.0.1/db.":               "dial <url>.",
	} {
		if got := ErrorPattern(message); got != want {
			t.Errorf("Pattern(%q): got %q, want %q", message, got, want)
		}
	}
}

func TestErrorsOfOneCauseHaveOneGroup(t *testing.T) {
	same := []string{
		`run 17 of "ann": rate limit, try again in 1.5s`, `run 4 of "bob smith": rate limit, try again in 20s`,
		"run 5 of \"\": rate limit,  try again in 7s\n",
	}
	for _, message := range same {
		if got := ErrorGroup(message); got != ErrorGroup(same[0]) {
			t.Errorf("got group %s of %q, want that of %q", got, message, same[0])
		}
	}
	if ErrorGroup(same[0]) == ErrorGroup("run 17 was lost") {
		t.Error("two different errors have one group")
	}
	if got, want := ErrorGroup("exit status 1"), "a327b4dcaf6ed4e1"; got != want {
		t.Errorf("got group %s, want %s: groups are stored, so they must not change", got, want)
	}
}

// The blocks of testdata/errors.txt are errors of providers: the lines of a block are one group, and no two blocks are.
func TestErrorsOfProvidersAreGroupedByTheirCause(t *testing.T) {
	file, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	seen := map[string]string{}
	for block := range strings.SplitSeq(string(file), "\n\n") {
		title, lines, _ := strings.Cut(strings.TrimSpace(block), "\n")
		if strings.HasPrefix(lines, "#") {
			continue // the head of the file
		}
		blocks++
		first, apart := "", title == "# Words that are no ids"
		for line := range strings.SplitSeq(lines, "\n") {
			got := ErrorPattern(line)
			switch other := seen[got]; {
			case first != "" && !apart && got != first:
				t.Errorf("%s: one cause, but\n%s\n%s", title, first, got)
			case other != "" && (first == "" || apart):
				t.Errorf("%s: the pattern of %s: %s", title, other, got)
			}
			first, seen[got] = got, title
		}
	}
	if blocks < 40 {
		t.Errorf("read %d blocks", blocks)
	}
}

func TestThePatternOfALongMessageIsItsBeginning(t *testing.T) {
	long := "failed: " + strings.Repeat("ä", 1<<20)
	got := ErrorPattern(long)
	if !strings.HasPrefix(long, got) || len(got) > MaxErrorPattern || len(got) < MaxErrorPattern-2 {
		t.Errorf("got %d bytes %q, want the first %d of the message", len(got), got, MaxErrorPattern)
	}
	if ErrorGroup(long) != ErrorGroup(long+" at main.go:12") {
		t.Error("the end of a long message changes its group")
	}
}

func FuzzPattern(f *testing.F) {
	for _, message := range []string{
		"", "a 'b' c", "“”", "0x", "x://", "/a:1:2", "é5'a'5", "\xff\"\xfe\"", "12345678-1234-1234-1234-123456789abc",
		"1.:,2", "٣ 0xff",
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		got := ErrorPattern(message)
		if len(got) > MaxErrorPattern || !utf8.ValidString(got) || strings.ContainsAny(got, "0123456789") ||
			strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("Pattern(%q): got %q", message, got)
		}
	})
}

func TestDescribeKeepsShortNumbers(t *testing.T) {
	for message, want := range map[string]string{
		"exit status 137":                                                  "exit status 137",
		"HTTP 429: try again in 12.5s":                                     "HTTP 429: try again in 12.5s",
		"took 123456ms":                                                    "took #ms",
		"key sk-Ab3dE5fG7hI9kL1m was refused":                              "key sk-# was refused",
		`cannot answer "what is my pin, 1234?"`:                            `cannot answer "*"`,
		"open /home/u/1/x.json: no such file":                              "open <path>: no such file",
		`429 {"type":"rate_limit_error","message":"you said: hello 1234"}`: `429 {"type":"rate_limit_error","message":"*"}`,
		"at 2026-11-29 08:42 for org-uOtiSEwvUnroadaOnJJquBEC":             "at 2026-11-29 # for org-#",
	} {
		if got := DescribeError(message); got != want {
			t.Errorf("Describe(%q): got %q, want %q", message, got, want)
		}
	}
}
