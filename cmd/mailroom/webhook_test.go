package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/api"
	"mailroom/channel/webhook/webhooktest"
	"mailroom/entry"
)

// webhookFixture is a server in a process of its own with a channel "ops" of a program, whose
// agent is a command that notes what it was told and answers in capitals.
type webhookFixture struct {
	*telegramFixture
	program  webhooktest.Program
	receiver *webhooktest.Receiver
}

func newWebhookFixture(t *testing.T, more string) *webhookFixture {
	t.Helper()
	h := &webhookFixture{telegramFixture: &telegramFixture{bridgeFixture: &bridgeFixture{fixture: newFixture(t, "")}}, receiver: webhooktest.NewReceiver(t)}
	h.program.Key = webhooktest.Key
	if err := os.WriteFile(h.dir.ChannelSecret("ops", "token"), []byte(webhooktest.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	command, err := json.Marshal(h.command(more))
	if err != nil {
		t.Fatal(err)
	}
	h.configure(fmt.Sprintf(`[agents.shout]
kind = "exec"
command = %s
[channels.ops]
kind = "webhook"
agent = "shout"
token_file = %q
url = %q
allow = ["127.0.0.1"]
`, command, h.dir.ChannelSecret("ops", "token"), h.receiver.URL))
	return h
}

// serve starts the server, and returns when the channel is connected.
func (h *webhookFixture) serve() {
	h.t.Helper()
	h.telegramFixture.serve()
	h.waitChannel("ops", api.ChannelConnected)
	at, err := h.dir.Address()
	if err != nil {
		h.t.Fatal(err)
	}
	h.program.URL = at.URL
}

// post posts until it was taken, as a program does.
func (h *webhookFixture) post(id, text string) {
	h.t.Helper()
	var last any
	h.receiver.WaitFor(h.t, "the post "+id+" taken", func() bool {
		a, err := h.program.Post("ops", id, webhooktest.Message("lobby", "ann", text), nil)
		last = fmt.Sprint(a, err)
		return err == nil && a.Code == 202
	})
	if h.t.Failed() {
		h.t.Log(last)
	}
}

// The threads of the room.
const (
	lobby    = "ops:webhook:lobby"
	lobbyOut = "out:ops:webhook:lobby"
)

// TestAServerThatIsKilledAnswersEachWebhook kills the server where it hurts. The program
// posts again what it has no answer for, and the receiver knows messages by their ids.
func TestAServerThatIsKilledAnswersEachWebhook(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREQUESTS OUT\tMESSAGES OUT")
	hold := make(chan struct{})
	for _, c := range []struct {
		when  string
		more  string // of the agent's command
		fault *webhooktest.Fault
		until func(h *webhookFixture)
		told  int
		posts int
	}{
		{
			when: "after the inbound commit, the program has read no answer", more: "test $text = last || test $MAILROOM_ATTEMPT != 1 || cat gate;",
			until: func(h *webhookFixture) { h.waitReplyCount(1) }, told: 2, posts: 1,
		},
		{
			when: "after the run, before the send", fault: &webhooktest.Fault{Status: 429, RetryAfter: 1},
			until: func(h *webhookFixture) { h.waitEntries(lobbyOut, entry.KindRescheduled, 1) }, told: 1, posts: 2,
		},
		{
			when: "after the send, before its receipt", fault: &webhooktest.Fault{Hold: hold},
			until: func(h *webhookFixture) {
				h.receiver.WaitFor(h.t, "the reply", func() bool { return len(h.receiver.Texts()) == 1 })
			}, told: 1, posts: 2,
		},
		{
			when: "after everything", until: func(h *webhookFixture) { h.waitEntries(lobbyOut, entry.KindCompleted, 1) }, told: 1, posts: 1,
		},
	} {
		t.Run(c.when, func(t *testing.T) {
			h := newWebhookFixture(t, c.more)
			if c.fault != nil {
				h.receiver.Fail(*c.fault)
			}
			h.serve()
			conn, err := h.program.PostUnread("ops", "msg-1", webhooktest.Message("lobby", "ann", "one"))
			if err != nil {
				t.Fatal(err)
			}
			c.until(h)
			h.process.kill()
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			h.serve()
			h.post("msg-1", "one") // it does not know that it was taken
			h.post("msg-2", "last")
			h.waitEntries(lobbyOut, entry.KindCompleted, 2)
			texts, runs := h.receiver.Texts(), h.count(lobby, entry.KindQueued)-1
			posts, told := len(h.receiver.Posts())-1, len(h.agentInputs())-1
			if strings.Join(texts, "|") != "ONE|LAST" || runs != 1 || told != c.told || posts != c.posts {
				t.Errorf("%d runs, started %d times, %d requests: %q", runs, told, posts, texts)
			}
			fmt.Fprintf(tab, "%s\t1\t%d\t%d\t%d\t%d\n", c.when, runs, told, posts, len(texts)-1)
			if talk := h.process.talk.all(); strings.Contains(talk, strings.TrimPrefix(webhooktest.Secret, "whsec_")) {
				t.Errorf("it tells the secret: %s", talk)
			}
		})
	}
	close(hold)
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestAWebhookIsAddedAndWhatIsPrintedWorks follows a new user.
func TestAWebhookIsAddedAndWhatIsPrintedWorks(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	r := webhooktest.NewReceiver(t)
	add := func(more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader("\n"), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "webhook"}, more...))
		return code, talk.String()
	}
	short := t.TempDir() + "/short"
	if err := os.WriteFile(short, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"no such agent":  {[]string{"--agent", "missing"}, `unknown agent "missing"`},
		"this machine":   {[]string{"--url", r.URL}, "127.0.0.1 is a loopback address; to allow it, add it to allow"},
		"without TLS":    {[]string{"--url", "http://example.org/"}, "it is not https"},
		"no address":     {[]string{"--url", "example.org"}, "it is not a URL"},
		"no network":     {[]string{"--allow", "ten"}, `"ten" is neither an address`},
		"a short secret": {[]string{"--token-file", short}, "the secret has 4 bytes, but at least 24 are required: nothing was written"},
		"a missing file": {[]string{"--token-file", "none"}, "no such file"},
		"a strange name": {[]string{"--name", "a b"}, "use 1 to 64 letters"},
	} {
		if code, talk := add(c.more...); code != exitUsage || !strings.Contains(talk, c.want) {
			t.Errorf("%s: exit code %d, %s; want %q", name, code, talk, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	server := &process{} // its address is known by then
	h.process(server)
	code, talk := add("--name", "ops", "--url", r.URL+"/take", "--allow", "127.0.0.1")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	secret, err := os.ReadFile(h.dir.ChannelSecret("ops", "token"))
	if info, err2 := os.Stat(h.dir.ChannelSecret("ops", "token")); err != nil || err2 != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the secret is kept as %v, %v, %v", info, err, err2)
	}
	if strings.Contains(talk, strings.TrimSpace(string(secret))) || !strings.HasPrefix(string(secret), "whsec_") {
		t.Errorf("it tells the secret: %s", talk)
	}
	raw := t.TempDir() + "/raw"
	if err := os.WriteFile(raw, []byte("a-secret+as/it-is%d-and-long\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, more := add("--name", "raw", "--url", r.URL, "--allow", "127.0.0.0/8", "--token-file", raw)
	if code != exitDone || strings.Contains(more, "it-is") {
		t.Fatalf("exit code %d: %s", code, more)
	}
	before := server.url
	server.kill()
	h.process(server)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(secret)), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	r.AcceptKeys(string(key), "a-secret+as/it-is%d-and-long")
	for _, program := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	for n, talk := range []string{talk, more} {
		runPrintedExample(t, talk, before, server.url)
		r.WaitFor(t, "the answer", func() bool { return len(r.Texts()) == n+1 })
		if p := r.Posts()[n].Body; p.Text != "hello" || p.Room != "test" {
			t.Errorf("the answer is %+v", p)
		}
	}
}

// runPrintedExample runs the script that is in a talk, at another server.
func runPrintedExample(t *testing.T, talk, before, now string) {
	t.Helper()
	_, script, found := strings.Cut(talk, "body=")
	if !found || !strings.Contains(script, before) {
		t.Fatalf("what is printed is not for %s: %s", before, talk)
	}
	out, err := exec.Command("sh", "-ec", "body="+strings.ReplaceAll(script, before, now)).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), `{"message":"try-`) {
		t.Fatalf("what is printed, run: %s, %v", out, err)
	}
}
