package turn_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream/turn"
)

// kindRow is a log, and the lines of its turn.
type kindRow struct {
	name string
	h    *history
	want []string
}

func checkRows(t *testing.T, rows []kindRow) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(fold(c.h), "r")); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// TestEachKindOfEntryIsItsParts folds a log for each kind of entry. No live text came.
func TestEachKindOfEntryIsItsParts(t *testing.T) { checkRows(t, kinds()) }

func kinds() []kindRow {
	h := queuedAndStarted
	newer := func() *history { return h().log("run.frozen", `{}`).log("x.mine", `{}`) }
	odd := h().log(entry.KindToolStarted, `{"call":7,"name":["x"],"arguments":{}}`).
		log(entry.KindToolDone, `{"call":{},"ok":"yes","summary":3}`).log(entry.KindMessage, `[]`).
		log(entry.KindTicketOpened, `3`).log(entry.KindStep, `null`)
	all := mailroom.Message{ID: "m1", Parts: []mailroom.Part{
		{Type: "reasoning", Text: "hm"}, {Type: "text", Text: "hello"}, {Type: "data", Data: []byte(`{"a":1}`)},
		{Type: "file", Name: "f.txt", URI: "att://f"}, {Type: "newer", Text: "?"},
	}}
	remark := mailroom.Message{ID: "m1", Text: "let me see", Visibility: mailroom.VisibleInternal}
	approval := mailroom.Ticket{ID: "k", Kind: mailroom.TicketApproval, Name: "rm", Prompt: "delete?",
		Arguments: []byte(`{"f":1}`), Digest: "d1"}
	deny := entry.TicketDecision{Ticket: "k", Decision: mailroom.VerdictDeny, DecidedBy: "ann"}
	usage := mailroom.Usage{InputTokens: 7}
	return []kindRow{
		{"queued", (&history{}).of("r", 0, entry.KindQueued, entry.RunQueued{Agent: "a"}), []string{"r queued 0"}},
		{"text", h().say(mailroom.Message{ID: "m1", Text: "hello"}), []string{"r running 1", `text done "hello"`}},
		{"all parts of a message", h().say(all),
			[]string{"r running 1", `reasoning done "hm"`, `text done "hello"`, `data done {"a":1}`, "file done f.txt att://f"}},
		{"a remark", h().say(remark), []string{"r running 1", `text done "let me see" internal`}},
		{"a message of a person", h().log(entry.KindMessage, mailroom.Message{Role: mailroom.RoleUser}), []string{"r running 1"}},
		{"a step", h().log(entry.KindStep, entry.StepNamed{Name: "plan", Usage: usage}),
			[]string{"r running 1", "step done plan usage 7"}},
		{"a running tool", h().log(entry.KindToolStarted, `{"call":"c","name":"ls","arguments":{"p":"/"}}`),
			[]string{"r running 1", `tool open ls in {"p":"/"}`}},
		{"a tool", h().tool().log(entry.KindToolDone, `{"call":"c","ok":true,"summary":"2 files","output":["a","b"]}`),
			[]string{"r running 1", `tool done ls "2 files" out ["a","b"]`}},
		{"a tool that failed", h().tool().log(entry.KindToolDone, `{"call":"c","ok":false,"summary":"no"}`),
			[]string{"r running 1", `tool failed ls "no"`}},
		{"a tool that ends in the next attempt", h().tool().log(entry.KindRescheduled, entry.RunRescheduled{Reason: "released"}).
			of("r", 2, entry.KindStarted, nil).of("r", 2, entry.KindToolDone, `{"call":"c","ok":true}`),
			[]string{"r running 2", "tool done ls"}},
		{"a tool that never ends", h().tool().log(entry.KindCompleted, nil), []string{"r completed 1", "tool void ls"}},
		{"a call that begins again", h().tool().tool().log(entry.KindToolDone, `{"call":"c","ok":true}`),
			[]string{"r running 1", "tool void ls", "tool done ls"}},
		{"a call without its start", h().log(entry.KindToolDone, `{"call":"c","ok":true,"summary":"x"}`),
			[]string{"r running 1", `tool done "x"`}},
		{"a question", h().log(entry.KindTicketOpened, approval).log(entry.KindWaiting, entry.RunWaiting{}),
			[]string{"r waiting 1", `question open rm "delete?" approval {"f":1} digest d1`}},
		{"a decision", h().ask().log(entry.KindWaiting, nil).log(entry.KindTicketDecided, deny).of("r", 2, entry.KindResumed, nil),
			[]string{"r running 2", "question done q input deny by ann"}},
		{"a question that expired", h().ask().log(entry.KindTicketExpired, entry.TicketRef{Ticket: "k"}),
			[]string{"r running 1", "question expired q input"}},
		{"a question of a run that ended", h().ask().log(entry.KindCancelled, entry.RunStop{Reason: "cancelled"}),
			[]string{"r cancelled 1", "question void q input"}},
		{"a message to another thread", h().log(entry.KindSend, entry.Sent{Thread: "t2", Run: "r2"}),
			[]string{"r running 1", "child done in t2"}},
		{"a child", h().child(), []string{"r running 1", "child open in t2"}},
		{"a child that ended", h().child().childEnded("run:r2", "completed"),
			[]string{"r running 1", `child done in t2 completed "42"`}},
		{"a child that failed", h().child().childEnded("run:r2", "failed"),
			[]string{"r running 1", `child failed in t2 failed "42"`}},
		{"kinds of a newer server", newer(), []string{"r running 1"}},
		{"bodies that cannot be read", odd, []string{"r running 1", "tool failed in {}", "step done"}},
	}
}

