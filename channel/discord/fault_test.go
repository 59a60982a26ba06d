package discord_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/discord"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/platformtest"
)

// TestHalfOpenConnectionIsSilentThenReconnects has heartbeats so rare that only the idle
// timeout can detect the dead connection.
func TestHalfOpenConnectionIsSilentThenReconnects(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	first := newRecorder(t, dc).Start()
	first.AwaitConnected()
	ann.Sends(ann.Private(), "one")
	first.AwaitTexts("one")
	first.Stop()
	dc.SetHeartbeatInterval(time.Hour)
	fx := newRecorder(t, dc, func(o *discord.Options) { o.Heartbeat = time.Hour })
	fx.Policy.IdleTimeout = 300 * time.Millisecond
	fx.SetPosition(first.Position())
	fx.Start()
	s := fx.AwaitCondition(channel.ConditionSilent)
	if !strings.Contains(s.Reason, "no heartbeat") {
		t.Errorf("reason %q", s.Reason)
	}
	dc.SetHeartbeatInterval(40 * time.Millisecond)
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "two")
	fx.Await("the missed message", func() bool { return strings.HasSuffix(fx.Texts(), "two") })
}

func TestFatalCloseCodesAreRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{4004: "token rejected", 4010: "(4010", 4011: "too many servers", 4012: "(4012",
		4013: "(4013", 4014: "Message Content intent"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			fx := newRecorder(t, dc).Start()
			fx.AwaitConnected()
			dc.CloseWith(code, "because")
			fx.AwaitState("refused", func(s channel.State) bool {
				return strings.Contains(s.LastError, want) && strings.Contains(s.LastError, "refused since")
			})
		})
	}
}

func TestNewTokenStartsASessionAndLosesNothing(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	token := channeltest.NewSetting(discordtest.Token)
	fx := newRecorder(t, dc, func(o *discord.Options) { o.Token = token.Get }).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	other := strings.Replace(discordtest.Token, "GfAkEt", "YyYyYy", 1)
	dc.SetToken(other)
	fx.AwaitState("refused", func(s channel.State) bool { return strings.Contains(s.LastError, "refused since") })
	ann.Sends(dev, "two")
	token.Set(other)
	fx.ConfigChanged()
	fx.AwaitConnected()
	platformtest.WaitFor(t, "the missed message", func() bool { return fx.Texts() == "one, two" })
	if started, resumed := dc.Sessions(); started != 2 || resumed != 0 || fx.Capabilities().BotID != discordtest.BotID {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestSessionStartLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dc.SetRemainingStarts(10)
	fx := newRecorder(t, dc).Start()
	s := fx.AwaitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
	if wait := time.Until(s.NextTry); wait < 50*time.Minute || !strings.Contains(s.Reason, "only 10 session starts") {
		t.Errorf("next attempt in %s, reason %s", wait, s.Reason)
	}
	if started, _ := dc.Sessions(); started != 0 {
		t.Errorf("%d sessions started", started)
	}
	dc.SetRemainingStarts(11)
	fx.Resume()
	fx.AwaitConnected()
	dc.SetRemainingStarts(0)
	dc.Cut() // a resume needs no session start
	fx.AwaitState("another connection", func(s channel.State) bool {
		return s.Condition == channel.ConditionConnected && s.Adapter >= 3
	})
	if started, resumed := dc.Sessions(); started != 1 || resumed != 1 {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestSessionThatCannotBeResumedIsReplaced(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	dc.RefuseResume() // the resume URL is gone
	dc.Cut()
	dc.WaitFor(t, "the end of the connection", func() bool { return dc.Connections() == 0 })
	ann.Sends(dev, "two")
	fx.AwaitTexts("one, two")
	if started, resumed := dc.Sessions(); started != 2 || resumed != 0 {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}
