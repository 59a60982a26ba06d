package slack_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
)

func TestTokensOfTwoAppsAreRejected(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.SetBotApp("A0OTHER")
	fx := newRecorder(t, sl).Start()
	s := fx.AwaitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "A0OTHER") || !strings.Contains(s.Reason, slacktest.AppID) {
		t.Errorf("reason %q", s.Reason)
	}
	sl.WaitFor(t, "the end of all sockets", func() bool { return sl.Sockets() == 0 })
}

func TestBotWithoutWriteScopeFails(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("chat:write")
	fx := newRecorder(t, sl).Start()
	s := fx.AwaitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
	if !strings.Contains(s.Reason, "missing_scope (needs chat:write)") {
		t.Errorf("reason %q", s.Reason)
	}
}

func TestWithoutNameScopeUsersHaveNoNames(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("users:read")
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	ann.Sends(dev, mention+" ask <@"+ann.ID+">", slacktest.MessageOptions{OnlyEvent: "message"})
	ann.Sends(ann.Private(), "and I")
	got := fx.AwaitEvents(2)
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
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	for range 5 {
		ann.Sends(ann.Private(), "and <@"+ann.ID+">")
	}
	fx.AwaitEvents(5)
	if n := len(sl.Calls("users.info")); n != 1 {
		t.Errorf("%d lookups of one name", n)
	}
}

func TestADisconnectWithoutWarningEndsTheConnection(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"too_many_websockets": "too_many_websockets",
		"": "closed the connection"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			fx := newRecorder(t, sl).Start()
			fx.AwaitConnected()
			ann.Sends(ann.Private(), "before")
			fx.AwaitEvents(1)
			sl.Disconnect(reason)
			fx.AwaitError(want)
			fx.AwaitState("another adapter", func(s channel.State) bool {
				return s.Adapter >= 2 && s.Reconnects >= 1 && s.Condition == channel.ConditionConnected
			})
			ann.Sends(ann.Private(), "after")
			fx.AwaitEvents(2)
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
			fx := newRecorder(t, sl).Start()
			fx.AwaitConnected()
			for round := range 3 {
				sl.Disconnect(reason)
				sl.WaitFor(t, "two sockets", func() bool { return sl.Sockets() == 2 })
				for range 20 {
					ann.Sends(ann.Private(), "over either")
				}
				fx.AwaitEvents((round + 1) * 20)
				sl.CloseOldest()
				sl.WaitFor(t, "one socket", func() bool { return sl.Sockets() == 1 })
			}
			ann.Sends(ann.Private(), "after")
			fx.AwaitEvents(61)
			if s := fx.State(); s.Adapter != 1 || s.Reconnects != 0 || s.Condition != channel.ConditionConnected ||
				s.LastError != "" {
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
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	sl.Fail("apps.connections.open", slacktest.Fault{Code: "internal_error"})
	sl.Disconnect("warning")
	fx.AwaitError("open the next socket")
	ann.Sends(ann.Private(), "still here")
	fx.AwaitEvents(1)
	sl.CloseOldest()
	fx.AwaitState("another adapter", func(s channel.State) bool {
		return s.Adapter >= 2 && s.Condition == channel.ConditionConnected
	})
	ann.Sends(ann.Private(), "and here")
	fx.AwaitEvents(2)
}

func TestDisabledSocketModeIsARefusal(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	fx := newRecorder(t, sl).Start()
	fx.AwaitConnected()
	sl.Disconnect("link_disabled")
	fx.AwaitState("refused", func(s channel.State) bool {
		return strings.Contains(s.LastError, "Socket Mode disabled") && strings.Contains(s.LastError, "refused since")
	})
}

func TestOtherConnectionIsReported(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(sl *slacktest.Platform, r *channeltest.Recorder){
		"that was there first": func(sl *slacktest.Platform, r *channeltest.Recorder) {
			sl.SetOtherSockets(2)
			r.Start().AwaitConnected()
		},
		"that came later": func(sl *slacktest.Platform, r *channeltest.Recorder) {
			r.Start().AwaitConnected()
			sl.SetOtherSockets(2)
			sl.Disconnect("refresh_requested")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sl := slacktest.New(t)
			ann := sl.Person("Ann")
			r := newRecorder(t, sl, func(o *slack.Options) { o.Recount = time.Millisecond })
			begin(sl, r)
			r.AwaitError("the app has 3 connections and Slack sends each event to only one of them: stop the other process")
			ann.Sends(ann.Private(), "all the same")
			r.AwaitTexts("all the same")
			if s := r.State(); s.Adapter != 1 || s.Condition != channel.ConditionConnected {
				t.Errorf("state %+v", s)
			}
		})
	}
}

// TestASocketThatHasEndedIsNoOtherProcess has a Slack that still counts the socket of the connection before.
func TestASocketThatHasEndedIsNoOtherProcess(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	sl.SetOtherSockets(1)
	noticed := make(chan struct{})
	// the second call is to count again
	sl.Fail("apps.connections.open", slacktest.Fault{}, slacktest.Fault{Hold: noticed})
	r := newRecorder(t, sl, func(o *slack.Options) { o.Recount = time.Millisecond }).Start()
	r.AwaitConnected()
	sl.SetOtherSockets(0)
	close(noticed)
	sl.WaitFor(t, "the next socket", func() bool { return sl.Sockets() == 2 })
	sl.CloseOldest()
	ann.Sends(ann.Private(), "over the next one")
	r.AwaitTexts("over the next one")
	if s := r.State(); s.LastError != "" || s.Adapter != 1 || s.Condition != channel.ConditionConnected {
		t.Errorf("state %+v", s)
	}
}

// TestRejectedTicketIsRetriedAndRedacted checks that the channel retries after a rejected
// ticket and does not reveal the socket's URL.
func TestRejectedTicketIsRetriedAndRedacted(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.Fail("apps.connections.open", slacktest.Fault{Raw: `{"ok":true,"url":"` + strings.Replace(strings.TrimSuffix(sl.URL,
		"/api"), "http", "ws", 1) + `/link/?ticket=stale"}`})
	fx := newRecorder(t, sl).Start()
	s := fx.AwaitState("queued", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "403") || strings.Contains(s.LastError, "stale") {
		t.Errorf("reason %q", s.LastError)
	}
	fx.AwaitConnected()
}