// TestEachEndOfAnAttemptIsShown folds logs whose attempt ends.
func TestEachEndOfAnAttemptIsShown(t *testing.T) { checkRows(t, ends()) }

func ends() []kindRow {
	h := queuedAndStarted
	partial := func() *history { return h().say(mailroom.Message{ID: "m1", Text: "he", Partial: true}) }
	lost := entry.RunRescheduled{Reason: "lease_lost"}
	retry := entry.RunRescheduled{Reason: "retry", Error: &mailroom.RunError{Class: "transient", Message: "no luck"}}
	bad := entry.RunFailed{Error: mailroom.RunError{Class: "permanent", Message: "bad"}}
	return []kindRow{
		{"a retry", partial().log(entry.KindRescheduled, retry),
			[]string{"r retrying 1", `text done "he" partial superseded`, `error done transient "no luck" retry again true`}},
		{"a lost worker", h().log(entry.KindRescheduled, lost), []string{"r retrying 1", "error done lease_lost again true"}},
		{"a release", partial().log(entry.KindRescheduled, entry.RunRescheduled{Reason: "released"}),
			[]string{"r queued 1", `text done "he" partial superseded`}},
		{"a reply before a lost attempt", h().say(mailroom.Message{ID: "m1", Text: "done"}).log(entry.KindRescheduled, lost),
			[]string{"r retrying 1", `text done "done"`, "error done lease_lost again true"}},
		{"a failure", h().log(entry.KindFailed, bad), []string{"r failed 1", `error done permanent "bad" again false`}},
		{"a failed run that is retried", partial().log(entry.KindFailed, bad).log(entry.KindRetried, entry.RunRetried{By: "ann"}),
			[]string{"r queued 1", `text done "he" partial superseded`, `error done permanent "bad" again false`}},
		{"text that a cancel cut off", partial().log(entry.KindStop, entry.RunStop{}).log(entry.KindCancelled, nil),
			[]string{"r cancelled 1", `text done "he" partial`}},
	}
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test's own value
	}
	return b
}

// liveRow is a log with live text, and its events after the start of the run.
type liveRow struct {
	name string
	h    *history
	want []string
}

func checkLive(t *testing.T, rows []liveRow) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			s := &turn.State{}
			apply(s, c.h.items[:3])
			if diff := cmp.Diff(c.want, shown(apply(s, c.h.items[3:]))); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// TestLiveTextIsReplacedByItsEntry shows the events of each way in which live text becomes an entry. A number is
// SEQ:PLACE; a place above 1048576 belongs to an event of the next entry, before its last one.
func TestLiveTextIsReplacedByItsEntry(t *testing.T) { checkLive(t, replaced()) }

