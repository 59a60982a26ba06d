package telegram_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/telegram/telegramtest"
)

// A poll of a second and patience for another are what makes the times here short.

func TestUnreachablePlatformQueuesThenConnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.NewDown(t)
	ann := tg.Person("Ann")
	ann.Sends(ann.Private(), "while you were away")
	w := newFixture(t, tg).start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("the reason is %q", s.Reason)
	}
	tg.Up(t)
	w.waitConnected()
	tg.WaitFor(t, "the message confirmed", func() bool { return tg.Pending() == 0 })
	if got := w.texts(); got != "while you were away" {
		t.Errorf("taken was %q", got)
	}
}

func TestInterruptedPollReconnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg).start()
	w.waitConnected()
	polls := len(tg.Calls("getUpdates"))
	tg.WaitFor(t, "a poll that waits", func() bool { return len(tg.Calls("getUpdates")) > polls })
	tg.Down()
	w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	ann.Sends(ann.Private(), "are you there?")
	tg.Up(t)
	w.waitConnected()
	waitFor(t, "what was said meanwhile", func() bool { return w.texts() == "are you there?" })
}

func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	w := newFixture(t, tg)
	w.policy.IdleTimeout = w.options.ReconnectPolicy().IdleTimeout
	w.start().waitConnected()
	tg.Freeze()
	s := w.waitState("silent", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	if quiet := time.Since(s.LastSuccess); s.Condition != channel.ConditionSilent || quiet < 1900*time.Millisecond || !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("after %s: %+v", quiet, s)
	}
	ann.Sends(ann.Private(), "are you there?")
	tg.Thaw()
	w.waitConnected()
	waitFor(t, "what was said meanwhile", func() bool { return w.texts() == "are you there?" })
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
			w := newFixture(t, telegramtest.New(t))
			w.token = c.token
			w.start()
			s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || !strings.Contains(s.Reason, "@BotFather") || s.Attempts != 1 {
				t.Errorf("%d tries: %s", s.Attempts, s.Reason)
			}
			w.mu.Lock()
			w.token = telegramtest.Token
			w.mu.Unlock()
			w.runner.Resume()
			w.waitConnected()
		})
	}
	t.Run("revoked", func(t *testing.T) {
		tg := telegramtest.New(t)
		w := newFixture(t, tg).start()
		w.waitConnected()
		tg.Revoke(telegramtest.Token, true)
		w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	})
}

func TestANewTokenOfTheSameBotIsTheSameBot(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newFixture(t, tg).start()
	w.waitConnected()
	was := w.capabilities.BotID
	other := "700100200:" + strings.Repeat("y", 35)
	tg.AddBot(other, telegramtest.BotID, telegramtest.Username)
	w.mu.Lock()
	w.token = other
	w.mu.Unlock()
	w.runner.ConfigChanged()
	w.waitState("another adapter", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
	if w.mu.Lock(); w.capabilities.BotID != was || was != "700100200" {
		t.Errorf("the bot was %q and is %q", was, w.capabilities.BotID)
	}
	w.mu.Unlock()
}

func TestConflictingPollerIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	w := newFixture(t, tg)
	conflict := telegramtest.Fault{Code: 409, Message: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
	tg.Fail("getUpdates", conflict)
	began := time.Now()
	w.start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if !strings.Contains(s.Reason, "another process polls for this bot's updates") || !strings.Contains(s.Reason, "only one bot instance") {
		t.Errorf("the reason is %q", s.Reason)
	}
	if !s.LastSuccess.IsZero() || s.ConnectedSince.After(began) {
		t.Errorf("it was called connected without a poll that succeeded: %+v", s)
	}
	w.waitConnected()
	if waited := time.Since(began); waited < 1900*time.Millisecond {
		t.Errorf("the other's poll was given %s", waited)
	}
}

func TestAWebhookIsDeleted(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.SetWebhook("https://elsewhere.example.org/hook")
	w := newFixture(t, tg).start()
	w.waitConnected()
	if at := tg.Webhook(); at != "" || !strings.Contains(w.logs.String(), "webhook") {
		t.Errorf("updates go to %q", at)
	}
	tg.SetWebhook("https://elsewhere.example.org/hook")
	w.waitState("queued", func(s channel.State) bool {
		return s.Condition == channel.ConditionQueued && strings.Contains(strings.ToLower(s.Reason), "webhook")
	})
	w.waitConnected()
}

func TestPlatformErrorsAreRetriedAfterTheirDelay(t *testing.T) {
	t.Parallel()
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	for name, c := range map[string]struct {
		method string
		fault  telegramtest.Fault
		want   string // in the reason
		after  time.Duration
	}{
		"too many polls":         {"getUpdates", telegramtest.Fault{Code: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests", time.Second},
		"too many, at the start": {"getMe", telegramtest.Fault{Code: 429, Message: "Too Many Requests: retry after 1", RetryAfter: 1}, "Too Many Requests", time.Second},
		"an error of its own":    {"getUpdates", telegramtest.Fault{Code: 500, Message: "Internal Server Error"}, "500 Internal Server Error", 0},
		"a gateway's page":       {"getUpdates", telegramtest.Fault{Code: 502, Raw: "<html>no /bot" + telegramtest.Token + "/getUpdates</html>"}, "(token)", 0},
		"a page that is missing": {"getMe", telegramtest.Fault{Code: 404, Raw: "<html>404: /bot700100200%3A" + secret + "</html>"}, "not from the Bot API (404 Not Found)", 0},
		"a gateway that is busy": {"getMe", telegramtest.Fault{Code: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
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
			w := newFixture(t, tg)
			began := time.Now()
			w.start()
			s := w.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
			if !strings.Contains(s.LastError, c.want) || strings.Contains(s.LastError, secret) {
				t.Errorf("the reason is %q, want %q in it", s.LastError, c.want)
			}
			w.waitConnected()
			if waited := time.Since(began); waited < c.after {
				t.Errorf("tried again after %s, asked for were %s", waited, c.after)
			}
			waitFor(t, "the message", func() bool { return w.texts() == "still there" })
		})
	}
}
