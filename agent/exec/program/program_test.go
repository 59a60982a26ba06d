package program

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
)

func TestEachProgramGetsTheArgumentsOfItsTurn(t *testing.T) {
	const claudeStart = "-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages --disallowedTools AskUserQuestion --permission-mode "
	cases := []struct {
		program string
		turn    Turn
		want    string
	}{
		{"codex", Turn{Mode: ModeRead}, "-s read-only exec --json --skip-git-repo-check -"},
		{"codex", Turn{Mode: ModeEdit, Model: "m", Args: []string{"-c", "a=b"}, Session: "id", Resume: true},
			"-s workspace-write -m m -c a=b exec resume --json --skip-git-repo-check id -"},
		{"codex", Turn{Mode: ModeAll}, "-s danger-full-access exec --json --skip-git-repo-check -"},
		{"claude", Turn{Mode: ModeAsk, Session: "id"}, claudeStart + "default --permission-prompt-tool stdio --session-id id"},
		{"claude", Turn{Mode: ModeRead, Session: "id", Resume: true}, claudeStart + "dontAsk --resume id"},
		{"claude", Turn{Mode: ModeEdit, Session: "id", Model: "m", Args: []string{"--effort", "low"}},
			claudeStart + "acceptEdits --model m --effort low --session-id id"},
		{"claude", Turn{Mode: ModeAll, Session: "id"}, claudeStart + "bypassPermissions --session-id id"},
	}
	for _, c := range cases {
		if got := strings.Join(Find(c.program).Args(c.turn), " "); got != c.want {
			t.Errorf("%s %+v: got\n%s\nwant\n%s", c.program, c.turn, got, c.want)
		}
	}
}

// TestProfilesAreComplete checks that every profile is complete and that every mode has its own
// argument.
func TestProfilesAreComplete(t *testing.T) {
	for _, p := range All() {
		if p.Name == "" || p.Program == "" || len(p.Version) == 0 || p.Prompt == nil || p.Decode == nil ||
			len(p.Modes) == 0 || Find(p.Name) == nil {
			t.Errorf("incomplete profile %+v", p)
		}
		seen := map[string]Mode{}
		for _, m := range p.Modes {
			args := strings.Join(p.Args(Turn{Mode: m, Session: "id"}), " ")
			if other, ok := seen[args]; ok {
				t.Errorf("%s has the same arguments for %s and %s: %s", p.Name, m, other, args)
			}
			seen[args] = m
		}
		if p.Has(ModeAsk) && p.Stdin == nil {
			t.Errorf("%s asks for permission but has no way to answer", p.Name)
		}
		for _, word := range append(append(append([]string{}, p.SessionGone...), p.SessionBusy...), p.StartRefused...) {
			if word != strings.ToLower(word) {
				t.Errorf("%s: %q is not in lower case", p.Name, word)
			}
		}
	}
}

