package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/channel"
	"mailroom/channel/poll/polltest"
	"mailroom/client"
	"mailroom/entry"
)

// platformTable is a channel of a configuration.
const platformTable = "[channels.%s]\nkind = \"poll\"\nagent = \"echo\"\nurl = %q\nworkspace = %q\ninterval = \"20ms\"\n%s\n"

// waitExit waits until a server has exited by itself, and returns its exit code.
func (p *process) waitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(waitTimeout):
		t.Fatalf("the server still runs: %s", p.output.all())
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.exit); ok {
		return exit.ExitCode()
	}
	return 0
}

func TestAServerWhoseChannelsAreAllDownExitsIfConfigured(t *testing.T) {
	down := polltest.New(t)
	down.Down()
	const secretless, gone = "token_env = \"NOBODY_SETS_THIS\"", "token_env = \"HOME\"\nretry_first = \"10ms\"\nretry_most = \"10ms\"\ngive_up_after = 2"
	for name, c := range map[string]struct {
		channels []string
		code     int
		says     string
	}{
		"all failed":     {[]string{secretless, secretless}, exitConfig, "NOBODY_SETS_THIS is not set"},
		"one gave up":    {[]string{secretless, gone}, exitRestart, "b gave up"},
		"one is retried": {[]string{secretless, "token_env = \"HOME\"\nretry_first = \"10ms\"\nattempts = 1"}, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			settings := "[channels]\nwhen_all_down = \"exit\"\n"
			for i, more := range c.channels {
				settings += fmt.Sprintf(platformTable, string(rune('a'+i)), down.URL, "ws", more)
			}
			h, p := newFixture(t, settings), &process{}
			h.process(p)
			if c.code < 0 {
				h.waitChannel("b", api.ChannelParked)
				if err := p.shutdown(); err != nil {
					t.Error(err)
				}
				return
			}
			if code := p.waitExit(t); code != c.code || !strings.Contains(p.output.all(), c.says) {
				t.Errorf("exit code %d, want %d: %s", code, c.code, p.output.all())
			}
		})
	}
}

func TestABridgeThatGivesUpExitsUnlessConfiguredToStay(t *testing.T) {
	const impatient = "[channels]\nretry_first = \"10ms\"\nretry_most = \"10ms\"\ngive_up_after = 2\n"
	b := newBridgeFixture(t, impatient)
	b.platform.Down()
	b.start(b.command(""))
	if code := b.server.waitExit(t); code != exitRestart || !strings.Contains(b.server.output.all(), "bridge gave up") {
		t.Errorf("exit code %d: %s", code, b.server.output.all())
	}
	b = newBridgeFixture(t, impatient+"when_all_down = \"stay\"\n")
	b.platform.Down()
	b.start(b.command(""))
	b.waitChannel("bridge", api.ChannelGaveUp)
	if err := b.server.shutdown(); err != nil {
		t.Error(err)
	}
}

func TestABridgeWhoseTokenIsRefusedExits(t *testing.T) {
	b := newBridgeFixture(t, "")
	b.platform.Fail(polltest.Activity, polltest.Fault{Status: http.StatusUnauthorized})
	b.start(b.command(""))
	if code := b.server.waitExit(t); code != exitConfig ||
		!strings.Contains(b.server.output.all(), "the workspace's token was rejected") {
		t.Errorf("exit code %d: %s", code, b.server.output.all())
	}
}

