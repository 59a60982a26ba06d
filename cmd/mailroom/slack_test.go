package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
	"mailroom/client"
	"mailroom/entry"
)

// slackFixture is a server in a process of its own with a channel "sl" at Slack, whose
// agent is a command that notes what it was told and answers in capitals. Ann may talk.
type slackFixture struct {
	*bridgeFixture
	sl  *slacktest.Platform
	ann *slacktest.Person
}

// newSlackFixture makes one. more is of the agent's command.
func newSlackFixture(t *testing.T, more string) *slackFixture {
	t.Helper()
	b := &slackFixture{bridgeFixture: &bridgeFixture{fixture: newFixture(t, "")}, sl: slacktest.New(t)}
	b.ann = b.sl.Person("Ann")
	for file, token := range map[string]string{b.dir.ChannelSecret("sl", "token"): slacktest.Token, b.dir.ChannelSecret("sl", "app-token"): slacktest.AppToken} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command, err := json.Marshal(b.command(more))
	if err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`[agents.shout]
kind = "exec"
command = %s
[channels.sl]
kind = "slack"
agent = "shout"
token_file = %q
app_token_file = %q
api = %q
retry_first = "100ms"
retry_most = "400ms"
previews = false
users = [%q]
`, command, b.dir.ChannelSecret("sl", "token"), b.dir.ChannelSecret("sl", "app-token"), b.sl.URL, b.ann.ID)
	if err := os.WriteFile(b.dir.Config(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// serve starts the server until it is killed.
func (b *slackFixture) serve() {
	b.t.Helper()
	b.process = &process{}
	b.fixture.process(b.process)
}

// thread is the conversation of Ann.
func (b *slackFixture) thread() string {
	return "sl:" + slacktest.TeamID + "." + slacktest.BotID + ":" + b.ann.Private().ID
}

// count is how many entries of a kind a thread has.
func (b *slackFixture) count(thread, kind string) (n int) {
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

// TestAServerThatIsKilledAnswersEachMessageOfSlack kills the server where it hurts.
func TestAServerThatIsKilledAnswersEachMessageOfSlack(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREPLIES OUT\tMARKED AS REPEATED")
	hold := make(chan struct{})
	replied := func(b *slackFixture) {
		b.sl.WaitFor(b.t, "the reply", func() bool { return len(b.ann.Private().Texts()) == 1 })
	}
	for _, c := range []struct {
		when     string
		more     string // of the agent's command
		deaf     bool   // acknowledgements are lost
		fault    slacktest.Fault
		until    func(b *slackFixture)
		away     bool // another message is posted while the server is off
		told, in int
	}{
		{
			when: "after the inbound commit, before Slack is told", more: "test $text = last || test $MAILROOM_ATTEMPT != 1 || cat gate;", deaf: true,
			until: func(b *slackFixture) { b.waitReplyCount(1) }, told: 2, in: 1,
		},
		{
			when: "after the run, before the send", fault: slacktest.Fault{Code: "ratelimited", RetryAfter: 1},
			until: func(b *slackFixture) { b.waitEntries("out:"+b.thread(), entry.KindRescheduled, 1) }, told: 1, in: 1,
		},
		{when: "after the send, before its receipt", fault: slacktest.Fault{Hold: hold}, until: replied, told: 1, in: 1},
		{when: "and a message is posted while the server is off", until: replied, away: true, told: 2, in: 2},
		{
			when: "after everything", until: func(b *slackFixture) {
				b.waitEntries("out:"+b.thread(), entry.KindCompleted, 1)
				b.sl.WaitFor(b.t, "all acknowledged", func() bool { return b.sl.Pending() == 0 })
			}, told: 1, in: 1,
		},
	} {
		t.Run(c.when, func(t *testing.T) {
			b := newSlackFixture(t, c.more)
			b.ann.Sends(b.ann.Private(), "one")
			b.sl.LoseAcks(c.deaf)
			if c.fault != (slacktest.Fault{}) {
				b.sl.Fail("chat.postMessage", c.fault)
			}
			b.serve()
			c.until(b)
			b.process.kill()
			if c.deaf && b.sl.Pending() != 1 {
				t.Errorf("%d envelopes wait after the kill", b.sl.Pending())
			}
			b.sl.LoseAcks(false)
			if c.away {
				b.ann.Sends(b.ann.Private(), "second")
				b.sl.DropPending()
			}
			b.serve()
			b.ann.Sends(b.ann.Private(), "last") // behind everything
			b.sl.WaitFor(t, "the last reply", func() bool {
				return slices.Contains(b.ann.Private().Texts(), "LAST") && b.sl.Pending() == 0
			})
			b.waitEntries("out:"+b.thread(), entry.KindCompleted, c.in+1)
			replies := len(b.ann.Private().Texts()) - 1
			told := len(b.agentInputs()) - 1
			repeated, runs := b.count("out:"+b.thread(), chat.KindRepeated), b.count(b.thread(), entry.KindQueued)-1
			if told != c.told || replies != c.in || repeated != 0 || runs != c.in {
				t.Errorf("%d runs, started %d times, replies %q, %d marked", runs, told, b.ann.Private().Texts(), repeated)
			}
			if all := b.process.talk.all(); strings.Contains(all, slacktest.Token) || strings.Contains(all, slacktest.AppToken) || strings.Contains(all, "ticket=") {
				t.Errorf("it tells a token: %s", all)
			}
			fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\t%d\n", c.when, c.in, runs, told, replies, repeated)
		})
	}
	close(hold)
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestSlackIsAddedOnceItsTokensWereTried follows a new user.
func TestSlackIsAddedOnceItsTokensWereTried(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("files:read")
	ann := sl.Person("Ann")
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	add := func(stdin string, more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "slack", "--api", sl.URL}, more...))
		return code, talk.String()
	}
	both := "\n" + slacktest.Token + "\n" + slacktest.AppToken + "\n"
	for name, c := range map[string]struct {
		stdin string
		more  []string
		code  int
		want  string
	}{
		"a wrong token":     {"\nxoxb-0-another-token\n" + slacktest.AppToken + "\n", nil, exitFailed, "Slack answered invalid_auth: get the current tokens at https://api.slack.com/apps: nothing was written"},
		"a wrong app":       {"\n" + slacktest.Token + "\nxapp-0-another-token\n", nil, exitFailed, "open socket: Slack answered invalid_auth"},
		"the wrong way":     {"\n" + slacktest.AppToken + "\n" + slacktest.Token + "\n", nil, exitFailed, "it starts with xoxb-"},
		"one token":         {"\n" + slacktest.Token + "\n", nil, exitUsage, "no answer to"},
		"no such agent":     {"missing\n", nil, exitUsage, `unknown agent "missing"`},
		"a missing file":    {both, []string{"--app-token-file", "none"}, exitUsage, "read the app-level token"},
		"nothing listens":   {both, []string{"--api", "http://127.0.0.1:1"}, exitFailed, "connection refused"},
		"a strange address": {both, []string{"--api", "nowhere"}, exitUsage, "api"},
		"no name":           {both, []string{"--name", "a b"}, exitUsage, "use 1 to 64 letters"},
	} {
		code, talk := add(c.stdin, c.more...)
		if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, slacktest.Token) || strings.Contains(talk, slacktest.AppToken) {
			t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	code, talk := add(both, "--name", "work")
	if code != exitDone || !strings.Contains(talk, "@mailroom in Work") || !strings.Contains(talk, "reinstall the app: files:read") || strings.Contains(talk, slacktest.Token) {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	for _, file := range []string{h.dir.ChannelSecret("work", "token"), h.dir.ChannelSecret("work", "app-token")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a token is kept as %v, %v", info, err)
		}
	}
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"work\"]\n") || strings.Contains(string(settings), slacktest.Token) {
		t.Errorf("the settings are\n%s%v", settings, err)
	}

	h.process(&process{})
	ann.Sends(ann.Private(), "hello")
	sl.WaitFor(t, "a code", func() bool { return len(ann.Private().Texts()) == 1 })
	found := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.Private().Texts()[0])
	if found == nil {
		t.Fatalf("a stranger is told %q", ann.Private().Texts())
	}
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", found[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.Sends(ann.Private(), "hello again")
	sl.WaitFor(t, "the answer", func() bool { return slices.Contains(ann.Private().Texts(), "hello again") })
}
