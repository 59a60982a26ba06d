package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/platformtest"
)

func TestSessionIsResumedAfterTheLastCommit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(dc *discordtest.Platform){
		"a lost connection":           (*discordtest.Platform).Cut,
		"a requested reconnect":       func(dc *discordtest.Platform) { dc.SendOp(7, nil) },
		"an unknown error":            func(dc *discordtest.Platform) { dc.CloseWith(4000, "Unknown error.") },
		"a resumable invalid session": func(dc *discordtest.Platform) { dc.SendOp(9, true) },
		"too many heartbeats":         func(dc *discordtest.Platform) { dc.CloseWith(4008, "Rate limited.") },
		"a restart of the platform":   func(dc *discordtest.Platform) { dc.CloseWith(1012, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, dev := dc.Person("Ann"), dc.Channel("dev")
			fx := newRecorder(t, dc).Start()
			fx.AwaitConnected()
			id := ann.Sends(dev, "one")
			fx.AwaitTexts("one")
			end(dc)
			ann.Sends(dev, "two")
			ann.Edits(dev, id, "one, changed") // an edit, which no history would report
			fx.AwaitState("another connection", func(s channel.State) bool {
				return s.Condition == channel.ConditionConnected && s.Adapter > 1
			})
			fx.AwaitTexts("one, two, one, changed")
			if started, resumed := dc.Sessions(); started != 1 || resumed != 1 || len(fx.Recorded()) != 3 {
				t.Errorf("%d sessions started, %d resumed, %d events recorded", started, resumed, len(fx.Recorded()))
			}
		})
	}
}

func TestASessionOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	id := ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	dc.Down()
	fx.AwaitState("several attempts", func(s channel.State) bool { return s.Attempts > 4 })
	ann.Edits(dev, id, "one, changed")
	dc.Up(t)
	fx.AwaitTexts("one, one, changed")
	if started, resumed := dc.Sessions(); started != 1 || resumed != 1 {
		t.Errorf("%d sessions started, %d resumed", started, resumed)
	}
}

func TestLostSessionIsFollowedByABackfill(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(dc *discordtest.Platform){
		"an unknown session":         (*discordtest.Platform).Cut,
		"an invalid session":         func(dc *discordtest.Platform) { dc.SendOp(9, false) },
		"an unknown sequence number": func(dc *discordtest.Platform) { dc.CloseWith(4007, "Invalid seq.") },
		"a timed out session":        func(dc *discordtest.Platform) { dc.CloseWith(4009, "Session timed out.") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, bob, dev, ops := dc.Person("Ann"), dc.Person("Bob"), dc.Channel("dev"), dc.Channel("ops")
			thread := dev.Thread("plans", false)
			fx := newRecorder(t, dc).Start()
			fx.AwaitConnected()
			ann.Sends(ann.Private(), "one")
			fx.AwaitTexts("one")
			dc.Forget()
			end(dc)
			for i := range 250 { // three pages
				ann.Sends(dev, fmt.Sprint("d", i))
			}
			ann.Sends(thread, "in a thread")
			bob.Sends(ops, "the first message here")
			ann.Sends(ann.Private(), "in private")
			ann.Sends(dev, "not from a person", discordtest.MessageOptions{Bot: true})
			platformtest.WaitFor(t, "everything", func() bool { return strings.Count(fx.Texts(), ",") == 253 })
			last := -1
			for _, e := range fx.Recorded() {
				var i int
				if _, err := fmt.Sscanf(e.Text, "d%d", &i); err == nil {
					if i <= last {
						t.Errorf("message %d follows message %d", i, last)
					}
					last = i
				}
			}
			started, _ := dc.Sessions()
			if pages := len(dc.Calls(discordtest.History)); started != 2 || pages > 7 {
				t.Errorf("%d sessions started, %d pages of histories read", started, pages)
			}
		})
	}
}

func TestNextProcessContinuesFromThePosition(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	ann.Sends(dev, "long ago")
	said := time.Now()
	platformtest.WaitFor(t, "a later id", func() bool { return time.Since(said) > 2*time.Millisecond })
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "one")
	fx.AwaitTexts("one")
	fx.Stop()
	ann.Sends(dev, "two")
	ann.Sends(ann.Private(), "three")
	fx.Start().AwaitConnected()
	platformtest.WaitFor(t, "both", func() bool {
		return strings.Contains(fx.Texts(), "two") && strings.Contains(fx.Texts(), "three")
	})
	fx.Stop()
	fx.Start().AwaitConnected()
	ann.Sends(dev, "four")
	platformtest.WaitFor(t, "the last", func() bool { return strings.Contains(fx.Texts(), "four") })
	if got := fx.Texts(); strings.Contains(got, "long ago") || strings.Count(got, ",") != 3 {
		t.Errorf("recorded %q", got)
	}
}

