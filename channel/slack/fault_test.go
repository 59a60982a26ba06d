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
	fx := newFixture(t, sl).start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("reason %q", s.Reason)
	}
	sl.Up(t)
	fx.waitConnected()
	if got := fx.waitEvents(1); got[0].Text != "while you were away" {
		t.Errorf("recorded %+v", got)
	}
}

func TestLostSocketReconnects(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	sl.Down()
	fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	ann.Sends(ann.Private(), "are you there?")
	sl.Up(t)
	fx.waitConnected()
	fx.waitEvents(1)
	if n := sl.Sockets(); n != 1 {
		t.Errorf("%d sockets are open", n)
	}
}

func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newFixture(t, sl)
	fx.policy.IdleTimeout = fx.options.ReconnectPolicy().IdleTimeout
	fx.start().waitConnected()
	sl.Freeze()
	s := fx.waitState("silent", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	if s.Condition != channel.ConditionSilent || !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("state %+v", s)
	}
	ann.Sends(ann.Private(), "are you there?")
	sl.Thaw()
	fx.waitConnected()
	fx.waitEvents(1)
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
			fx := newFixture(t, slacktest.New(t))
			fx.tokens = [2]string{c.bot, c.app}
			fx.start()
			s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || s.Attempts != 1 {
				t.Errorf("%d attempts: %s", s.Attempts, s.Reason)
			}
			fx.mu.Lock()
			fx.tokens = [2]string{slacktest.Token, slacktest.AppToken}
			fx.mu.Unlock()
			fx.runner.Resume()
			fx.waitConnected()
		})
	}
}

func TestTokensOfTwoAppsAreRejected(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.SetBotApp("A0OTHER")
	fx := newFixture(t, sl).start()
	s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "A0OTHER") || !strings.Contains(s.Reason, slacktest.AppID) {
		t.Errorf("reason %q", s.Reason)
	}
	sl.WaitFor(t, "the end of all sockets", func() bool { return sl.Sockets() == 0 })
}

func TestBotWithoutWriteScopeFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("chat:write")
	fx := newFixture(t, sl).start()
	s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "missing_scope (needs chat:write)") {
		t.Errorf("reason %q", s.Reason)
	}
}

func TestWithoutNameScopeUsersHaveNoNames(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("users:read")
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	ann.Sends(dev, mention+" ask <@"+ann.ID+">", slacktest.MessageOptions{OnlyEvent: "message"})
	ann.Sends(ann.Private(), "and I")
	got := fx.waitEvents(2)
	if got[0].User.ID != ann.ID || got[0].User.Name != "" || got[0].Text != "@mailroom ask @"+ann.ID {
		t.Errorf("recorded %+v", got[0])
	}
	if n := len(sl.Calls("users.info")); n != 1 {
		t.Errorf("%d lookups of a name without the scope, want 1", n)
	}
}

func TestNameIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	for range 5 {
		ann.Sends(ann.Private(), "and <@"+ann.ID+">")
	}
	fx.waitEvents(5)
	if n := len(sl.Calls("users.info")); n != 1 {
		t.Errorf("%d lookups of one name", n)
	}
}

func TestADisconnectWithoutWarningEndsTheConnection(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"too_many_websockets": "too_many_websockets", "": "closed the connection"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			fx := newFixture(t, sl).start()
			fx.waitConnected()
			ann.Sends(ann.Private(), "before")
			fx.waitEvents(1)
			sl.Disconnect(reason)
			s := fx.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
			if !strings.Contains(s.LastError, want) || s.Reconnects != 1 {
				t.Errorf("state %+v", s)
			}
			ann.Sends(ann.Private(), "after")
			fx.waitEvents(2)
		})
	}
}

