package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/entry"
)

// matrixServer is a homeserver.
type matrixServer struct {
	url string
	// again starts it again after a crash, so that it has forgotten all transactions.
	again func()
}

// matrixHomes are those that these tests are played on. The build tag realchannels
// adds Dendrite.
var matrixHomes = map[string]func(t *testing.T) matrixServer{
	"made here": func(t *testing.T) matrixServer {
		h := matrixtest.Start(t)
		return matrixServer{h.URL, h.ForgetTransactions}
	},
}

// eachMatrixServer plays a test on all of them.
func eachMatrixServer(t *testing.T, play func(t *testing.T, h matrixServer)) {
	for name, start := range matrixHomes {
		t.Run(name, func(t *testing.T) { play(t, start(t)) })
	}
}

// matrixFixture is a server in a process of its own with a channel "mx" on Matrix, whose
// agent is a command. Ann may talk.
type matrixFixture struct {
	*bridgeFixture
	way      *matrixtest.Proxy
	bot, ann *matrixtest.Person
	room     string
}

// newMatrixFixture makes one whose agent notes what it is told and answers in capitals,
// under a unique name on the homeserver.
func newMatrixFixture(t *testing.T, h matrixServer, name, more string) *matrixFixture {
	t.Helper()
	b := &matrixFixture{bridgeFixture: &bridgeFixture{fixture: newFixture(t, "")}, way: matrixtest.NewProxy(t, h.url)}
	b.bot, b.ann = matrixtest.NewPerson(t, h.url, name, "Mailroom"), matrixtest.NewPerson(t, h.url, name+"-ann", "Ann")
	b.room = b.ann.NewRoom(true, b.bot)
	b.bot.Joins(b.room)
	b.writeSettings(b.command(more), "previews = false")
	return b
}

// writeSettings configures the agent's command, and more of the channel.
func (b *matrixFixture) writeSettings(command []string, more string) {
	b.t.Helper()
	if err := os.WriteFile(b.dir.ChannelSecret("mx", "token"), []byte(b.bot.Token), 0o600); err != nil {
		b.t.Fatal(err)
	}
	raw, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	b.configure(fmt.Sprintf(`[agents.shout]
kind = "exec"
command = %s
[channels.mx]
kind = "matrix"
agent = "shout"
token_file = %q
homeserver = %q
poll = "3s"
gap = "10ms"
edit_gap = "200ms"
retry_first = "100ms"
retry_most = "400ms"
admins = [%q]
%s
`, raw, b.dir.ChannelSecret("mx", "token"), b.way.URL, b.ann.ID, more))
}

// in is the conversation thread of Ann's room, and out its delivery thread.
func (b *matrixFixture) in() string {
	return "mx:" + url.QueryEscape(b.bot.ID) + ":" + url.QueryEscape(b.room)
}

func (b *matrixFixture) out() string { return "out:" + b.in() }

// replies are the texts of the bot in Ann's room.
func (b *matrixFixture) replies() []string { return b.ann.Texts(b.room, b.bot) }

// TestAServerThatIsKilledAnswersEachMessageOfMatrixOnce kills the server where it
// hurts, and the homeserver with it.
func TestAServerThatIsKilledAnswersEachMessageOfMatrixOnce(t *testing.T) {
	t.Parallel()
	eachMatrixServer(t, func(t *testing.T, h matrixServer) {
		var table strings.Builder
		tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tab, "KILLED\tHOMESERVER STARTED AGAIN\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREPLIES OUT\tMARKED AS REPEATED")
		hold := make(chan struct{})
		n := 0
		for _, c := range []struct {
			when  string
			more  string // of the agent's command
			fault matrixtest.Fault
			until func(b *matrixFixture)
			told  int
		}{
			{
				when: "after the inbound commit", more: "test $text = last || test $MAILROOM_ATTEMPT != 1 || cat gate;", told: 2,
				until: func(b *matrixFixture) { b.waitReplyCount(1) },
			},
			{
				when: "after the run, before the send", fault: matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", RetryAfter: 1}, told: 1,
				until: func(b *matrixFixture) { b.waitEntries(b.out(), entry.KindRescheduled, 1) },
			},
			{
				when: "in the send, before the homeserver has it", fault: matrixtest.Fault{Hang: true}, told: 1,
				until: func(b *matrixFixture) {
					matrixtest.WaitFor(b.t, "the send", func() bool { return len(b.way.Calls("send")) == 1 })
				},
			},
			{
				when: "after the send, before its receipt", fault: matrixtest.Fault{Hold: hold}, told: 1,
				until: func(b *matrixFixture) {
					matrixtest.WaitFor(b.t, "the reply", func() bool { return len(b.replies()) == 1 })
				},
			},
			{
				when: "after everything", told: 1, until: func(b *matrixFixture) { b.waitEntries(b.out(), entry.KindCompleted, 1) },
			},
		} {
			for again, f := range map[string]func(){"no": func() {}, "yes": h.again} {
				n++
				b := newMatrixFixture(t, h, fmt.Sprintf("bot%d", n), c.more)
				b.ann.Says(b.room, "one")
				if c.fault != (matrixtest.Fault{}) {
					b.way.Fail("send", c.fault)
				}
				b.serve()
				c.until(b)
				b.process.kill()
				f()
				b.serve()
				b.ann.Says(b.room, "last") // behind everything
				matrixtest.WaitFor(t, "the last reply", func() bool { return slices.Contains(b.replies(), "LAST") })
				b.waitEntries(b.out(), entry.KindCompleted, 2)
				told, replies := len(b.agentInputs())-1, len(b.replies())-1
				repeated, runs := b.count(b.out(), chat.KindRepeated), b.count(b.in(), entry.KindQueued)-1
				if told != c.told || replies != 1 || repeated != 0 || runs != 1 {
					t.Errorf("%s, homeserver again %s: %d runs, started %d times, replies %q, %d marked", c.when, again, runs, told, b.replies(), repeated)
				}
				fmt.Fprintf(tab, "%s\t%s\t1\t%d\t%d\t%d\t%d\n", c.when, again, runs, told, replies, repeated)
				b.process.kill()
			}
		}
		close(hold)
		if err := tab.Flush(); err != nil {
			t.Fatal(err)
		}
		t.Logf("\n%s", table.String())
	})
}