// TestDecreasingIDsSkipNothing has a message arrive whose id is half a minute ahead of the
// following ones.
func TestDecreasingIDsSkipNothing(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	dc.PushEvent("MESSAGE_CREATE", map[string]any{
		"id": snowflake(30 * time.Second), "channel_id": dev.ID, "guild_id": discordtest.ServerID,
		"author": map[string]any{"id": ann.ID}, "content": "ahead",
	})
	ann.Sends(dev, "behind")
	fx.AwaitTexts("ahead, behind")
	fx.Stop()
	ann.Sends(dev, "missed")
	fx.Start().AwaitConnected()
	fx.AwaitTexts("ahead, behind, missed")
}

func TestMessagesDuringAServerOutageAreRead(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	dc.SetOutage(true)
	fx.Stop()
	ann.Sends(dev, "two")
	fx.Start().AwaitConnected() // the server is unavailable
	ann.Sends(ann.Private(), "three")
	fx.AwaitTexts("one, three")
	fx.Stop()
	fx.Start().AwaitConnected()
	dc.SetOutage(false)
	platformtest.WaitFor(t, "the message during the outage", func() bool { return strings.Contains(fx.Texts(), "two") })
	dc.SetOutage(true) // during a connection as well
	dc.Forget()
	dc.Cut()
	fx.AwaitState("another connection", func(s channel.State) bool {
		return s.Adapter > 1 && s.Condition == channel.ConditionConnected
	})
	ann.Sends(dev, "four")
	dc.SetOutage(false)
	platformtest.WaitFor(t, "the last", func() bool { return strings.Contains(fx.Texts(), "four") })
}

// TestPositionWaitsForAnUnavailableServer checks that the position stays, even if messages
// elsewhere are much newer.
func TestPositionWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	fx.Stop()
	dc.SetOutage(true)
	ann.Sends(dev, "two")
	fx.Start().AwaitConnected()
	dc.PushEvent("MESSAGE_CREATE", map[string]any{
		"id": snowflake(5 * time.Minute), "channel_id": "17", "author": map[string]any{"id": ann.ID},
		"content": "later, in private",
	})
	fx.AwaitTexts("one, later, in private")
	fx.Stop()
	dc.SetOutage(false)
	fx.Start()
	fx.AwaitTexts("one, later, in private, two")
}

// snowflake returns an id for a time relative to now.
func snowflake(from time.Duration) string {
	return fmt.Sprint(uint64(time.Now().Add(from).UnixMilli()-1420070400000) << 22)
}

func TestJoinedServerIsNotReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	dc.PushEvent("GUILD_CREATE",
		map[string]any{"id": "99",
			"channels": []any{map[string]any{"id": dev.ID, "type": 0, "last_message_id": "9999999999999999999"}}})
	ann.Sends(dev, "two")
	fx.AwaitTexts("one, two")
	if n := len(dc.Calls(discordtest.History)); n != 0 {
		t.Errorf("%d requests for histories", n)
	}
}

func TestFailedHistoryIsRetried(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev, hidden := dc.Person("Ann"), dc.Channel("dev"), dc.Channel("hidden")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(dev, "one")
	fx.AwaitTexts("one")
	fx.Stop()
	ann.Sends(dev, "two")
	ann.Sends(hidden, "not for the bot")
	dc.Fail(discordtest.History,
		discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 0.2},
		discordtest.Fault{Status: 500, Message: "Internal Server Error"},
		discordtest.Fault{Lose: true},
		discordtest.Fault{Raw: "[{]"},
	)
	hidden.Destroy()
	fx.Start()
	platformtest.WaitFor(t, "the missed message", func() bool { return fx.Texts() == "one, two" })
	if n := len(dc.Calls(discordtest.History)); n != 5 && n != 6 {
		t.Errorf("%d requests for the history", n)
	}
}

