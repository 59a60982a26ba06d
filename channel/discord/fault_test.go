package discord_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/discord/discordtest"
)

func TestUnreachablePlatformQueuesThenConnects(t *testing.T) {
	t.Parallel()
	dc := discordtest.NewDown(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newFixture(t, dc).start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("reason %q", s.Reason)
	}
	ann.Sends(dev, "while you were away")
	dc.Up(t)
	fx.waitConnected()
	fx.waitTexts("while you were away")
}

// TestHalfOpenConnectionIsSilentThenReconnects has heartbeats so rare that only the idle
// timeout can detect the dead connection.
func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	fx := newFixture(t, dc)
	fx.policy.IdleTimeout = 300 * time.Millisecond
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	fx.start().waitConnected()
	ann.Sends(ann.Private(), "one")
	fx.waitTexts("one")
	fx.stop()
	dc.SetHeartbeatInterval(time.Hour)
	fx.options.Heartbeat = time.Hour
	fx.start()
	s := fx.waitState("silent", func(s channel.State) bool { return s.Condition == channel.ConditionSilent })
	if !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("reason %q", s.Reason)
	}
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	fx.waitConnected()
	ann.Sends(ann.Private(), "two")
	waitFor(t, "the missed message", func() bool { return strings.HasSuffix(fx.texts(), "two") })
}

func TestUnacknowledgedHeartbeatEndsTheConnection(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	dc.SetHeartbeatInterval(200 * time.Millisecond)
	fx := newFixture(t, dc).start()
	fx.waitConnected()
	ann.Sends(dev, "one")
	fx.waitTexts("one")
	dc.Freeze()
	s := fx.waitState("not connected", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "heartbeat not acknowledged") {
		t.Errorf("reason %q", s.LastError)
	}
	ann.Sends(dev, "two")
	dc.Thaw()
	fx.waitConnected()
	fx.waitTexts("one, two")
	if started, _ := dc.Sessions(); started != 1 {
		t.Errorf("%d sessions started: closing a connection must not end its session", started)
	}
}

func TestFatalErrorFailsUntilCorrected(t *testing.T) {
	t.Parallel()
	wrong := strings.Replace(discordtest.Token, "GfAkEt", "XxXxXx", 1)
	for name, c := range map[string]struct {
		token   string
		breakIt func(dc *discordtest.Platform)
		repair  func(dc *discordtest.Platform)
		want    string
	}{
		"an unknown token": {token: wrong, want: "token rejected (401 Unauthorized)"},
		"no token":         {token: "Bot " + discordtest.Token, want: "three parts"},
		"an empty token":   {token: "", want: "Developer Portal"},
		"a disabled intent": {
			token: discordtest.Token, want: "turn on the Message Content intent in the Developer Portal",
			breakIt: func(dc *discordtest.Platform) { dc.SetMessageContent(false) }, repair: func(dc *discordtest.Platform) { dc.SetMessageContent(true) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			if c.breakIt != nil {
				c.breakIt(dc)
			}
			fx := newFixture(t, dc)
			fx.token = c.token
			fx.start()
			s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || !strings.Contains(s.Reason, "Developer Portal") || s.Attempts != 1 {
				t.Errorf("%d attempts: %s", s.Attempts, s.Reason)
			}
			if c.repair != nil {
				c.repair(dc)
			}
			fx.mu.Lock()
			fx.token = discordtest.Token
			fx.mu.Unlock()
			fx.runner.Resume()
			fx.waitConnected()
		})
	}
	for code, want := range map[int]string{4004: "token rejected", 4010: "(4010", 4011: "too many servers", 4012: "(4012", 4013: "(4013", 4014: "Message Content intent"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			fx := newFixture(t, dc).start()
			fx.waitConnected()
			dc.CloseWith(code, "because")
			s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, want) {
				t.Errorf("%d: %s", code, s.Reason)
			}
		})
	}
}

func TestNewTokenStartsASessionAndLosesNothing(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newFixture(t, dc).start()
	fx.waitConnected()
	ann.Sends(dev, "one")
	fx.waitTexts("one")
	other := strings.Replace(discordtest.Token, "GfAkEt", "YyYyYy", 1)
	dc.SetToken(other)
	fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	ann.Sends(dev, "two")
	fx.mu.Lock()
	fx.token = other
	fx.mu.Unlock()
	fx.runner.ConfigChanged()
	fx.waitConnected()
	waitFor(t, "the missed message", func() bool { return fx.texts() == "one, two" })
	if started, resumed := dc.Sessions(); started != 2 || resumed != 0 || fx.capabilities.BotID != discordtest.BotID {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestSessionStartLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dc.SetRemainingStarts(10)
	fx := newFixture(t, dc).start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if wait := time.Until(s.NextTry); wait < 50*time.Minute || !strings.Contains(s.Reason, "only 10 session starts") {
		t.Errorf("next attempt in %s: %s", wait, s.Reason)
	}
	if started, _ := dc.Sessions(); started != 0 {
		t.Errorf("%d sessions started", started)
	}
	dc.SetRemainingStarts(11)
	fx.runner.Resume()
	fx.waitConnected()
	dc.SetRemainingStarts(0)
	dc.Cut() // a resume needs no session start
	fx.waitState("another connection", func(s channel.State) bool { return s.Condition == channel.ConditionConnected && s.Adapter >= 3 })
	if started, resumed := dc.Sessions(); started != 1 || resumed != 1 {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestSessionThatCannotBeResumedIsReplaced(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newFixture(t, dc).start()
	fx.waitConnected()
	ann.Sends(dev, "one")
	fx.waitTexts("one")
	dc.RefuseResume() // the resume URL is gone
	dc.Cut()
	dc.WaitFor(t, "the end of the connection", func() bool { return dc.Connections() == 0 })
	ann.Sends(dev, "two")
	fx.waitTexts("one, two")
	if started, resumed := dc.Sessions(); started != 2 || resumed != 0 {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault discordtest.Fault
		want  string // part of the error
		after time.Duration
	}{
		"too many":          {discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 0.5}, "rate limited", 500 * time.Millisecond},
		"an internal error": {discordtest.Fault{Status: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0},
		"a gateway's page":  {discordtest.Fault{Status: 502, Raw: "<html>no " + discordtest.Token + " here</html>"}, "(token)", 0},
		"a busy gateway":    {discordtest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"nonsense":          {discordtest.Fault{Raw: "\x00\xff{"}, "unexpected response", 0},
		"no address":        {discordtest.Fault{Raw: `{"url":""}`}, "invalid gateway URL", 0},
		"another address":   {discordtest.Fault{Raw: `{"url":"https://example.org"}`}, "invalid gateway URL", 0},
		"a missing page":    {discordtest.Fault{Status: 404, Raw: "<html>404</html>"}, "not from the Discord API (404 Not Found)", 0},
		"half an answer":    {discordtest.Fault{Half: true}, "unexpected EOF", 0},
		"a lost answer":     {discordtest.Fault{Lose: true}, "EOF", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			dc.Fail(discordtest.Gateway, c.fault)
			fx := newFixture(t, dc)
			began := time.Now()
			fx.start()
			s := fx.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
			if !strings.Contains(s.LastError, c.want) {
				t.Errorf("error %q, want it to contain %q", s.LastError, c.want)
			}
			fx.waitConnected()
			if waited := time.Since(began); waited < c.after {
				t.Errorf("retried after %s, want at least %s", waited, c.after)
			}
		})
	}
}