// TestNextSocketOpensBeforeTheOldOneCloses checks that a renewal with a warning leaves no gap,
// and that envelopes are acknowledged on the socket they came over.
func TestNextSocketOpensBeforeTheOldOneCloses(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"warning", "refresh_requested"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			fx := newFixture(t, sl).start()
			fx.waitConnected()
			for round := range 3 {
				sl.Disconnect(reason)
				sl.WaitFor(t, "two sockets", func() bool { return sl.Sockets() == 2 })
				for range 20 {
					ann.Sends(ann.Private(), "over either")
				}
				fx.waitEvents((round + 1) * 20)
				sl.CloseOldest()
				sl.WaitFor(t, "one socket", func() bool { return sl.Sockets() == 1 })
			}
			ann.Sends(ann.Private(), "after")
			fx.waitEvents(61)
			if s := fx.runner.State(); s.Adapter != 1 || s.Reconnects != 0 || s.Condition != channel.ConditionConnected || s.LastError != "" {
				t.Errorf("state %+v", s)
			}
		})
	}
}

// TestOldSocketIsUsedIfTheRenewalFails checks that the old socket is read to its end before the
// channel reconnects.
func TestOldSocketIsUsedIfTheRenewalFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	sl.Fail("apps.connections.open", slacktest.Fault{Code: "internal_error"})
	sl.Disconnect("warning")
	fx.waitState("the reported error", func(s channel.State) bool { return strings.Contains(s.LastError, "open the next socket") })
	ann.Sends(ann.Private(), "still here")
	fx.waitEvents(1)
	sl.CloseOldest()
	fx.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
	ann.Sends(ann.Private(), "and here")
	fx.waitEvents(2)
}

func TestDisabledSocketModeFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	sl.Disconnect("link_disabled")
	s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "Socket Mode disabled") {
		t.Errorf("reason %q", s.Reason)
	}
}

func TestOtherConnectionIsReported(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.SetOtherSockets(2)
	fx := newFixture(t, sl).start()
	fx.waitConnected()
	s := fx.runner.State()
	if !strings.Contains(s.LastError, "stop the other process") || !strings.Contains(s.LastError, "has 3 connections") {
		t.Errorf("state %+v", s)
	}
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		fault  slacktest.Fault
		want   string // part of the error
		after  time.Duration
	}{
		"too many, at the start": {"auth.test", slacktest.Fault{Code: "ratelimited", RetryAfter: 1}, "ratelimited", time.Second},
		"too many sockets":       {"apps.connections.open", slacktest.Fault{Code: "ratelimited", RetryAfter: 1}, "ratelimited", time.Second},
		"an internal error":      {"apps.connections.open", slacktest.Fault{Code: "internal_error"}, "internal_error", 0},
		"a gateway's page":       {"auth.test", slacktest.Fault{Status: 502, Raw: "<html>no " + slacktest.Token + "</html>"}, "(token)", 0},
		"another's page":         {"apps.connections.open", slacktest.Fault{Status: 502, Raw: "<html>no " + slacktest.AppToken + "</html>"}, "(token)", 0},
		"a busy gateway":         {"auth.test", slacktest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"a missing page":         {"auth.test", slacktest.Fault{Status: 404, Raw: "nothing"}, "not from the Web API (404 Not Found)", 0},
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
			fx := newFixture(t, sl)
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
			fx.waitEvents(1)
		})
	}
}

// TestRejectedTicketIsRetriedAndRedacted checks that the channel retries after a rejected
// ticket and does not reveal the socket's URL.
func TestRejectedTicketIsRetriedAndRedacted(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.Fail("apps.connections.open", slacktest.Fault{Raw: `{"ok":true,"url":"` + strings.Replace(strings.TrimSuffix(sl.URL, "/api"), "http", "ws", 1) + `/link/?ticket=stale"}`})
	fx := newFixture(t, sl).start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "403") || strings.Contains(s.LastError, "stale") {
		t.Errorf("reason %q", s.LastError)
	}
	fx.waitConnected()
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
	sl.WaitFor(t, "the end of all sockets", func() bool { return sl.Sockets() == 0 })
}
