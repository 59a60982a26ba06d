package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/api"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
	"mailroom/entry"
)

// bridgeFixture is a bridge in its own process on a fake platform. Its agent records its inputs and
// replies in upper case.
type bridgeFixture struct {
	*fixture
	platform *polltest.Platform
}

func newBridgeFixture(t *testing.T, settings string) *bridgeFixture {
	t.Helper()
	return &bridgeFixture{fixture: newFixture(t, "isolation = \"none\"\n"+settings), platform: polltest.New(t)}
}

// start starts the bridge and waits until it listens.
func (b *bridgeFixture) start(command []string) {
	b.t.Helper()
	args := []string{
		"bridge", "--platform", b.platform.URL, "--workspace", polltest.Workspace, "--agent", "shout", "--interval",
		"20ms", "--",
	}
	cmd := exec.Command("mailroom", append(args, command...)...)
	b.server = b.startProcess(cmd, "MAILROOM_DATA="+string(b.dir), "MOLECULE_WORKSPACE_TOKEN="+polltest.Token)
	if _, err := b.server.until("listening on "); err != nil {
		b.t.Fatal(err)
	}
}

// killCase is a point at which the bridge is killed.
type killCase struct {
	when              string
	rows              []polltest.Row // nil: one of a user, one of an agent
	more              string         // shell code of the agent
	prepare           func(b *bridgeFixture) (release func())
	until             func(b *bridgeFixture)
	runs              int // attempts of the agent
	replies, repeated int
}

func killCases() []killCase {
	fails := func(ack bool, fault polltest.Fault) func(b *bridgeFixture) func() {
		return func(b *bridgeFixture) func() {
			for _, endpoint := range []string{polltest.Notify, polltest.Delegate} {
				if !ack {
					b.platform.Fail(endpoint, fault)
				}
			}
			if ack {
				b.platform.Fail(polltest.Ack, fault)
			}
			return func() {}
		}
	}
	return []killCase{
		{when: "while the agent runs, with a message behind", rows: []polltest.Row{polltest.Canvas("c-1", "one"), polltest.Canvas("c-2", "two")},
			more: "test $MAILROOM_ATTEMPT != 1 || test $text = two || cat gate;", until: func(b *bridgeFixture) {
				b.waitEntries("bridge:canvas:ws-1", entry.KindQueued, 2)
				b.waitAgentInputs(1)
			}, runs: 3, replies: 2}, // the killed attempt is repeated
		{when: "after the run, before the reply is accepted",
			prepare: fails(false, polltest.Fault{Status: 503, RetryAfter: 1}), until: func(b *bridgeFixture) {
				for _, thread := range outThreads() {
					b.waitEntries(thread, entry.KindRescheduled, 1)
				}
			}, runs: 2, replies: 2},
		{when: "while the replies are sent", prepare: func(b *bridgeFixture) func() {
			hold := make(chan struct{})
			fails(false, polltest.Fault{Hold: hold})(b)
			return func() { close(hold) }
		}, until: func(b *bridgeFixture) {
			b.platform.WaitFor(b.t, "two replies", func(s polltest.Traffic) bool { return len(s.Replies) == 2 })
		}, runs: 2, replies: 3, repeated: 1}, // the platform deduplicates the delegation by its key
		{when: "after the replies, before the acknowledgement", prepare: fails(true, polltest.Fault{Status: 500}), until: func(b *bridgeFixture) {
			b.platform.WaitFor(b.t, "two replies", func(s polltest.Traffic) bool {
				return len(s.Replies) == 2 && s.Calls[polltest.Ack] > 0
			})
		}, runs: 2, replies: 2},
		{when: "after everything", until: func(b *bridgeFixture) { b.platform.WaitAcked(b.t, 2) }, runs: 2, replies: 2},
	}
}

// outThreads returns the delivery threads of the user and of the agent.
func outThreads() []string { return []string{"out:bridge:canvas:ws-1", "out:bridge:peer:peer"} }