// TestPositionIsBounded checks that a position holds at most 100 private channels.
func TestPositionIsBounded(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	for i := range 150 {
		p := dc.Person(fmt.Sprint("P", i))
		p.Sends(p.Private(), "hello")
	}
	platformtest.WaitFor(t, "all events", func() bool { return len(fx.Recorded()) >= 150 })
	at := fx.Recorded()[149].Position
	var v struct {
		At      string
		Private []string
	}
	if err := json.Unmarshal([]byte(at), &v); err != nil || len(v.Private) != 100 || len(at) > 3000 ||
		v.At != fx.Recorded()[149].Key {
		t.Errorf("the position has %d bytes, %v: %.200s", len(at), err, at)
	}
	if v.Private[0] != fx.Recorded()[149].Room.Chat {
		t.Errorf("first private channel %s, want the latest, %s", v.Private[0], fx.Recorded()[149].Room.Chat)
	}
}

func TestMalformedPositionIsFatal(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"{", `{"at":"x"}`, `{}`} {
		fx := newRecorder(t, discordtest.New(t))
		fx.SetPosition(at)
		fx.Start()
		s := fx.AwaitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
		if !strings.Contains(s.Reason, "saved position") {
			t.Errorf("%s: %s", at, s.Reason)
		}
	}
}

func TestHeartbeatsReportTheLastEventAndProveTheConnection(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dc.SetHeartbeatInterval(300 * time.Millisecond) // a busy machine answers one within that, or the connection ends
	ann := dc.Person("Ann")
	fx := newRecorder(t, dc)
	fx.Policy.InitialDelay = time.Hour // no reconnect in this test
	fx.Start().AwaitConnected()
	ann.Sends(ann.Private(), "one")
	fx.AwaitTexts("one")
	began := fx.State().LastSuccess
	dc.WaitFor(t, "a heartbeat after it", func() bool {
		seqs := dc.HeartbeatSeqs()
		ended := fx.State().Condition != channel.ConditionConnected
		return ended || len(seqs) > 0 && seqs[len(seqs)-1] == 3 // READY, GUILD_CREATE, the message
	})
	s := fx.AwaitState("a heartbeat acknowledgement", func(s channel.State) bool {
		return s.LastSuccess.Sub(began) > 50*time.Millisecond || s.Condition != channel.ConditionConnected
	})
	if s.Condition == channel.ConditionConnected && s.Adapter != 1 {
		t.Errorf("state %+v", s)
	}
}

// TestFailedHistoryAffectsOnlyItsRoom checks that other rooms continue, that the room's messages
// wait in order, and that neither a lost connection nor a new process skips anything.
func TestFailedHistoryAffectsOnlyItsRoom(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(fx *channeltest.Recorder, dc *discordtest.Platform){
		"an answer at last": func(*channeltest.Recorder, *discordtest.Platform) {},
		"a lost connection": func(fx *channeltest.Recorder, dc *discordtest.Platform) {
			dc.Cut()
			fx.AwaitState("another connection", func(s channel.State) bool {
				return s.Adapter >= 2 && s.Condition == channel.ConditionConnected
			})
		},
		"another process": func(fx *channeltest.Recorder, _ *discordtest.Platform) {
			fx.Stop()
			fx.Start().AwaitConnected()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, dev, ops := dc.Person("Ann"), dc.Channel("dev"), dc.Channel("ops")
			fx := newRecorder(t, dc).Start()
			fx.AwaitConnected()
			ann.Sends(dev, "one")
			fx.AwaitTexts("one")
			fx.Stop()
			ann.Sends(dev, "two")
			hold := make(chan struct{})
			dc.Fail(discordtest.History,
				discordtest.Fault{Status: 500, Message: "Internal Server Error"},
				discordtest.Fault{Status: 502, Raw: "<html>"},
				discordtest.Fault{Status: 403, Code: "40333", Message: "internal network error"},
				discordtest.Fault{Hold: hold},
			)
			fx.Start().AwaitConnected()
			platformtest.WaitFor(t, "the slow history read", func() bool { return len(dc.Calls(discordtest.History)) >= 4 })
			three := ann.Sends(dev, "three")
			ann.Edits(dev, three, "three, changed")
			ann.Sends(dev, "four")
			ann.Sends(ops, "elsewhere")
			fx.AwaitTexts("one, elsewhere")
			fx.AwaitError("is read later")
			if s := fx.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
				t.Errorf("state %+v", s)
			}
			after(fx, dc)
			close(hold)
			want := map[string]string{
				"an answer at last": "one, elsewhere, two, three, three, changed, four",
				// The history contains the edited message, and the deferred edit follows.
				"a lost connection": "one, elsewhere, two, three, changed, four, three, changed",
				"another process":   "one, elsewhere, two, three, changed, four",
			}[name]
			fx.AwaitTexts(want)
			ann.Sends(dev, "five")
			fx.AwaitTexts(want + ", five")
		})
	}
}