func replaced() []liveRow {
	h := queuedAndStarted
	said := func(text string) mailroom.Message { return mailroom.Message{ID: "m1", Text: text} }
	shortened := mailroom.Message{ID: "m1", Text: "he", Partial: true}
	began, he, hello := "- part.began m1/text", `3:2 part.grew m1/text 0 "he"`, `3:5 part.grew m1/text 0 "hello"`
	return []liveRow{
		{"as it was shown", h().write("m1", 0, "he").write("m1", 2, "llo").say(said("hello")),
			[]string{began, he, `3:5 part.grew m1/text 2 "llo"`, "4:0 part.ended m1/text"}},
		{"with more text", h().write("m1", 0, "he").say(said("hello")),
			[]string{began, he, `3:1572866 part.grew m1/text 2 "llo"`, "4:0 part.ended m1/text"}},
		{"with less text", h().write("m1", 0, "hello").say(shortened),
			[]string{began, hello, "3:1572866 part.changed m1/text", "4:0 part.ended m1/text"}},
		{"without it", h().write("m1", 0, "hello").log(entry.KindRescheduled, entry.RunRescheduled{Reason: "released"}),
			[]string{began, hello, "- part.gone m1/text", "4:0 turn.changed queued"}},
		{"after a hole", h().write("m1", 2, "llo").say(said("hello")),
			[]string{"3:1048578 part.began m1/text", `3:1048579 part.grew m1/text 0 "hello"`, "4:0 part.ended m1/text"}},
		{"a repeat, and text that comes late", h().write("m1", 0, "he").write("m1", 0, "hel").write("m1", 1, "e").
			say(said("hel")).write("m1", 0, "hel").write("m1", 3, "p").log(entry.KindCompleted, nil).write("m2", 0, "x"),
			[]string{began, he, `3:3 part.grew m1/text 2 "l"`, "4:0 part.ended m1/text", "5:0 turn.ended completed"}},
		{"text of an earlier attempt", h().log(entry.KindRescheduled, entry.RunRescheduled{Reason: "released"}).
			of("r", 2, entry.KindStarted, nil).write("m1", 0, "he"),
			[]string{"4:0 turn.changed queued", "5:0 turn.changed running"}},
		{"a run that is queued in between", h().write("m1", 0, "he").of("r2", 0, entry.KindQueued, nil).write("m1", 2, "y").
			say(said("hey")),
			[]string{began, he, "4:2 turn.began queued", `4:3 part.grew m1/text 2 "y"`, "5:0 part.ended m1/text"}},
	}
}

// TestThinkingAndArgumentsAreNoCursor shows live text that the log does not have, until its entry comes, or none does.
func TestThinkingAndArgumentsAreNoCursor(t *testing.T) { checkLive(t, besides()) }

func besides() []liveRow {
	h := queuedAndStarted
	think := func(offset int, text string) entry.Delta {
		return entry.Delta{Message: "m1", Offset: offset, Channel: entry.ChannelThinking, Text: text}
	}
	args := func(offset int, text string) entry.Delta {
		return entry.Delta{Message: "m1", Offset: offset, Channel: entry.ChannelTool, Call: "c", Name: "ls", Text: text}
	}
	reasoned := mailroom.Message{ID: "m1", Parts: []mailroom.Part{
		{Type: "reasoning", Text: "hm"}, {Type: "text", Text: "hello"},
	}}
	began, hm, call := "- part.began m1/reasoning", `- part.grew m1/reasoning 0 "hm"`, "- part.began tool:c"
	return []liveRow{
		{"thinking that is kept", h().live(think(0, "h")).live(think(1, "m")).say(reasoned),
			[]string{began, `- part.grew m1/reasoning 0 "h"`, `- part.grew m1/reasoning 1 "m"`,
				"3:1048580 part.ended m1/reasoning", "3:1048581 part.began m1/text",
				`3:1048582 part.grew m1/text 0 "hello"`, "4:0 part.ended m1/text"}},
		{"thinking that is not kept", h().live(think(0, "hm")).say(mailroom.Message{ID: "m1", Text: "x"}),
			[]string{began, hm, "3:1048578 part.began m1/text", `3:1048579 part.grew m1/text 0 "x"`, "4:0 part.ended m1/text",
				"- part.gone m1/reasoning"}},
		{"thinking after a hole", h().live(think(5, "h")).live(think(9, "m")),
			[]string{began, `- part.grew m1/reasoning 5 "h"`, `- part.grew m1/reasoning 9 "m"`}},
		{"reasoning beside text that was shown", h().write("m1", 0, "hello").say(reasoned),
			[]string{"- part.began m1/text", `3:5 part.grew m1/text 0 "hello"`, "3:1572867 part.ended m1/text",
				"3:1572868 part.began m1/reasoning", `3:1572869 part.grew m1/reasoning 0 "hm"`, "4:0 part.ended m1/reasoning"}},
		{"arguments of a call", h().live(args(0, `{"p`)).live(args(3, `":1}`)).tool().
			log(entry.KindToolDone, `{"call":"c","ok":true}`),
			[]string{call, `- part.grew tool:c 0 "{\"p"`, `- part.grew tool:c 3 "\":1}"`,
				"4:0 part.changed tool:c", "5:0 part.ended tool:c"}},
		{"a call that was never made", h().live(args(0, `{"p`)).log(entry.KindCompleted, nil),
			[]string{call, `- part.grew tool:c 0 "{\"p"`, "- part.gone tool:c", "4:0 turn.ended completed"}},
	}
}

