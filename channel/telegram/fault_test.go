package telegram_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/telegram/telegramtest"
)

func TestConflictingPollerIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	fx := newRecorder(t, tg)
	conflict := telegramtest.Fault{Status: 409,
		Message: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
	tg.Fail("getUpdates", conflict)
	began := time.Now()
	fx.Start()
	s := fx.AwaitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if !strings.Contains(s.Reason, "another process polls for this bot's updates") ||
		!strings.Contains(s.Reason, "only one bot instance") {
		t.Errorf("reason %q", s.Reason)
	}
	if !s.LastSuccess.IsZero() || s.ConnectedSince.After(began) {
		t.Errorf("connected without a successful poll: %+v", s)
	}
	fx.AwaitConnected()
	if waited := time.Since(began); waited < 1900*time.Millisecond {
		t.Errorf("waited %s for the other poll", waited)
	}
}

func TestAWebhookIsDeleted(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	tg.SetWebhook("https://elsewhere.example.org/hook")
	fx := newRecorder(t, tg).Start()
	fx.AwaitConnected()
	if at := tg.Webhook(); at != "" || !strings.Contains(fx.Log(), "webhook") {
		t.Errorf("the webhook is %q", at)
	}
	tg.SetWebhook("https://elsewhere.example.org/hook")
	fx.AwaitState("queued", func(s channel.State) bool {
		return s.Condition == channel.ConditionQueued && strings.Contains(strings.ToLower(s.Reason), "webhook")
	})
	fx.AwaitConnected()
}
