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
	w := newFixture(t, dc).start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("the reason is %q", s.Reason)
	}
	ann.Sends(dev, "while you were away")
	dc.Up(t)
	w.waitConnected()
	w.waitTexts("while you were away")
}

// TestHalfOpenConnectionIsSilentThenReconnects has heartbeats so rare that only the
// evidence that is missing tells.
func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	w := newFixture(t, dc)
	w.policy.IdleTimeout = 300 * time.Millisecond
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	w.start().waitConnected()
	ann.Sends(ann.Private(), "one")
	w.waitTexts("one")
	w.stop()
	dc.SetHeartbeatInterval(time.Hour)
	w.options.Heartbeat = time.Hour
	w.start()
	s := w.waitState("silent", func(s channel.State) bool { return s.Condition == channel.ConditionSilent })
	if !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("the reason is %q", s.Reason)
	}
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	w.waitConnected()
	ann.Sends(ann.Private(), "two")
	waitFor(t, "what was said then", func() bool { return strings.HasSuffix(w.texts(), "two") })
}

func TestUnacknowledgedHeartbeatEndsTheConnection(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	dc.SetHeartbeatInterval(200 * time.Millisecond)
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	dc.Freeze()
	s := w.waitState("not connected", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "did not acknowledge") {
		t.Errorf("the reason is %q", s.LastError)
	}
	ann.Sends(dev, "two")
	dc.Thaw()
	w.waitConnected()
	w.waitTexts("one, two")
	if began, _ := dc.Sessions(); began != 1 {
		t.Errorf("%d sessions were begun: closing one must not end it", began)
	}
}

func TestFatalErrorFailsUntilCorrected(t *testing.T) {
	t.Parallel()
	wrong := strings.Replace(discordtest.Token, "GfAkEt", "XxXxXx", 1)
	for name, c := range map[string]struct {
		token string
		spoil func(dc *discordtest.Platform)
		mend  func(dc *discordtest.Platform)
		want  string
	}{
		"a token that is not known": {token: wrong, want: "token rejected (401 Unauthorized)"},
		"no token":                  {token: "Bot " + discordtest.Token, want: "three parts"},
		"an empty one":              {token: "", want: "Developer Portal"},
		"an intent that is off": {
			token: discordtest.Token, want: "turn on the Message Content intent in the Developer Portal",
			spoil: func(dc *discordtest.Platform) { dc.SetMessageContent(false) }, mend: func(dc *discordtest.Platform) { dc.SetMessageContent(true) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			if c.spoil != nil {
				c.spoil(dc)
			}
			w := newFixture(t, dc)
			w.token = c.token
			w.start()
			s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || !strings.Contains(s.Reason, "Developer Portal") || s.Attempts != 1 {
				t.Errorf("%d tries: %s", s.Attempts, s.Reason)
			}
			if c.mend != nil {
				c.mend(dc)
			}
			w.mu.Lock()
			w.token = discordtest.Token
			w.mu.Unlock()
			w.runner.Resume()
			w.waitConnected()
		})
	}
	for code, want := range map[int]string{4004: "token rejected", 4010: "(4010", 4011: "too many servers", 4012: "(4012", 4013: "(4013", 4014: "Message Content intent"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			w := newFixture(t, dc).start()
			w.waitConnected()
			dc.CloseWith(code, "because")
			s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
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
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	other := strings.Replace(discordtest.Token, "GfAkEt", "YyYyYy", 1)
	dc.SetToken(other)
	w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	ann.Sends(dev, "two")
	w.mu.Lock()
	w.token = other
	w.mu.Unlock()
	w.runner.ConfigChanged()
	w.waitConnected()
	waitFor(t, "what was said meanwhile", func() bool { return w.texts() == "one, two" })
	if began, resumed := dc.Sessions(); began != 2 || resumed != 0 || w.capabilities.BotID != discordtest.BotID {
		t.Errorf("%d sessions were begun, and %d resumed", began, resumed)
	}
}

func TestSessionStartLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dc.SetRemainingStarts(10)
	w := newFixture(t, dc).start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if wait := time.Until(s.NextTry); wait < 50*time.Minute || !strings.Contains(s.Reason, "only 10 session starts") {
		t.Errorf("it is tried again after %s: %s", wait, s.Reason)
	}
	if began, _ := dc.Sessions(); began != 0 {
		t.Errorf("%d were begun", began)
	}
	dc.SetRemainingStarts(11)
	w.runner.Resume()
	w.waitConnected()
	dc.SetRemainingStarts(0)
	dc.Cut() // what is resumed is not begun
	w.waitState("another connection", func(s channel.State) bool { return s.Condition == channel.ConditionConnected && s.Adapter >= 3 })
	if began, resumed := dc.Sessions(); began != 1 || resumed != 1 {
		t.Errorf("%d were begun, and %d resumed", began, resumed)
	}
}

func TestSessionThatCannotBeResumedIsReplaced(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	dc.RefuseResume() // the address at which it would be is not there any more
	dc.Cut()
	dc.WaitFor(t, "the end of it", func() bool { return dc.Connections() == 0 })
	ann.Sends(dev, "two")
	w.waitTexts("one, two")
	if began, resumed := dc.Sessions(); began != 2 || resumed != 0 {
		t.Errorf("%d sessions were begun, and %d resumed", began, resumed)
	}
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault discordtest.Fault
		want  string // in the reason
		after time.Duration
	}{
		"too many":               {discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 0.5}, "rate limited", 500 * time.Millisecond},
		"an error of its own":    {discordtest.Fault{Status: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0},
		"a gateway's page":       {discordtest.Fault{Status: 502, Raw: "<html>no " + discordtest.Token + " here</html>"}, "(token)", 0},
		"a gateway that is busy": {discordtest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"nonsense":               {discordtest.Fault{Raw: "\x00\xff{"}, "unexpected response", 0},
		"no address":             {discordtest.Fault{Raw: `{"url":""}`}, "invalid gateway URL", 0},
		"another address":        {discordtest.Fault{Raw: `{"url":"https://example.org"}`}, "invalid gateway URL", 0},
		"a page that is no API":  {discordtest.Fault{Status: 404, Raw: "<html>404</html>"}, "not from the Discord API (404 Not Found)", 0},
		"half an answer":         {discordtest.Fault{Half: true}, "unexpected EOF", 0},
		"a lost answer":          {discordtest.Fault{Lose: true}, "EOF", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			dc.Fail(discordtest.Gateway, c.fault)
			w := newFixture(t, dc)
			began := time.Now()
			w.start()
			s := w.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
			if !strings.Contains(s.LastError, c.want) {
				t.Errorf("the reason is %q, want %q in it", s.LastError, c.want)
			}
			w.waitConnected()
			if waited := time.Since(began); waited < c.after {
				t.Errorf("tried again after %s, asked for were %s", waited, c.after)
			}
		})
	}
}