func TestFoldStreamsEachPassageOnce(t *testing.T) {
	start := ToolStarted{Call: "1", Name: "tool"}
	cases := []struct {
		name   string
		events []Event
		want   string // streams in quotes, "|" for an aside
	}{
		{"pieces, then the whole", []Event{MessageStarted{"m"}, Text{"a"}, Text{"b"}, Passage{"m", "ab"}}, `ab`},
		{"pieces, and what they missed", []Event{MessageStarted{"m"}, Text{"a"}, Passage{"m", "abc"}}, `abc`},
		{"only the whole", []Event{Passage{"m", "ab"}}, `ab`},
		{"another whole than the pieces", []Event{MessageStarted{"m"}, Text{"x"}, Passage{"m", "ab"}}, `x|ab`},
		{"two passages of one message", []Event{MessageStarted{"m"}, Text{"a"}, Passage{"m", "a"}, Text{"b"}, Passage{"m", "b"}}, "a\n\nb"},
		{"two passages without pieces", []Event{Passage{"m", "a"}, Passage{"m", "b"}}, "a\n\nb"},
		{"two messages", []Event{Passage{"m", "a"}, Passage{"n", "b"}}, `a|b`},
		{"a tool between", []Event{Passage{"m", "a"}, start, Passage{"n", "b"}}, `a|b`},
		{"a tool, and more of the same message", []Event{Passage{"m", "a"}, start, Passage{"m", "b"}}, `a|b`},
		{"a tool that ends in mid-message", []Event{start, MessageStarted{"m"}, Text{"a"}, ToolFinished{Call: "1"}, Text{"b"},
			Passage{"m", "ab"}}, `ab`},
		{"a subagent's tool in mid-message", []Event{start, MessageStarted{"m"}, Text{"Final "},
			ToolStarted{Call: "2", Name: "tool", Helper: true}, ToolFinished{Call: "2"}, Text{"words."},
			Passage{"m", "Final words."}}, `Final words.`},
		{"a message that was broken off", []Event{MessageStarted{"m"}, Text{"a"}, MessageStarted{"n"}, Text{"ab"}, Passage{"n", "ab"}}, `a|ab`},
		{"two turns", []Event{Passage{"m", "a"}, End{OK: true, Text: "a"}, Passage{"m", "b"}, End{OK: true, Text: "b"}}, `a|b`},
		{"two turns in pieces", []Event{Text{"a"}, End{OK: true}, Text{"b"}, End{OK: true}}, `a|b`},
		{"only an end", []Event{End{OK: true, Text: "a"}}, `a`},
		{"an end that failed", []Event{End{Text: "a"}}, ``},
		{"nothing", []Event{MessageStarted{"m"}, Passage{"m", ""}, End{OK: true}}, ``},
		{"a NUL", []Event{MessageStarted{"m"}, Text{"a\x00"}, Text{"\x00"}, Passage{"m", "a\x00\x00b"}}, `ab`},
	}
	for _, c := range cases {
		var f Fold
		var got strings.Builder
		for _, event := range c.events {
			for _, w := range f.Apply(event) {
				if w.Step == nil {
					got.WriteString(w.Text)
				} else if w.Step.Internal {
					got.WriteString("|")
				}
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: text %q, want %q", c.name, got.String(), c.want)
		}
	}
}

func TestACallIsShownOnceAndEnds(t *testing.T) {
	f := Fold{Prefix: "3.", Redact: func(s string) string { return strings.ReplaceAll(s, "hunter22", "[KEY]") }}
	var got []string
	take := func(event Event) {
		for _, w := range f.Apply(event) {
			for _, n := range w.Step.Entries {
				got = append(got, n.Kind+" "+string(n.Body))
			}
		}
	}
	take(ToolStarted{Call: "a", Name: "sh", Arguments: []byte(`{"cmd":"echo hunter22 <x>","n":12345678901234567890}`)})
	take(ToolStarted{Call: "a", Name: "sh"})
	take(ToolFinished{Call: "a", OK: true, Summary: "hunter22\x00"})
	take(ToolFinished{Call: "a", OK: true})
	take(ToolFinished{Call: "b", Name: "search", Arguments: []byte(`not JSON`)})
	take(ToolStarted{Call: "c", Name: "sh"})
	for _, n := range f.Close("it has ended") {
		got = append(got, n.Kind+" "+string(n.Body))
	}
	want := []string{
		`tool.started {"arguments":{"cmd":"echo [KEY] <x>","n":12345678901234567890},"call":"3.a","name":"sh"}`,
		`tool.finished {"call":"3.a","ok":true,"summary":"[KEY]"}`,
		`tool.started {"arguments":null,"call":"3.b","name":"search"}`,
		`tool.finished {"call":"3.b","ok":false,"summary":""}`,
		`tool.started {"arguments":null,"call":"3.c","name":"sh"}`,
		`tool.finished {"call":"3.c","ok":false,"summary":"it has ended"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// A list shows the summary; who looks at the call sees what the model saw.
func TestOutputThatTheSummaryCutsIsKept(t *testing.T) {
	for size, want := range map[int]bool{10: false, maxShown: false, maxShown + 1: true, 10 * maxOutput: true} {
		f := Fold{Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "***") }}
		f.Apply(ToolStarted{Call: "c", Name: "read"})
		writes := f.Apply(ToolFinished{Call: "c", OK: true, Summary: strings.Repeat("secret ", size)[:size]})
		var done entry.ToolDone
		if err := json.Unmarshal(writes[0].Step.Entries[0].Body, &done); err != nil {
			t.Fatal(err)
		}
		leaks := strings.Contains(string(done.Output), "secret")
		if (done.Output != nil) != want || len(done.Output) > maxOutput+200 || leaks {
			t.Errorf("%d bytes: an output of %d bytes, %.80s", size, len(done.Output), done.Output)
		}
	}
}

func TestShownTextIsBounded(t *testing.T) {
	var f Fold
	long := "begin" + strings.Repeat("世", maxShown) + "end"
	if got := f.Sanitize(long); len(got) > maxShown+100 || !strings.HasPrefix(got, "begin") ||
		!strings.HasSuffix(got, "end") {
		t.Errorf("%d bytes are shown", len(got))
	}
	raw := []byte(`{"a":"` + strings.Repeat(`\u0001`, maxShown) + `"}`)
	if got := f.Arguments(raw, maxShown); len(got) > maxShown || !bytes.HasPrefix(got, []byte(`{"begins":"{\"a\":\"`)) {
		t.Errorf("%d bytes of arguments: %.60s", len(got), got)
	}
	n := 0
	for i := range 1000 {
		n += len(f.Apply(Warning{Text: strings.Repeat("x", i)}))
		n += len(f.Apply(Warning{Text: strings.Repeat("x", i)}))
	}
	if n != maxWarnings {
		t.Errorf("%d warnings are written, want %d, each once", n, maxWarnings)
	}
}

func TestUsageTotalsCountFromTheStartOfTheSession(t *testing.T) {
	use := func(in, out int64, cost float64) mailroom.Usage {
		return mailroom.Usage{InputTokens: in, OutputTokens: out, CostUSD: cost}
	}
	cases := []struct {
		name                string
		said                []Usage
		before, used, after mailroom.Usage
	}{
		{"of the turn", []Usage{{Usage: use(10, 2, 1)}, {Usage: use(5, 1, 2)}}, use(7, 7, 7), use(15, 3, 3), use(7, 7, 7)},
		{"totals", []Usage{{Usage: use(100, 20, 5), TotalTokens: true, TotalCost: true}}, use(60, 10, 4), use(40, 10, 1), use(100, 20, 5)},
		{"totals of the cost", []Usage{{Usage: use(10, 2, 5), TotalCost: true}}, use(0, 0, 4), use(10, 2, 1), use(0, 0, 5)},
		{"from another beginning", []Usage{{Usage: use(30, 20, 1), TotalTokens: true, TotalCost: true}}, use(60, 10, 4),
			use(30, 20, 1), use(30, 20, 1)},
		{"nothing", nil, use(1, 1, 1), use(0, 0, 0), use(1, 1, 1)},
	}
	for _, c := range cases {
		var f Fold
		for _, u := range c.said {
			f.Apply(u)
		}
		if used, after := f.UsageSince(c.before); used != c.used || after != c.after {
			t.Errorf("%s: used %+v, then %+v; want %+v, %+v", c.name, used, after, c.used, c.after)
		}
	}
}

func TestTheLastEventAndTheExitStatusDecideTheOutcome(t *testing.T) {
	p := Find("claude")
	ok, failed, aborted := &End{OK: true}, &End{Class: mailroom.ClassUnavailable, Message: "529"}, &End{Aborted: true}
	gone := &End{Message: "No conversation found with session ID: x"}
	cases := []struct {
		name  string
		e     Ending
		class mailroom.Class // "" means success, "gone" a lost session, "doubtful" one that may be lost
	}{
		{"a success", Ending{End: ok, Worked: true}, ""},
		{"a success without work", Ending{End: ok}, mailroom.ClassTransient},
		{"a success with a notice in place of the model's words", Ending{End: ok, Notice: "No response requested."}, ""},
		{"a success that is a refusal", Ending{End: ok, Notice: "Claude AI usage limit reached"}, mailroom.ClassUnavailable},
		{"a success whose result is a refusal", Ending{End: &End{OK: true, Text: "Credit balance is too low"}}, mailroom.ClassPermanent},
		{"a success that thought only", Ending{End: ok, Used: true}, ""},
		{"a refusal that counts tokens", Ending{End: ok, Notice: "Claude AI usage limit reached", Used: true}, mailroom.ClassUnavailable},
		{"a short success about refusals", Ending{End: &End{OK: true, Text: "Credit balance is too low"}, Used: true}, ""},
		{"a success about refusals", Ending{End: &End{OK: true, Text: "Credit balance is too low"}, Worked: true}, ""},
		{"a success with another exit", Ending{End: ok, Worked: true, Code: 3}, mailroom.ClassTransient},
		{"a success, then killed", Ending{End: ok, Worked: true, Code: -1, Signal: "killed"}, mailroom.ClassTransient},
		{"a success, stopped by us", Ending{End: ok, Worked: true, Code: -1, Signal: "killed", Lingered: true}, ""},
		{"an abort with exit 0", Ending{End: aborted}, mailroom.ClassTransient},
		{"a failure", Ending{End: failed, Code: 1}, mailroom.ClassUnavailable},
		{"a failure with exit 0", Ending{End: failed}, mailroom.ClassUnavailable},
		{"no end, exit 0", Ending{SawLine: true}, mailroom.ClassTransient},
		{"no end, killed", Ending{SawLine: true, Code: -1, Signal: "killed"}, mailroom.ClassTransient},
		{"resumed, silent, exit 1", Ending{Resumed: true, Code: 1}, "doubtful"},
		{"resumed, silent, killed", Ending{Resumed: true, Code: -1, Signal: "killed"}, "doubtful"},
		{"resumed, silent, exit 0", Ending{Resumed: true}, "doubtful"},
		{"resumed, at work, killed", Ending{Resumed: true, Worked: true, Code: -1, Signal: "killed"}, mailroom.ClassTransient},
		{"resumed, a busy file", Ending{Resumed: true, Code: 1,
			Stderr: "Error: EBUSY: resource busy or locked, open settings.json"}, mailroom.ClassTransient},
		{"resumed, an unknown refusal", Ending{Resumed: true, SawLine: true, Code: 1,
			End: &End{Status: 400, Message: "API Error: 400 new words"}}, "doubtful"},
		{"resumed, at work, an unknown refusal", Ending{Resumed: true, Worked: true, Code: 1,
			End: &End{Status: 400, Message: "API Error: 400 new words"}}, mailroom.ClassPermanent},
		{"new, an unknown refusal", Ending{SawLine: true, Code: 1,
			End: &End{Status: 400, Message: "API Error: 400 new words"}}, mailroom.ClassPermanent},
		{"new, silent, exit 1", Ending{Code: 1}, mailroom.ClassTransient},
		{"resumed and not there", Ending{Resumed: true, SawLine: true, Code: 1, End: gone}, "gone"},
		{"in use", Ending{Resumed: true, Code: 1, Stderr: "Error: Session ID x is already in use."}, mailroom.ClassUnavailable},
		{"as root", Ending{Code: 1, Stderr: "--dangerously-skip-permissions cannot be used with root/sudo privileges"}, mailroom.ClassPermanent},
	}
	for _, c := range cases {
		v := p.Judge(c.e)
		got := v.Class
		switch {
		case v.Gone:
			got = "gone"
		case v.Doubtful:
			got = "doubtful"
		}
		if got != c.class {
			t.Errorf("%s: %q (%s), want %q", c.name, got, v.Message, c.class)
		}
	}
}

func TestLinesSplitsOutputAtNewlines(t *testing.T) {
	cases := []struct {
		pieces  []string
		want    []string
		rest    string
		skipped int
	}{
		{[]string{"a\nb\n"}, []string{"a", "b"}, "", 0},
		{[]string{"a", "b\nc"}, []string{"ab"}, "c", 0},
		{[]string{"\n\n"}, []string{"", ""}, "", 0},
		{[]string{strings.Repeat("x", MaxLine), "\na\n"}, []string{strings.Repeat("x", MaxLine), "a"}, "", 0},
		{[]string{"a\n", strings.Repeat("x", MaxLine), "xx", "x\nb\n"}, []string{"a", "b"}, "", 1},
		{[]string{strings.Repeat("x", 2*MaxLine) + "\n" + strings.Repeat("y", 2*MaxLine)}, nil, "", 2},
	}
	for _, c := range cases {
		var l Lines
		var got []string
		for _, p := range c.pieces {
			for _, line := range l.Add([]byte(p)) {
				got = append(got, string(line))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || string(l.Rest()) != c.rest || l.Skipped != c.skipped {
			t.Errorf("%.20q…: %d lines, %d skipped", c.pieces, len(got), l.Skipped)
		}
	}
}

func TestThinkingIsDecoded(t *testing.T) {
	for _, c := range []struct {
		decode func([]byte) ([]Event, error)
		line   string
		want   []Event
	}{
		{decodeCodex, `{"type":"item.completed","item":{"id":"i","type":"reasoning","text":"**Pondering**"}}`,
			[]Event{Thinking{"**Pondering**\n\n"}}},
		{decodeCodex, `{"type":"item.started","item":{"id":"i","type":"reasoning","text":""}}`, nil},
		{decodeClaude,
			`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}}`,
			[]Event{Thinking{"hm"}}},
		{decodeClaude,
			`{"type":"stream_event","parent_tool_use_id":"t","event":{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}}`, nil},
	} {
		got, err := c.decode([]byte(c.line))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.line, got, err, c.want)
		}
	}
}
