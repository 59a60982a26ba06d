package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/channel/chat"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/client"
	"mailroom/entry"
)

// telegramFixture is a server in a process of its own with a channel "tg" at Telegram, whose agent
// is a command that notes what it was told and answers in capitals. Ann may talk.
type telegramFixture struct {
	*bridgeFixture
	tg  *telegramtest.Platform
	ann *telegramtest.Person
}

// newTelegramFixture makes one at a Telegram that is down.
func newTelegramFixture(t *testing.T, more string) *telegramFixture {
	t.Helper()
	b := &telegramFixture{bridgeFixture: &bridgeFixture{fixture: newFixture(t, "")}, tg: telegramtest.NewDown(t)}
	b.ann = b.tg.Person("Ann")
	if err := os.WriteFile(b.dir.ChannelSecret("tg", "token"), []byte(telegramtest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	command, err := json.Marshal(b.command(more))
	if err != nil {
		t.Fatal(err)
	}
	b.configure(fmt.Sprintf(`[agents.shout]
kind = "exec"
command = %s
[channels.tg]
kind = "telegram"
agent = "shout"
token_file = %q
api = %q
poll = "1s"
retry_first = "100ms"
retry_most = "400ms"
previews = false
users = ["%d"]
`, command, b.dir.ChannelSecret("tg", "token"), b.tg.URL, b.ann.ID))
	return b
}

func (b *bridgeFixture) configure(settings string) {
	b.t.Helper()
	if err := os.WriteFile(b.dir.Config(), []byte(settings), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// serve starts the server until it is killed.
func (b *bridgeFixture) serve() {
	b.t.Helper()
	b.process = &process{}
	b.fixture.process(b.process)
}

// TestAPictureIsAFileThatTheAgentCanRead has it copied by the agent's command.
func TestAPictureIsAFileThatTheAgentCanRead(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, `read -r word name path; test "$word $name" = "file photo.jpg" && cat "$path" >seen;`)
	b.tg.Up(t)
	b.serve()
	b.ann.Sends(b.ann.Private(), "what is this?", telegramtest.MessageOptions{File: "photo.jpg", Photo: true, Content: []byte("a cat")})
	b.tg.WaitFor(t, "the answer", func() bool { return slices.Equal(b.ann.Private().Texts(), []string{"WHAT IS THIS?"}) })
	if seen, err := os.ReadFile(filepath.Join(string(b.dir), "seen")); string(seen) != "a cat" || err != nil {
		t.Errorf("the agent saw %q, %v", seen, err)
	}
}

// TestAServerThatIsKilledAnswersEachMessageOfTelegram kills the server where it hurts.
func TestAServerThatIsKilledAnswersEachMessageOfTelegram(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREPLIES OUT\tMARKED AS REPEATED")
	hold := make(chan struct{})
	for _, c := range []struct {
		when          string
		more          string // of the agent's command
		method        string // that fails
		fault         telegramtest.Fault
		until         func(b *telegramFixture)
		told, replies int
		repeated      int
	}{
		{
			when: "after the inbound commit, before Telegram is told", more: "test $text = last || test $MAILROOM_ATTEMPT != 1 || cat gate;",
			method: "getUpdates", fault: telegramtest.Fault{Hang: true}, told: 2, replies: 1,
			until: func(b *telegramFixture) { b.waitReplyCount(1) },
		},
		{
			when: "after the run, before the send", method: "sendMessage", fault: telegramtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1},
			until: func(b *telegramFixture) { b.waitEntries(b.out(), entry.KindRescheduled, 1) }, told: 1, replies: 1,
		},
		{
			when: "after the send, before its receipt", method: "sendMessage", fault: telegramtest.Fault{Hold: hold},
			until: func(b *telegramFixture) {
				b.tg.WaitFor(b.t, "the reply", func() bool { return len(b.ann.Private().Texts()) == 1 })
			}, told: 1, replies: 2, repeated: 1,
		},
		{
			when: "after everything", until: func(b *telegramFixture) {
				b.waitEntries(b.out(), entry.KindCompleted, 1)
				b.tg.WaitFor(b.t, "all confirmed", func() bool { return b.tg.Pending() == 0 })
			}, told: 1, replies: 1,
		},
	} {
		t.Run(c.when, func(t *testing.T) {
			b := newTelegramFixture(t, c.more)
			b.tg.Up(t)
			b.ann.Sends(b.ann.Private(), "one")
			if c.method == "getUpdates" {
				b.tg.Fail(c.method, telegramtest.Fault{}, c.fault) // the second one is to confirm
			} else if c.method != "" {
				b.tg.Fail(c.method, c.fault)
			}
			b.serve()
			c.until(b)
			b.process.kill()
			if c.method == "getUpdates" && b.tg.Pending() != 1 {
				t.Errorf("%d updates wait after the kill", b.tg.Pending())
			}
			b.serve()
			b.ann.Sends(b.ann.Private(), "last") // behind everything
			b.tg.WaitFor(t, "the last reply", func() bool {
				return slices.Contains(b.ann.Private().Texts(), "LAST") && b.tg.Pending() == 0
			})
			b.waitEntries(b.out(), entry.KindCompleted, 2)
			replies := len(b.ann.Private().Texts()) - 1
			told := len(b.agentInputs()) - 1
			repeated, runs := b.repeatedSends(), b.count("tg:700100200:"+fmt.Sprint(b.ann.ID), entry.KindQueued)-1
			if told != c.told || replies != c.replies || repeated != c.repeated || runs != 1 {
				t.Errorf("%d runs, started %d times, replies %q, %d marked", runs, told, b.ann.Private().Texts(), repeated)
			}
			fmt.Fprintf(tab, "%s\t1\t%d\t%d\t%d\t%d\n", c.when, runs, told, replies, repeated)
		})
	}
	close(hold)
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// out is the delivery thread of Ann.
func (b *telegramFixture) out() string {
	return fmt.Sprintf("out:tg:%d:%d", telegramtest.BotID, b.ann.ID)
}

// repeatedSends counts the messages that the log marks as possibly sent twice.
func (b *telegramFixture) repeatedSends() int { return b.count(b.out(), chat.KindRepeated) }

// count is how many entries of a kind a thread has.
func (b *bridgeFixture) count(thread, kind string) (n int) {
	b.t.Helper()
	page, err := b.client().Entries(b.t.Context(), thread, client.EntriesQuery{Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range page.Items {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// TestTelegramIsAddedOnceItsTokenWasTried follows a new user.
func TestTelegramIsAddedOnceItsTokenWasTried(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	add := func(stdin string, more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "telegram", "--api", tg.URL}, more...))
		return code, talk.String()
	}
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	wrong := "700100200:" + strings.Repeat("x", len(secret))
	for name, c := range map[string]struct {
		stdin string
		more  []string
		code  int
		want  string
	}{
		"a wrong token":   {"\n" + wrong + "\n", nil, exitFailed, "token rejected (401 Unauthorized): get the current token from @BotFather: nothing was written"},
		"no token":        {"\nhello\n", nil, exitFailed, "it has the form 123456789:AAE…"},
		"nothing said":    {"", nil, exitUsage, "no answer to"},
		"no such agent":   {"missing\n", nil, exitUsage, `unknown agent "missing"`},
		"no name":         {"\n" + telegramtest.Token + "\n", []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
		"a missing file":  {"\n", []string{"--token-file", "none"}, exitUsage, "no such file"},
		"nothing listens": {"\n" + telegramtest.Token + "\n", []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
		"a strange place": {"\n" + telegramtest.Token + "\n", []string{"--api", "nowhere"}, exitUsage, "api"},
	} {
		code, talk := add(c.stdin, c.more...)
		if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, secret) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	code, talk := add("\n"+telegramtest.Token+"\n", "--name", "tg")
	if code != exitDone || !strings.Contains(talk, "@"+telegramtest.Username) || strings.Contains(talk, secret) {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	info, err := os.Stat(h.dir.ChannelSecret("tg", "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token is kept as %v, %v", info, err)
	}
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"tg\"]\n") || strings.Contains(string(settings), secret) {
		t.Errorf("the settings are\n%s%v", settings, err)
	}
	if code, talk := add("", "--name", "tg"); code != exitUsage || !strings.Contains(talk, "channel tg already") {
		t.Errorf("the same again: exit code %d, %s", code, talk)
	}

	h.process(&process{})
	ann.Sends(ann.Private(), "hello")
	tg.WaitFor(t, "a code", func() bool { return len(ann.Private().Texts()) == 1 })
	code2 := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.Private().Texts()[0])
	if code2 == nil {
		t.Fatalf("a stranger is told %q", ann.Private().Texts())
	}
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", code2[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.Sends(ann.Private(), "hello again")
	tg.WaitFor(t, "the answer", func() bool { return slices.Contains(ann.Private().Texts(), "hello again") })
	if n := tg.Commands(); n == 0 {
		t.Error("the bot has no menu")
	}
}