// TestABridgeThatIsKilledRunsEachMessageOnce kills the bridge at each killCase.
func TestABridgeThatIsKilledRunsEachMessageOnce(t *testing.T) {
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "KILLED\tAGENT RUNS OF 2 MESSAGES\tREPLIES\tMARKED AS REPEATED\tACKNOWLEDGED")
	for _, c := range killCases() {
		t.Run(c.when, func(t *testing.T) { fmt.Fprintln(tab, c.run(t)) })
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// run kills the bridge at the point, restarts it, and returns a line of the table.
func (c killCase) run(t *testing.T) string {
	b := newBridgeFixture(t, "")
	release := func() {}
	if c.prepare != nil {
		release = c.prepare(b)
	}
	want, from := []string{"canvas:ws-1: ONE", "peer:peer: TWO"}, outThreads()
	if c.rows == nil {
		c.rows = []polltest.Row{polltest.Canvas("c-1", "one"), polltest.Peer("p-1", "peer", "two")}
	} else {
		want[1], from = "canvas:ws-1: TWO", from[:1]
	}
	b.platform.Add(c.rows...)
	b.start(b.command(c.more))
	c.until(b)
	b.server.kill()
	release()
	b.start(b.command(c.more))
	seen := b.platform.WaitFor(t, "all acknowledgements and replies", func(s polltest.Traffic) bool {
		return s.Acked() == 2 && len(s.Replies) >= c.replies
	})
	inputs, repeated := b.agentInputs(), 0
	for _, thread := range from {
		repeated += b.count(thread, poll.KindRepeated)
	}
	if len(inputs) != c.runs || len(seen.Replies) != c.replies || repeated != c.repeated {
		t.Errorf("inputs %q, replies %q, %d marked; want %d inputs, %d replies, %d marked", inputs, seen.Texts(), repeated,
			c.runs, c.replies, c.repeated)
	}
	for _, text := range want {
		if !slices.Contains(seen.Texts(), text) {
			t.Errorf("replies %q lack %q", seen.Texts(), text)
		}
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d", c.when, len(inputs), len(seen.Replies), repeated, seen.Acked())
}

func TestAReplyIsSentWhileAgentsUseEverySlot(t *testing.T) {
	b := newBridgeFixture(t, "runs = 1\n")
	b.platform.Fail(polltest.Notify, polltest.Fault{Status: 503, RetryAfter: 1}) // the second run then has the slot
	b.platform.Add(polltest.Canvas("c-1", "one"), polltest.Canvas("c-2", "two"))
	b.start(b.command("test $text != two || cat gate;"))
	b.waitAgentInputs(2)
	b.platform.WaitFor(t, "the first reply", func(s polltest.Traffic) bool { return len(s.Replies) == 1 })
	b.openGate("")
	b.platform.WaitAcked(t, 2)
}

func TestABridgeReportsItsState(t *testing.T) {
	b := newBridgeFixture(t, "")
	b.start(b.command(""))
	b.platform.Add(polltest.Canvas("c-1", "one"))
	b.platform.WaitAcked(t, 1)
	var out bytes.Buffer
	if code, stderr := b.run(t.Context(), &out, "channels"); code != exitDone ||
		!strings.Contains(out.String(), "bridge   poll  connected") || !strings.Contains(out.String(), "c-1") {
		t.Errorf("channels: exit code %d, %s%s", code, out.String(), stderr)
	}
	b.platform.Down()
	b.waitChannel("bridge", api.ChannelQueued)
	b.platform.Up(t)
	b.waitChannel("bridge", api.ChannelConnected)
	if err := b.server.shutdown(); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if output := b.server.output.all(); strings.Contains(output, polltest.Token) {
		t.Errorf("the output contains the token: %s", output)
	}
}

func TestABridgeExplainsWhyItCannotStart(t *testing.T) {
	h := newFixture(t, "")
	url := []string{"--platform", "http://127.0.0.1:1"}
	all := append(url, "--workspace", "ws", "--agent", "echo")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "PLATFORM_URL"},
		{url, "WORKSPACE_ID"},
		{append(url, "--workspace", "ws"), "--agent"},
		{append(url, "--workspace", "ws", "--agent", "missing"), `unknown agent "missing": use `},
		{all, "MOLECULE_WORKSPACE_TOKEN"},
		{append(all, "--token-file", filepath.Join(t.TempDir(), "none")), "no such file"},
		{append(all, "--interval", "-1s"), "--interval"},
		{append(all, "--listen", "nowhere"), "--listen"},
		{append(all, "stray"), "--"},
		{[]string{"--platform", "example.org", "--workspace", "ws", "--agent", "echo"}, "--platform"},
	} {
		code, stderr := h.run(t.Context(), os.Stdout, append([]string{"bridge"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s; want %d and %q", c.args, code, stderr, exitUsage, c.want)
		}
	}
	if _, err := os.Stat(h.dir.Database()); !os.IsNotExist(err) {
		t.Errorf("a bridge that did not start created a store: %v", err)
	}
}

// TestAChannelOfTheConfigurationIsServed has a channel that works, and one without a token, which must
// not block it.
func TestAChannelOfTheConfigurationIsServed(t *testing.T) {
	p := polltest.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(polltest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := "[channels.%s]\nkind = \"poll\"\nagent = \"echo\"\nurl = %q\nworkspace = %q\n%s\ninterval = \"20ms\"\n"
	h := newFixture(t, "[agents.echo]\npace = \"0s\"\n"+
		fmt.Sprintf(table, "good", p.URL, polltest.Workspace, "token_file = \""+secret+"\"")+
		fmt.Sprintf(table, "poor", p.URL, "ws-2", "token_env = \"NOBODY_SETS_THIS\""))
	h.process(&process{})
	p.Add(polltest.Canvas("c-1", "hello"))
	if seen := p.WaitAcked(t, 1); !slices.Equal(seen.Texts(), []string{"canvas:ws-1: hello"}) {
		t.Errorf("replies %q", seen.Texts())
	}
	var out bytes.Buffer
	if code, stderr := h.run(t.Context(), &out, "channels", "-o", "json"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var page api.Page[api.Channel]
	if err := json.Unmarshal(out.Bytes(), &page); err != nil || len(page.Items) != 2 {
		t.Fatalf("%s (%v)", out.String(), err)
	}
	good, poor := page.Items[0], page.Items[1]
	if good.Name != "good" || good.State != api.ChannelConnected || *good.Cursor != "c-1" {
		t.Errorf("channel good is %+v", good)
	}
	if poor.Name != "poor" || poor.State != api.ChannelFailed ||
		!strings.Contains(*poor.Reason, "NOBODY_SETS_THIS is not set") {
		t.Errorf("channel poor is %+v", poor)
	}
}
