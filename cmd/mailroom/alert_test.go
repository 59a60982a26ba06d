package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"mailroom"
	"mailroom/alert/alerttest"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// alertFixture is a server that sends the questions of an agent to a phone.
type alertFixture struct {
	*fixture
	ntfy   *alerttest.NtfyServer
	server *process
}

// alertConfig has an agent that asks for an approval and then says what was decided, and a target that gets
// the whole question.
const alertConfig = `[server]
url = "https://mail.example.org"
[agents.tour]
pace = "0s"
[targets.phone]
%s
[rules.questions]
when = ["ticket", "failed"]
to = ["phone"]
text = "full"
`

func newAlertFixture(t *testing.T) *alertFixture {
	f := &alertFixture{ntfy: alerttest.NewNtfy(t), server: &process{}}
	f.fixture = newFixture(t,
		fmt.Sprintf(alertConfig, fmt.Sprintf("kind = \"ntfy\"\nurl = %q\ntopic = \"alerts\"\nallow = [\"127.0.0.1\"]\n",
			f.ntfy.URL)))
	f.process(f.server)
	return f
}

func (f *alertFixture) waitTaken(n int) []alerttest.Message {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), waitTimeout)
	defer cancel()
	all, err := f.ntfy.WaitTaken(ctx, n)
	f.must(err)
	return all
}

// press presses a button of a message, as a phone does, and returns the status and the answer.
func (f *alertFixture) press(b *alerttest.Action) (int, string) {
	f.t.Helper()
	resp, err := http.DefaultClient.Do(f.pressRequest(b))
	f.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	f.must(err)
	return resp.StatusCode, string(raw)
}

// pressRequest returns the request of a button. The phone reaches the server through its proxy.
func (f *alertFixture) pressRequest(b *alerttest.Action) *http.Request {
	f.t.Helper()
	to, ok := strings.CutPrefix(b.URL, "https://mail.example.org")
	if !ok || b.Action != "http" {
		f.t.Fatalf("button %+v", b)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), b.Method, f.server.url+to, strings.NewReader(b.Body))
	f.must(err)
	for name, value := range b.Headers {
		req.Header.Set(name, value)
	}
	return req
}

// ask sends a message to an agent that asks, and returns the run.
func (f *alertFixture) ask(thread string) string {
	f.t.Helper()
	out, err := f.client().Submit(f.t.Context(), api.Submit{Thread: thread, Agent: "tour", Text: "hello"})
	f.must(err)
	return out.Run
}

// ticket returns the only question of a thread.
func (f *alertFixture) ticket(thread string) api.Ticket {
	f.t.Helper()
	page, err := f.client().Tickets(f.t.Context(), client.ListQuery{Q: "kind:approval thread:" + thread})
	f.must(err)
	if len(page.Items) != 1 {
		f.t.Fatalf("%d questions in %s", len(page.Items), thread)
	}
	return page.Items[0]
}

// decisions counts the decisions that the phone made in a thread.
func (f *alertFixture) decisions(thread string) (n int) {
	f.t.Helper()
	page, err := f.client().Entries(f.t.Context(), thread, client.EntriesQuery{Limit: 500})
	f.must(err)
	for _, e := range page.Items {
		if e.Kind == entry.KindTicketDecided && strings.Contains(string(e.Body), `"decided_by":"alert:phone"`) {
			n++
		}
	}
	return n
}

func TestAButtonOnThePhoneDecides(t *testing.T) {
	f := newAlertFixture(t)
	run := f.ask("t")
	m := f.waitTaken(1)[0]
	k := f.ticket("t")
	if m.Button("Approve") == nil || m.Button("Deny") == nil || m.Button("Open") == nil || m.Priority != 4 ||
		!strings.Contains(m.Message, *k.Prompt) {
		t.Fatalf("message: %+v", m)
	}
	if status, answer := f.press(m.Button("Approve")); status != http.StatusOK ||
		!strings.Contains(answer, `"decision":"approve"`) {
		t.Fatalf("approve: %d %s", status, answer)
	}
	if k = f.ticket("t"); k.State != mailroom.TicketDecided || *k.Decision != mailroom.VerdictApprove ||
		*k.DecidedBy != "alert:phone" {
		t.Fatalf("ticket: %+v", k)
	}
	if got := f.waitRun(run); got.Status != mailroom.StatusCompleted {
		t.Fatalf("run: %+v", got)
	}
	if status, answer := f.press(m.Button("Deny")); status != http.StatusConflict || !strings.Contains(answer, "decided") {
		t.Errorf("a second decision: %d %s", status, answer)
	}
	if status, _ := f.press(m.Button("Approve")); status != http.StatusOK {
		t.Errorf("the same decision again: %d", status)
	}
}

