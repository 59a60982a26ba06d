package feed

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
	"mailroom/issues/tracker"
)

func TestLongTextsAreTruncatedWithANote(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	run := &mailroom.Run{ID: "r", Thread: "issue:x-a", Agent: "codex", Status: mailroom.StatusFailed, Reply: &long,
		Error: &mailroom.RunError{Message: long}}
	it := &tracker.Issue{ID: "x-a", Title: "t", Description: long}
	w := &Watcher{options: Options{Command: "mailroom"}}
	ask := channel.Delivery{Run: run, Ticket: &mailroom.Ticket{ID: "t", Kind: mailroom.TicketApproval, Prompt: "May I?",
		Action: "write", Arguments: []byte(`"` + long + `"`)}}
	for name, c := range map[string]struct {
		text string
		most int
		end  string
	}{
		"an issue": {issueText(tracker.New(), it), maxMessage, "… (truncated; see bd show x-a)\n"},
		"a reply":  {replyText(run), maxComment, "… (truncated; full text in thread issue:x-a)"},
		"a reason": {closeReason(run), maxReason, "é…"},
		"an error": {w.failureText(it, run), maxComment,
			"…\n\nTo resume: mailroom run retry r\nTo start over, after adding details if needed: bd update x-a --status open"},
		"a question": {QuestionText(w.options.Command, ask), maxShown + 200,
			"… (truncated)\n\nTo allow it: mailroom approve t\nTo refuse it: mailroom deny t"},
	} {
		if len(c.text) > c.most || !strings.HasSuffix(c.text, c.end) || !utf8.ValidString(c.text) {
			t.Errorf("%s has %d bytes and ends with %q", name, len(c.text), c.text[len(c.text)-100:])
		}
	}
}

func TestAQuestionNamesItsAgentOnce(t *testing.T) {
	for prompt, want := range map[string]string{
		"Which colour?":                "codex asks: Which colour?",
		"codex asks to use Bash: look": "codex asks to use Bash: look",
	} {
		d := channel.Delivery{Run: &mailroom.Run{Agent: "codex"}, Ticket: &mailroom.Ticket{ID: "t",
			Kind: mailroom.TicketApproval, Prompt: prompt, Action: "Bash", Arguments: []byte(`{"cmd":"ls \u003elist"}`)}}
		if got := QuestionText("mailroom", d); !strings.HasPrefix(got, want+"\nBash {\"cmd\":\"ls >list\"}\n") {
			t.Errorf("got %q", got)
		}
	}
}

func TestTheTimeOfAWriteIsNotBeforeTheLastChangeOfTheIssue(t *testing.T) {
	later := time.Now().Add(time.Hour)
	if got := writeTime(later); !got.Equal(later) {
		t.Errorf("got %v, want %v", got, later)
	}
}

func TestTheSubmitKeyIsBounded(t *testing.T) {
	it := &tracker.Issue{ID: strings.Repeat("x", 300)}
	long := submitKey(it)
	it.ID += "y"
	if len(long) > mailroom.MaxSubmitKey || submitKey(it) == long {
		t.Errorf("the key is %s", long)
	}
}
