package telegram_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/telegram/telegramtest"
)

// The poll timeout and the retry_after of one second keep these tests short.

func TestUnreachablePlatformQueuesThenConnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.NewDown(t)
	ann := tg.Person("Ann")
	ann.Sends(ann.Private(), "while you were away")
	fx := newFixture(t, tg).start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("reason %q", s.Reason)
	}
	tg.Up(t)
	fx.waitConnected()
	tg.WaitFor(t, "the confirmation of the message", func() bool { return tg.Pending() == 0 })
	if got := fx.texts(); got != "while you were away" {
		t.Errorf("recorded %q", got)
	}
}

func TestInterruptedPollReconnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg).start()
	fx.waitConnected()
	polls := len(tg.Calls("getUpdates"))
	tg.WaitFor(t, "a waiting poll", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.Down()
	fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	ann.Sends(ann.Private(), "are you there?")
	tg.Up(t)
	fx.waitConnected()
	waitFor(t, "the missed message", func() bool { return fx.texts() == "are you there?" })
}

func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newFixture(t, tg)
	fx.policy.IdleTimeout = fx.options.ReconnectPolicy().IdleTimeout
	fx.start().waitConnected()
	tg.Freeze()
	s := fx.waitState("silent", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	if quiet := time.Since(s.LastSuccess); s.Condition != channel.ConditionSilent || quiet < 1900*time.Millisecond || !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("after %s: %+v", quiet, s)
	}
	ann.Sends(ann.Private(), "are you there?")
	tg.Thaw()
	fx.waitConnected()
	waitFor(t, "the missed message", func() bool { return fx.texts() == "are you there?" })
}

func TestRejectedTokenFailsUntilCorrected(t *testing.T) {
	t.Parallel()
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	for name, c := range map[string]struct{ token, want string }{
		"unknown":  {"700100200:" + strings.Repeat("x", len(secret)), "401 Unauthorized"},
		"no token": {"my-token " + secret, "has the form"},
		"empty":    {"", "has the form"},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t, telegramtest.New(t))
			fx.token = c.token
			fx.start()
			s := fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || !strings.Contains(s.Reason, "@BotFather") || s.Attempts != 1 {
				t.Errorf("%d attempts: %s", s.Attempts, s.Reason)
			}
			fx.mu.Lock()
			fx.token = telegramtest.Token
			fx.mu.Unlock()
			fx.runner.Resume()
			fx.waitConnected()
		})
	}
	t.Run("revoked", func(t *testing.T) {
		tg := telegramtest.New(t)
		fx := newFixture(t, tg).start()
		fx.waitConnected()
		tg.Revoke(telegramtest.Token, true)
		fx.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	})
}

func TestANewTokenOfTheSameBotIsTheSameBot(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newFixture(t, tg).start()
	fx.waitConnected()
	was := fx.capabilities.BotID
	other := "700100200:" + strings.Repeat("y", 35)
	tg.AddBot(other, telegramtest.BotID, telegramtest.Username)
	fx.mu.Lock()
	fx.token = other
	fx.mu.Unlock()
	fx.runner.ConfigChanged()
	fx.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
	if fx.mu.Lock(); fx.capabilities.BotID != was || was != "700100200" {
		t.Errorf("bot id %q, then %q", was, fx.capabilities.BotID)
	}
	fx.mu.Unlock()
}

func TestConflictingPollerIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newFixture(t, tg)
	conflict := telegramtest.Fault{Status: 409, Message: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
	tg.Fail("getUpdates", conflict)
	began := time.Now()
	fx.start()
	s := fx.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if !strings.Contains(s.Reason, "another process polls for this bot's updates") || !strings.Contains(s.Reason, "only one bot instance") {
		t.Errorf("reason %q", s.Reason)
	}
	if !s.LastSuccess.IsZero() || s.ConnectedSince.After(began) {
		t.Errorf("connected without a successful poll: %+v", s)
	}
	fx.waitConnected()
	if waited := time.Since(began); waited < 1900*time.Millisecond {
		t.Errorf("waited %s for the other poll", waited)
	}
}

func TestAWebhookIsDeleted(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.SetWebhook("https://elsewhere.example.org/hook")
	fx := newFixture(t, tg).start()
	fx.waitConnected()
	if at := tg.Webhook(); at != "" || !strings.Contains(fx.logs.String(), "webhook") {
		t.Errorf("the webhook is %q", at)
	}
	tg.SetWebhook("https://elsewhere.example.org/hook")
	fx.waitState("queued", func(s channel.State) bool {
		return s.Condition == channel.ConditionQueued && strings.Contains(strings.ToLower(s.Reason), "webhook")
	})
	fx.waitConnected()
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	for name, c := range map[string]struct {
		method string
		fault  telegramtest.Fault
		want   string // part of the error
		after  time.Duration
	}{
		"too many polls":         {"getUpdates", telegramtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests", time.Second},
		"too many, at the start": {"getMe", telegramtest.Fault{Status: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests", time.Second},
		"an internal error":      {"getUpdates", telegramtest.Fault{Status: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0},
		"a gateway's page":       {"getUpdates", telegramtest.Fault{Status: 502, Raw: "<html>no /bot" + telegramtest.Token + "/getUpdates</html>"}, "(token)", 0},
		"a missing page":         {"getMe", telegramtest.Fault{Status: 404, Raw: "<html>404: /bot700100200%3A" + secret + "</html>"}, "not from the Bot API (404 Not Found)", 0},
		"a busy gateway":         {"getMe", telegramtest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"nonsense":               {"getUpdates", telegramtest.Fault{Raw: "\x00\xff{"}, "not from the Bot API", 0},
		"other JSON":             {"getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":{"a":1}}`}, "unexpected response", 0},
		"no update_id":           {"getUpdates", telegramtest.Fault{Raw: `{"ok":true,"result":[{"message":{}}]}`}, "without update_id", 0},
		"no bot":                 {"getMe", telegramtest.Fault{Raw: `{"ok":true,"result":{}}`}, "names no bot", 0},
		"half an answer":         {"getUpdates", telegramtest.Fault{Half: true}, "unexpected EOF", 0},
		"a lost answer":          {"getWebhookInfo", telegramtest.Fault{Lose: true}, "EOF", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tg := telegramtest.New(t)
			ann := tg.Person("Ann")
			ann.Sends(ann.Private(), "still there")
			tg.Fail(c.method, c.fault)
			fx := newFixture(t, tg)
			began := time.Now()
			fx.start()
			s := fx.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
			if !strings.Contains(s.LastError, c.want) || strings.Contains(s.LastError, secret) {
				t.Errorf("error %q, want it to contain %q", s.LastError, c.want)
			}
			fx.waitConnected()
			if waited := time.Since(began); waited < c.after {
				t.Errorf("retried after %s, want at least %s", waited, c.after)
			}
			waitFor(t, "the message", func() bool { return fx.texts() == "still there" })
		})
	}
}