func TestASlowPlatformDelaysNoOther(t *testing.T) {
	slow, quick := polltest.New(t), polltest.New(t)
	hold := make(chan struct{})
	slow.Fail(polltest.Delegate, slices.Repeat([]polltest.Fault{{Hold: hold}}, channel.MaxDeliveries+1)...)
	for i := range channel.MaxDeliveries + 1 {
		slow.Add(polltest.Peer(fmt.Sprint("p-", i), fmt.Sprint("peer-", i), "hello"))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(polltest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := "[agents.echo]\npace = \"0s\"\n"
	for name, p := range map[string]*polltest.Platform{"slow": slow, "quick": quick} {
		settings += fmt.Sprintf(platformTable, name, p.URL, polltest.Workspace, fmt.Sprintf("token_file = %q", secret))
	}
	newFixture(t, settings).process(&process{})
	slow.WaitFor(t, "the maximum number of concurrent replies", func(s polltest.Traffic) bool {
		return s.Calls[polltest.Delegate] >= channel.MaxDeliveries
	})
	quick.Add(polltest.Canvas("c-1", "hello"))
	quick.WaitAcked(t, 1)
	// On a busy machine a call times out before all are made: its delivery is repeated later, and another one begins.
	s := slow.Traffic()
	if repeated := s.Calls[polltest.Delegate] != len(s.Replies); !repeated && len(s.Replies) != channel.MaxDeliveries {
		t.Errorf("the slow platform got %d replies, want %d", len(s.Replies), channel.MaxDeliveries)
	}
	close(hold)
	slow.WaitFor(t, "the last reply", func(s polltest.Traffic) bool { return len(s.Replies) == channel.MaxDeliveries+1 })
}

// TestAChannelIsResumedByItsOwner resumes a channel after its token was added, and after it gave up on a
// platform that was down.
func TestAChannelIsResumedByItsOwner(t *testing.T) {
	p := polltest.New(t)
	p.Down()
	secret := filepath.Join(t.TempDir(), "secret")
	h := newFixture(t, fmt.Sprintf(platformTable, "mol", p.URL, polltest.Workspace,
		"token_file = "+fmt.Sprintf("%q", secret)+"\nretry_first = \"10ms\"\ngive_up_after = 1"))
	h.process(&process{})
	h.waitChannel("mol", api.ChannelFailed)
	if err := os.WriteFile(secret, []byte(polltest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	resume := func(name string) (int, string) {
		t.Helper()
		code, output := h.run(t.Context(), &bytes.Buffer{}, "channels", "resume", name)
		return code, output
	}
	if code, output := resume("mol"); code != exitDone || !strings.Contains(output, "channel mol is ") {
		t.Errorf("exit code %d: %s", code, output)
	}
	h.waitChannel("mol", api.ChannelGaveUp)
	p.Up(t)
	if code, output := resume("mol"); code != exitDone {
		t.Errorf("exit code %d: %s", code, output)
	}
	h.waitChannel("mol", api.ChannelConnected)
	if code, output := resume("missing"); code != exitFailed || !strings.Contains(output, `no channel "missing"`) {
		t.Errorf("exit code %d: %s", code, output)
	}
	h.waitEntries(channel.LogThreadID("mol"), entry.KindChannel, 6) // written shortly after the state has changed
	var states []string
	page, err := h.client().Entries(t.Context(), "channel:mol", client.EntriesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		var c channel.Change
		if err := e.Decode(&c); err != nil {
			t.Fatal(err)
		}
		states = append(states, string(c.State))
	}
	if got := strings.Join(states, " "); got != "starting failed queued gave_up queued connected" {
		t.Errorf("states in the log: %s", got)
	}
	h.wantMetrics(`mailroom_channel_state{channel="mol",state="connected"} 1`,
		`mailroom_channel_state{channel="mol",state="parked"} 0`, `mailroom_channel_adapters_total{channel="mol"} 3`)
}

// wantMetrics checks that the metrics contain these lines.
func (h *fixture) wantMetrics(lines ...string) {
	h.t.Helper()
	at, err := h.dir.Address()
	if err != nil {
		h.t.Fatal(err)
	}
	token, err := h.dir.Token()
	if err != nil {
		h.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, at.URL+"/metrics", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		h.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		h.t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(text.String(), "\n"+line+"\n") {
			h.t.Errorf("the metrics lack %s", line)
		}
	}
}
