package slack_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
)

func TestUnreachablePlatformQueuesThenConnects(t *testing.T) {
	t.Parallel()
	sl := slacktest.NewDown(t)
	ann := sl.Person("Ann")
	ann.Sends(ann.Private(), "while you were away")
	w := newFixture(t, sl).start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("the reason is %q", s.Reason)
	}
	sl.Up(t)
	w.waitConnected()
	if got := w.waitEvents(1); got[0].Text != "while you were away" {
		t.Errorf("taken was %+v", got)
	}
}

func TestLostSocketReconnects(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	w.waitConnected()
	sl.Down()
	w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	ann.Sends(ann.Private(), "are you there?")
	sl.Up(t)
	w.waitConnected()
	w.waitEvents(1)
	if n := sl.Sockets(); n != 1 {
		t.Errorf("%d sockets are open", n)
	}
}

func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl)
	w.policy.IdleTimeout = w.options.ReconnectPolicy().IdleTimeout
	w.start().waitConnected()
	sl.Freeze()
	s := w.waitState("silent", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	if s.Condition != channel.ConditionSilent || !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("it is %+v", s)
	}
	ann.Sends(ann.Private(), "are you there?")
	sl.Thaw()
	w.waitConnected()
	w.waitEvents(1)
}

func TestRejectedTokenFailsUntilCorrected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bot, app, want string }{
		"an unknown bot":      {"xoxb-0-another-token-of-a-bot", slacktest.AppToken, "invalid_auth"},
		"an unknown app":      {slacktest.Token, "xapp-0-another-token-of-an-app", "invalid_auth"},
		"no token of a bot":   {slacktest.AppToken, slacktest.AppToken, "it starts with xoxb-"},
		"no token of an app":  {slacktest.Token, slacktest.Token, "it starts with xapp-"},
		"nothing for the bot": {"", slacktest.AppToken, "it starts with xoxb-"},
		"nothing for the app": {slacktest.Token, "", "it starts with xapp-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, slacktest.New(t))
			w.tokens = [2]string{c.bot, c.app}
			w.start()
			s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || s.Attempts != 1 {
				t.Errorf("%d tries: %s", s.Attempts, s.Reason)
			}
			w.mu.Lock()
			w.tokens = [2]string{slacktest.Token, slacktest.AppToken}
			w.mu.Unlock()
			w.runner.Resume()
			w.waitConnected()
		})
	}
}

func TestTokensOfTwoAppsAreRejected(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.SetBotApp("A0OTHER")
	w := newFixture(t, sl).start()
	s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "A0OTHER") || !strings.Contains(s.Reason, slacktest.AppID) {
		t.Errorf("the reason is %q", s.Reason)
	}
	sl.WaitFor(t, "no socket left", func() bool { return sl.Sockets() == 0 })
}

func TestBotWithoutWriteScopeFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("chat:write")
	w := newFixture(t, sl).start()
	s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "missing_scope (needs chat:write)") {
		t.Errorf("the reason is %q", s.Reason)
	}
}

func TestWithoutNameScopeUsersHaveNoNames(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("users:read")
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	w := newFixture(t, sl).start()
	w.waitConnected()
	ann.Sends(dev, mention+" ask <@"+ann.ID+">", slacktest.MessageOptions{OnlyEvent: "message"})
	ann.Sends(ann.Private(), "and I")
	got := w.waitEvents(2)
	if got[0].User.ID != ann.ID || got[0].User.Name != "" || got[0].Text != "@mailroom ask @"+ann.ID {
		t.Errorf("taken was %+v", got[0])
	}
	if n := len(sl.Calls("users.info")); n != 1 {
		t.Errorf("asked for a name %d times that the bot may not know", n)
	}
}

func TestNameIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	w.waitConnected()
	for range 5 {
		ann.Sends(ann.Private(), "and <@"+ann.ID+">")
	}
	w.waitEvents(5)
	if n := len(sl.Calls("users.info")); n != 1 {
		t.Errorf("asked for a name %d times", n)
	}
}

func TestADisconnectWithoutWarningEndsTheConnection(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"too_many_websockets": "too_many_websockets", "": "closed the connection"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			w := newFixture(t, sl).start()
			w.waitConnected()
			ann.Sends(ann.Private(), "before")
			w.waitEvents(1)
			sl.Disconnect(reason)
			s := w.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
			if !strings.Contains(s.LastError, want) || s.Reconnects != 1 {
				t.Errorf("the state is %+v", s)
			}
			ann.Sends(ann.Private(), "after")
			w.waitEvents(2)
		})
	}
}