func TestATargetIsAddedTestedAndPaused(t *testing.T) {
	h := newFixture(t, "")
	ntfy := alerttest.NewNtfy(t)
	add := func(args ...string) (int, string) {
		return h.run(t.Context(), io.Discard,
			append([]string{"notify", "add", "ntfy", "--name", "phone", "--topic", "alerts-x"}, args...)...)
	}
	if code, stderr := add("--url", ntfy.URL); code != exitUsage || !strings.Contains(stderr, "loopback") ||
		!strings.Contains(stderr, "--allow") || strings.Contains(stderr, "toml") {
		t.Errorf("an address that is refused: %d %s", code, stderr)
	}
	if code, stderr := add("--url", ntfy.URL, "--allow", "127.0.0.1", "--text", "half"); code != exitUsage ||
		!strings.Contains(stderr, "none, title or full") {
		t.Errorf("a text that is none: %d %s", code, stderr)
	}
	for given, want := range map[string]string{"1ms": "from 1s to 24h", "30m": "add --when ticket"} {
		if code, stderr := add("--url", ntfy.URL, "--allow", "127.0.0.1", "--when", "failed", "--remind-after",
			given); code != exitUsage || !strings.Contains(stderr, "--remind-after: ") || !strings.Contains(stderr, want) {
			t.Errorf("reminders after %s: %d %s", given, code, stderr)
		}
	}
	ntfy.Fail(alerttest.Refuse)
	if code, stderr := add("--url", ntfy.URL, "--allow", "127.0.0.1"); code != exitFailed ||
		!strings.Contains(stderr, "503") || !strings.Contains(stderr, "nothing was written") {
		t.Errorf("a server that refuses: %d %s", code, stderr)
	}
	ntfy.Fail(alerttest.None)
	if code, stderr := add("--url", ntfy.URL, "--allow", "127.0.0.1", "--remind-after", "30m"); code != exitDone ||
		!strings.Contains(stderr, "took a test message") || !strings.Contains(stderr, "what leaves the machine") {
		t.Fatalf("add: %d %s", code, stderr)
	}
	if raw, err := os.ReadFile(h.dir.Config()); err != nil || !strings.Contains(string(raw), `text = "full"`) ||
		!strings.Contains(string(raw), `remind_after = "30m"`) {
		t.Errorf("the rule does not show enough to approve, or does not remind: %s, %v", raw, err)
	}
	if code, stderr := add("--url", ntfy.URL, "--allow", "127.0.0.1"); code != exitUsage ||
		!strings.Contains(stderr, "target phone already exists") {
		t.Errorf("add again: %d %s", code, stderr)
	}
	h.process(&process{})
	var out bytes.Buffer
	command := func(args ...string) (int, string) {
		out.Reset()
		code, stderr := h.run(t.Context(), &out, append([]string{"notify"}, args...)...)
		return code, out.String() + stderr
	}
	if code, text := command(); code != exitDone || !strings.Contains(text, "phone") ||
		!strings.Contains(text, "ticket, failed, channel") || !strings.Contains(text, " 30m ") {
		t.Errorf("notify: %d %s", code, text)
	}
	if code, text := command("test", "phone"); code != exitDone || !strings.Contains(text, "took the message") {
		t.Errorf("test: %d %s", code, text)
	}
	if code, text := command("test", "fone"); code != exitFailed || !strings.Contains(text, `no target "fone"`) {
		t.Errorf("test of no target: %d %s", code, text)
	}
	if code, text := command("pause", "phone", "--reason", "holidays"); code != exitDone {
		t.Errorf("pause: %d %s", code, text)
	}
	if _, err := h.client().Accounts().TestAlert(t.Context(), "phone"); err != nil {
		t.Error(err)
	}
	if code, text := command(); code != exitDone || !strings.Contains(text, "paused") {
		t.Errorf("notify: %d %s", code, text)
	}
	if n := len(ntfy.Taken()); n != 2 {
		t.Errorf("%d messages while paused, want 2", n)
	}
	if code, text := command("resume", "phone"); code != exitDone {
		t.Errorf("resume: %d %s", code, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if _, err := ntfy.WaitTaken(ctx, 3); err != nil {
		t.Error(err)
	}
}

// TestAThreadDeliversToATarget sends with --notify. The reply and the question of the thread go to the phone,
// and the rule does not send them again.
func TestAThreadDeliversToATarget(t *testing.T) {
	f := newAlertFixture(t)
	code, stderr := f.run(t.Context(), io.Discard, "send", "--thread", "t", "--agent", "tour", "--notify", "phone",
		"--detach", "hello")
	if code != exitDone {
		t.Fatalf("send: %d %s", code, stderr)
	}
	asked, n := alerttest.Message{}, 0
	for asked.Button("Deny") == nil { // the agent says something first
		n++
		asked = f.waitTaken(n)[n-1]
	}
	if status, answer := f.press(asked.Button("Deny")); status != http.StatusOK {
		t.Fatalf("deny: %d %s", status, answer)
	}
	f.waitTaken(n + 1)
	f.waitEntries("t", entry.KindCompleted, 1)
	questions := 0
	for _, m := range f.ntfy.Taken() {
		if m.Button("Deny") != nil {
			questions++
		} else if m.Title != "tour answered" {
			t.Errorf("message: %+v", m)
		}
	}
	if questions != 1 {
		t.Errorf("the question was sent %d times", questions)
	}
	if code, stderr := f.run(t.Context(), io.Discard, "send", "--notify", "fone", "hello"); code != exitUsage ||
		!strings.Contains(stderr, "not a target") {
		t.Errorf("unknown target: %d %s", code, stderr)
	}
}