func TestAReaderThatBeginsInTheMiddleHasATurnWithoutABeginning(t *testing.T) {
	h := queuedAndStarted().tool().log(entry.KindTicketDecided, entry.TicketDecision{Ticket: "k"}).
		say(mailroom.Message{ID: "m1", Text: "hello"}).log(entry.KindCompleted, nil)
	s := &turn.State{}
	apply(s, h.items[4:])
	if got := s.Turn("r"); got.Begun || got.First != 5 || got.Status != turn.StatusCompleted {
		t.Errorf("the turn is %+v", got)
	}
	if diff := cmp.Diff([]string{"r completed 1", `text done "hello"`}, lines(s, "r")); diff != "" {
		t.Error(diff)
	}

	late := turn.After(turn.Number(3, 2)) // the reader has "he" of a message that is being written
	events := late.ApplyDelta(entry.Delta{Run: "r", Attempt: 1, Message: "m1", Offset: 2, Text: "llo"})
	got := shown(append(events, apply(late, h.items[5:6])...))
	want := []string{"- turn.began running", `3:5 part.grew m1/text 2 "llo"`, "6:0 part.ended m1/text"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestTurnsWhoseEndIsNoLongerKeptAreLost(t *testing.T) {
	h := queuedAndStarted().log(entry.KindToolStarted, `{"call":"c","name":"ls"}`).write("m1", 0, "he")
	s := fold(h)
	want := []string{"- part.gone m1/text", "8:1048578 part.ended tool:c", "9:0 turn.ended lost"}
	if diff := cmp.Diff(want, shown(s.ApplyGap(10))); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if got := s.ApplyGap(4); got != nil {
		t.Errorf("a gap before the last entry changes %v", got)
	}
}

func TestATurnIsBounded(t *testing.T) {
	h := queuedAndStarted().log(entry.KindToolStarted, `{"call":"open","name":"ls"}`)
	for range turn.MaxParts + 10 {
		h.log(entry.KindStep, `{"name":"s"}`)
	}
	s := fold(h)
	got := s.Turn("r")
	if len(got.Parts) != turn.MaxParts || got.Dropped != 11 || got.Parts[0].Kind != turn.KindTool {
		t.Errorf("%d parts, %d dropped, the first is %s; want the open call and the newest %d", len(got.Parts), got.Dropped,
			line(got.Parts[0]), turn.MaxParts-1)
	}

	long := strings.Repeat("x", turn.MaxPartBytes+1)
	h = queuedAndStarted()
	for range 40 {
		h.say(mailroom.Message{ID: "m1", Text: long})
	}
	s = fold(h)
	sum := 0
	for _, p := range s.Turn("r").Parts {
		if sum += len(p.Text); !p.Cut || len(p.Text) != turn.MaxPartBytes {
			t.Errorf("a text of %d bytes, marked as cut %t", len(p.Text), p.Cut)
		}
	}
	if sum > turn.MaxTurnBytes || sum < turn.MaxTurnBytes/2 {
		t.Errorf("the turn has %d bytes", sum)
	}
}

func TestTheOutputsOfManyOpenCallsAreBounded(t *testing.T) {
	h, calls := queuedAndStarted(), 100
	for i := range calls {
		h.log(entry.KindToolStarted, entry.ToolStarted{Call: strings.Repeat("c", i), Name: "ls"})
	}
	for i := range calls {
		h.log(entry.KindToolDone, entry.ToolDone{Call: strings.Repeat("c", i), OK: true, Summary: strings.Repeat("x", 1<<18)})
	}
	got, sum := fold(h).Turn("r"), 0
	for _, p := range got.Parts {
		sum += len(p.Tool.Summary)
	}
	if sum > turn.MaxTurnBytes || sum < turn.MaxTurnBytes/2 || got.Dropped+len(got.Parts) != calls {
		t.Errorf("%d bytes in %d parts, %d dropped", sum, len(got.Parts), got.Dropped)
	}
}

func TestTheTurnsOfAStateAreBounded(t *testing.T) {
	h := &history{}
	h.of("open", 1, entry.KindStarted, nil)
	for i := range turn.MaxTurns + 5 {
		h.of("r"+string(rune('a'+i%26))+strings.Repeat("x", i/26), 0, entry.KindCancelled, nil)
	}
	s := fold(h)
	if got := s.Turns(); len(got) != turn.MaxTurns || got[0].Run != "open" {
		t.Errorf("%d turns, the first is %s", len(got), got[0].Run)
	}
	s.Forget("open")
	if s.Turn("open") != nil || len(s.Turns()) != turn.MaxTurns-1 {
		t.Error("a turn that was forgotten is there")
	}
}

func TestLiveTextIsBounded(t *testing.T) {
	s := fold(queuedAndStarted())
	long := strings.Repeat("x", 1<<20-10)
	for _, d := range []entry.Delta{
		{Channel: "text", Text: long}, {Channel: "text", Offset: len(long), Text: long},
		{Channel: "thinking", Text: long}, {Channel: "tool", Call: "c", Text: long},
	} {
		d.Run, d.Attempt, d.Message = "r", 1, "m1"
		s.ApplyDelta(d)
	}
	for i := range 1000 {
		call := strings.Repeat("c", i)
		s.ApplyDelta(entry.Delta{Run: "r", Attempt: 1, Message: "m1", Channel: "tool", Call: call, Text: "x"})
	}
	sum, parts := 0, s.Live("r")
	for _, p := range parts {
		sum += len(p.Text)
	}
	if sum != 2<<20 || len(parts) > 70 {
		t.Errorf("%d live parts with %d bytes", len(parts), sum)
	}
}

func TestAnEntryIsAppliedOnce(t *testing.T) {
	h := queuedAndStarted().log(entry.KindStep, `{"name":"s"}`)
	s := fold(h)
	if again := apply(s, h.items); again != nil || len(s.Turn("r").Parts) != 1 {
		t.Errorf("a repeat changes %v", shown(again))
	}
}

func TestAnAnswerOfAPersonDoesNotSetTheStatusOfAChild(t *testing.T) {
	s := fold(queuedAndStarted().child().childEnded("ann", "failed"))
	if diff := cmp.Diff([]string{"r running 1", "child done in t2"}, lines(s, "r")); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestTheNamesOfValuesDoNotChange lists the names of values that programs in other languages compare.
func TestTheNamesOfValuesDoNotChange(t *testing.T) {
	want := []string{
		"queued running waiting retrying completed failed cancelled lost",
		"text reasoning tool question child step data file error",
		"live open done failed expired void",
		"turn.began turn.changed turn.ended part.began part.grew part.changed part.ended part.gone",
	}
	got := []string{
		words(turn.StatusQueued, turn.StatusRunning, turn.StatusWaiting, turn.StatusRetrying, turn.StatusCompleted,
			turn.StatusFailed, turn.StatusCancelled, turn.StatusLost),
		words(turn.KindText, turn.KindReasoning, turn.KindTool, turn.KindQuestion, turn.KindChild, turn.KindStep,
			turn.KindData, turn.KindFile, turn.KindError),
		words(turn.ProgressLive, turn.ProgressOpen, turn.ProgressDone, turn.ProgressFailed, turn.ProgressExpired,
			turn.ProgressVoid),
		words(turn.TurnBegan, turn.TurnChanged, turn.TurnEnded, turn.PartBegan, turn.PartGrew, turn.PartChanged,
			turn.PartEnded, turn.PartGone),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func words[T turn.Status | turn.Kind | turn.Progress | turn.Type](values ...T) string {
	var list []string
	for _, v := range values {
		list = append(list, string(v))
	}
	return strings.Join(list, " ")
}

func TestSomeTicketsAreForAPerson(t *testing.T) {
	for kind, want := range map[mailroom.TicketKind]bool{
		mailroom.TicketApproval: true, mailroom.TicketInput: true, mailroom.TicketEvent: true, mailroom.TicketTimer: false,
	} {
		if q := (&turn.Question{Kind: kind}); q.ForPerson() != want {
			t.Errorf("a ticket of kind %s is for a person: %t", kind, !want)
		}
	}
	if q := (&turn.Question{Kind: mailroom.TicketEvent, Holds: true}); q.ForPerson() {
		t.Error("an event that a program keeps is for a person")
	}
}

func TestLongTurnsAreDroppedOnceTheyHaveEnded(t *testing.T) {
	h, text := &history{}, strings.Repeat("x", turn.MaxPartBytes)
	h.of("open", 1, entry.KindStarted, nil)
	for _, run := range []string{"r1", "r2", "r3", "r4", "r5"} {
		for range 10 {
			h.of(run, 1, entry.KindMessage, mailroom.Message{ID: "m", Role: mailroom.RoleAssistant, Parts: mailroom.Text(text)})
		}
		h.of(run, 1, entry.KindCompleted, nil)
	}
	var kept []string
	sum := 0
	for _, t := range fold(h).Turns() {
		kept = append(kept, t.Run)
		for _, p := range t.Parts {
			sum += len(p.Text)
		}
	}
	if sum > turn.MaxBytes {
		t.Errorf("the turns have %d bytes", sum)
	}
	if diff := cmp.Diff([]string{"open", "r3", "r4", "r5"}, kept); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}