// TestNextSocketOpensBeforeTheOldOneCloses: Slack warns, and there is no moment
// without a socket. What was sent on either is acknowledged there.
func TestNextSocketOpensBeforeTheOldOneCloses(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"warning", "refresh_requested"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			w := newFixture(t, sl).start()
			w.waitConnected()
			for round := range 3 {
				sl.Disconnect(reason)
				sl.WaitFor(t, "two sockets", func() bool { return sl.Sockets() == 2 })
				for range 20 {
					ann.Sends(ann.Private(), "over either")
				}
				w.waitEvents((round + 1) * 20)
				sl.CloseOldest()
				sl.WaitFor(t, "one socket", func() bool { return sl.Sockets() == 1 })
			}
			ann.Sends(ann.Private(), "after")
			w.waitEvents(61)
			if s := w.runner.State(); s.Adapter != 1 || s.Reconnects != 0 || s.Condition != channel.ConditionConnected || s.LastError != "" {
				t.Errorf("the state is %+v", s)
			}
		})
	}
}

// TestOldSocketIsUsedIfTheRenewalFails, and then the channel connects again.
func TestOldSocketIsUsedIfTheRenewalFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	w := newFixture(t, sl).start()
	w.waitConnected()
	sl.Fail("apps.connections.open", slacktest.Fault{Error: "internal_error"})
	sl.Disconnect("warning")
	w.waitState("trouble", func(s channel.State) bool { return strings.Contains(s.LastError, "open the next socket") })
	ann.Sends(ann.Private(), "still here")
	w.waitEvents(1)
	sl.CloseOldest()
	w.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
	ann.Sends(ann.Private(), "and here")
	w.waitEvents(2)
}

func TestDisabledSocketModeFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	w := newFixture(t, sl).start()
	w.waitConnected()
	sl.Disconnect("link_disabled")
	s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "Socket Mode is disabled") {
		t.Errorf("the reason is %q", s.Reason)
	}
}

func TestOtherConnectionIsReported(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.SetOtherSockets(2)
	w := newFixture(t, sl).start()
	w.waitConnected()
	s := w.runner.State()
	if !strings.Contains(s.LastError, "stop the other process") || !strings.Contains(s.LastError, "has 3 connections") {
		t.Errorf("the state is %+v", s)
	}
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		fault  slacktest.Fault
		want   string // in the reason
		after  time.Duration
	}{
		"too many, at the start": {"auth.test", slacktest.Fault{Error: "ratelimited", RetryAfter: 1}, "ratelimited", time.Second},
		"too many sockets":       {"apps.connections.open", slacktest.Fault{Error: "ratelimited", RetryAfter: 1}, "ratelimited", time.Second},
		"an error of its own":    {"apps.connections.open", slacktest.Fault{Error: "internal_error"}, "internal_error", 0},
		"a gateway's page":       {"auth.test", slacktest.Fault{Status: 502, Raw: "<html>no " + slacktest.Token + "</html>"}, "(token)", 0},
		"another's page":         {"apps.connections.open", slacktest.Fault{Status: 502, Raw: "<html>no " + slacktest.AppToken + "</html>"}, "(token)", 0},
		"a gateway that is busy": {"auth.test", slacktest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"a page that is missing": {"auth.test", slacktest.Fault{Status: 404, Raw: "nothing"}, "not from the Web API (404 Not Found)", 0},
		"nonsense":               {"auth.test", slacktest.Fault{Raw: "\x00\xff{"}, "not from the Web API", 0},
		"other JSON":             {"auth.test", slacktest.Fault{Raw: `{"ok":true,"user_id":7}`}, "unexpected response", 0},
		"no bot":                 {"auth.test", slacktest.Fault{Raw: `{"ok":true}`}, "names no bot", 0},
		"half an answer":         {"bots.info", slacktest.Fault{Half: true}, "unexpected EOF", 0},
		"a lost answer":          {"apps.connections.open", slacktest.Fault{Lose: true}, "EOF", 0},
		"a socket elsewhere":     {"apps.connections.open", slacktest.Fault{Raw: `{"ok":true,"url":"wss://wss.example.org/link?ticket=1"}`}, "not on a Slack host", 0},
		"no socket":              {"apps.connections.open", slacktest.Fault{Raw: `{"ok":true}`}, "not on a Slack host", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			ann.Sends(ann.Private(), "still there")
			sl.Fail(c.method, c.fault)
			w := newFixture(t, sl)
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
			w.waitEvents(1)
		})
	}
}

// TestRejectedTicketIsRetriedAndRedacted shows that a socket which is refused is none, and that its
// address is told nowhere.
func TestRejectedTicketIsRetriedAndRedacted(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.Fail("apps.connections.open", slacktest.Fault{Raw: `{"ok":true,"url":"` + strings.Replace(strings.TrimSuffix(sl.URL, "/api"), "http", "ws", 1) + `/link/?ticket=stale"}`})
	w := newFixture(t, sl).start()
	s := w.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "403") || strings.Contains(s.LastError, "stale") {
		t.Errorf("the reason is %q", s.LastError)
	}
	w.waitConnected()
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("files:read", "im:history")
	o := newFixture(t, sl).options
	bot, err := slack.Identify(t.Context(), o)
	if err != nil || bot.ID != slacktest.BotID || bot.Team != "Work" || strings.Join(bot.MissingScopes, ",") != "files:read,im:history" {
		t.Errorf("the bot is %+v, %v", bot, err)
	}
	sl.WaitFor(t, "no socket left", func() bool { return sl.Sockets() == 0 })
}