// addMatrix adds an account with typed answers.
func (h *fixture) addMatrix(stdin string, more ...string) (int, string) {
	h.t.Helper()
	var talk bytes.Buffer
	m := Main{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &talk, Env: h.env}
	code := m.Run(h.t.Context(), append([]string{"channels", "add", "matrix"}, more...))
	return code, talk.String()
}

// TestAnAccountOfMatrixIsAddedOnceItWasTried follows a new user.
func TestAnAccountOfMatrixIsAddedOnceItWasTried(t *testing.T) {
	t.Parallel()
	eachMatrixServer(t, func(t *testing.T, at matrixServer) {
		bot, ann := matrixtest.NewPerson(t, at.url, "mybot", "My Bot"), matrixtest.NewPerson(t, at.url, "ann", "Ann")
		h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
		add := h.addMatrix
		for name, c := range map[string]struct {
			stdin string
			more  []string
			code  int
			want  string
		}{
			"a wrong password": {"\n" + at.url + "\nmybot\nguess\n", nil, exitFailed, "rejected the login of mybot (403"},
			"a wrong token":    {"\n" + at.url + "\n\nsyt_guess\n", nil, exitFailed, "access token was rejected (401"},
			"no token":         {"\n" + at.url + "\n\ntwo words\n", nil, exitFailed, "not a Matrix access token"},
			"nothing said":     {"", nil, exitUsage, "no answer to"},
			"no such agent":    {"missing\n", nil, exitUsage, `unknown agent "missing"`},
			"a missing file":   {"\n", []string{"--homeserver", at.url, "--token-file", "none"}, exitUsage, "no such file"},
			"nothing listens":  {"\nhttp://127.0.0.1:1\nmybot\n" + matrixtest.Password + "\n", nil, exitFailed, "connection refused"},
			"a strange place":  {"\nftp://x\n", nil, exitFailed, "not a base URL"},
			"no scheme":        {"\n127.0.0.1:1\n", nil, exitFailed, "connection refused"},
		} {
			code, talk := add(c.stdin, c.more...)
			if code != c.code || !strings.Contains(talk, c.want) || strings.Contains(talk, "guess") || strings.Contains(talk, matrixtest.Password) {
				t.Errorf("%s: exit code %d, %s; want %d and %q", name, code, talk, c.code, c.want)
			}
		}
		if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
			t.Errorf("what was refused has left %v, %v", files, err)
		}
		code, talk := add("\n"+at.url+"/\nmybot\n"+matrixtest.Password+"\n", "--name", "mx")
		if code != exitDone || !strings.Contains(talk, bot.ID) || strings.Contains(talk, matrixtest.Password) {
			t.Fatalf("exit code %d: %s", code, talk)
		}
		t.Logf("\n%s", talk)
		info, err := os.Stat(h.dir.ChannelSecret("mx", "token"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the token is kept as %v, %v", info, err)
		}
		token, err := os.ReadFile(h.dir.ChannelSecret("mx", "token"))
		if err != nil || strings.Contains(string(token), matrixtest.Password) || strings.Contains(talk, strings.TrimSpace(string(token))) {
			t.Errorf("the token is told, or is the password, %v", err)
		}
		settings, err := os.ReadFile(h.dir.Config())
		if err != nil || !strings.HasPrefix(string(settings), "# mine\n[agents.echo]\npace = \"0s\"\n\n[channels.\"mx\"]\n") || !strings.Contains(string(settings), fmt.Sprintf("homeserver = %q\n", at.url)) {
			t.Errorf("the settings are\n%s%v", settings, err)
		}
		if code, talk := add("\n"+at.url+"\n\n"+bot.Token+"\n", "--name", "mx2"); code != exitDone || strings.Contains(talk, bot.Token) {
			t.Errorf("with a token: exit code %d, %s", code, talk)
		}
		if err := os.WriteFile(h.dir.Config(), settings, 0o600); err != nil { // one is enough for what follows
			t.Fatal(err)
		}

		h.process(&process{})
		room := ann.NewRoom(true, bot)
		matrixtest.WaitFor(t, "the bot there", func() bool { return ann.IsIn(room, bot) })
		ann.Says(room, "hello")
		said := func(want string) (found string) {
			matrixtest.WaitFor(t, want, func() bool {
				i := slices.IndexFunc(ann.Texts(room, bot), func(s string) bool { return strings.Contains(s, want) })
				if i >= 0 {
					found = ann.Texts(room, bot)[i]
				}
				return i >= 0
			})
			return found
		}
		word := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(said("pair approve"))
		if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", word[1]); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		ann.Says(room, "hello again")
		said("hello again")
	})
}
