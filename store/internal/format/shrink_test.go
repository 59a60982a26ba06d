package format

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
)

const (
	oneRun  = "01a215a7-3ad3-7e09-a460-53edc19b3667"
	oneTime = "2026-11-26T02:20:10.857232Z"
)

// reply are the lines of a reply and the end of its run, as the ledger writes them.
func reply(thread, text string) string {
	return fmt.Sprintf(
		`{"thread":%[1]q,"seq":24,"kind":"message","run":%[2]q,"attempt":1,"at":%[3]q,"body":{"id":"%[5]s.1-1","thread":%[1]q,"seq":24,"role":"assistant","sender":"echo","text":%[4]q,"parts":[{"type":"text","text":%[4]q}],"visibility":"all","run":%[2]q,"state":"done","partial":false,"created_at":%[3]q}}
{"thread":%[1]q,"seq":25,"kind":"run.completed","run":%[2]q,"attempt":1,"at":%[3]q,"body":{"reply":%[4]q,"steps":0,"usage":{"input_tokens":0,"output_tokens":0,"cost_usd":0}}}`, thread, oneRun, oneTime, text, oneRun)
}

func TestAShrunkRowHasTheSameLines(t *testing.T) {
	s := NewShrinker()
	for name, c := range map[string]struct{ lines, thread, run string }{
		"a reply":                   {reply("t19550", "hello"), "t19550", oneRun},
		"no run":                    {`{"thread":"t1","seq":1,"kind":"thread.created","at":"` + oneTime + `"}`, "t1", ""},
		"a short id":                {reply("a", "aaaa"), "a", oneRun},
		"an id that is a phrase":    {reply(`,"seq":`, "hello"), `,"seq":`, oneRun},
		"an id in the run":          {reply("01a215a7", "hello"), "01a215a7", oneRun},
		"text with the id and time": {reply("thread", "thread "+oneTime+" thread "+oneRun), "thread", oneRun},
		"other JSON":                {`{"x":[1,2]}` + "\n{}", "t", "r"},
		"no time":                   {`{"thread":"t19550","at":"`, "t19550", ""},
		"a control character":       {"{\"x\":\"\x01\x0b\"}", "t", "r"},
		"a tab":                     {"{\t}", "t", "r"},
		"a long text":               {reply("t19550", strings.Repeat("word ", maxShrunk)), "t19550", oneRun},
	} {
		row := s.Append(nil, []byte(c.lines), c.thread, c.run)
		got, err := clearLines(row)
		if err != nil || string(got) != c.lines {
			t.Errorf("%s: got %.300q, %v, want %.300q", name, got, err, c.lines)
		}
		if len(row) > len(c.lines)+len(c.thread)+len(c.run)+len(oneTime)+4 {
			t.Errorf("%s: %d bytes became %d", name, len(c.lines), len(row))
		}
	}
}

func TestTheRowOfAReplyIsShort(t *testing.T) {
	lines := reply("t19550", "hello")
	if row := NewShrinker().Append(nil, []byte(lines), "t19550", oneRun); len(row) > len(lines)/2 {
		t.Errorf("%d bytes became %d, want at most half", len(lines), len(row))
	}
}

func TestADamagedRowIsRefused(t *testing.T) {
	row := NewShrinker().Append(nil, []byte(reply("t19550", "hello")), "t19550", oneRun)
	for n := range 45 { // inside the header
		if _, err := clearLines(row[:n]); n > 0 && mailroom.CodeOf(err) != mailroom.CodeInternal {
			t.Errorf("the first %d bytes: got %v, want an error of code internal", n, err)
		}
	}
	for _, damaged := range []string{"\x01\x00\x00\x00{\x04}", "\x01\x00\x00\x00{\x01}",
		"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, err := clearLines([]byte(damaged)); mailroom.CodeOf(err) != mailroom.CodeInternal {
			t.Errorf("%q: got %v, want an error of code internal", damaged, err)
		}
	}
}

// The stored form of the phrases must not change.
func TestTheStoredFormDoesNotChange(t *testing.T) {
	const row = "\x01\x04t123\x00\x1b2026-11-26T02:20:10.857232Z\x1c\x01\",\x1e7,\"kind\":\"note\"\x1d\x03\"\x1b}}"
	const want = `{"thread":"t123",,"seq":7,"kind":"note","at":"2026-11-26T02:20:10.857232Z","body":{"}}`
	got, err := clearLines([]byte(row))
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func FuzzShrink(f *testing.F) {
	f.Add(reply("t19550", "hello"), "t19550", oneRun)
	f.Add("{}", "", "")
	f.Add(`{"at":"`+oneTime+`"}`, `"`, `{`)
	s := NewShrinker()
	f.Fuzz(func(t *testing.T, lines, thread, run string) {
		if strings.HasPrefix(lines, "\x01") {
			t.Skip("lines begin with {")
		}
		row := s.Append(nil, []byte(lines), thread, run)
		if got, err := clearLines(row); err != nil || string(got) != lines {
			t.Errorf("got %q, %v, want %q", got, err, lines)
		}
	})
}

func BenchmarkShrink(b *testing.B) {
	lines, s := []byte(reply("t19550", "hello")), NewShrinker()
	var row []byte
	b.ReportAllocs()
	for b.Loop() {
		row = s.Append(row[:0], lines, "t19550", oneRun)
	}
}

func BenchmarkClearLines(b *testing.B) {
	row := NewShrinker().Append(nil, []byte(reply("t19550", "hello")), "t19550", oneRun)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := clearLines(row); err != nil {
			b.Fatal(err)
		}
	}
}

// Entries of one row survive a round trip.
func TestShrunkEntriesAreSplit(t *testing.T) {
	var list []mailroom.Entry
	for seq := int64(1); seq <= 3; seq++ {
		e, err := entry.New("thread", seq, entry.KindStep, oneRun, 1, time.Unix(1, 0), entry.StepNamed{})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	lines, err := AppendEntries(nil, list)
	if err != nil {
		t.Fatal(err)
	}
	want := string(lines)
	row := NewShrinker().Append(nil, lines, "thread", oneRun)
	cut, err := CutEntries(row, 1, 3)
	if err != nil || string(cut) != string(list[2].Raw) {
		t.Errorf("got %q, %v, want the last entry", cut, err)
	}
	got, err := clearLines(row)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
