package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/discord/discordtest"
)

func TestSessionIsResumedAfterTheLastCommit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(dc *discordtest.Platform){
		"a connection that is lost":       (*discordtest.Platform).Cut,
		"a platform that asks for one":    func(dc *discordtest.Platform) { dc.SendOp(7, nil) },
		"an error of the platform's":      func(dc *discordtest.Platform) { dc.CloseWith(4000, "Unknown error.") },
		"a session that is good for more": func(dc *discordtest.Platform) { dc.SendOp(9, true) },
		"too many heartbeats":             func(dc *discordtest.Platform) { dc.CloseWith(4008, "Rate limited.") },
		"a platform that is restarted":    func(dc *discordtest.Platform) { dc.CloseWith(1012, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, dev := dc.Person("Ann"), dc.Channel("dev")
			w := newFixture(t, dc).start()
			w.waitConnected()
			id := ann.Sends(dev, "one")
			w.waitTexts("one")
			end(dc)
			ann.Sends(dev, "two")
			ann.Edits(dev, id, "one, changed") // which no history would tell
			w.waitState("another connection", func(s channel.State) bool { return s.Condition == channel.ConditionConnected && s.Adapter > 1 })
			w.waitTexts("one, two, one, changed")
			if began, resumed := dc.Sessions(); began != 1 || resumed != 1 || len(w.recorded()) != 3 {
				t.Errorf("%d sessions were begun, %d resumed, and %d events taken", began, resumed, len(w.recorded()))
			}
		})
	}
}

func TestASessionOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	id := ann.Sends(dev, "one")
	w.waitTexts("one")
	dc.Down()
	w.waitState("several tries", func(s channel.State) bool { return s.Attempts > 4 })
	ann.Edits(dev, id, "one, changed")
	dc.Up(t)
	w.waitTexts("one, one, changed")
	if began, resumed := dc.Sessions(); began != 1 || resumed != 1 {
		t.Errorf("%d sessions were begun, and %d resumed", began, resumed)
	}
}

func TestLostSessionIsFollowedByABackfill(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(dc *discordtest.Platform){
		"a session that is not known":    (*discordtest.Platform).Cut,
		"one that the platform ends":     func(dc *discordtest.Platform) { dc.SendOp(9, false) },
		"a number that it does not know": func(dc *discordtest.Platform) { dc.CloseWith(4007, "Invalid seq.") },
		"a session that was too long":    func(dc *discordtest.Platform) { dc.CloseWith(4009, "Session timed out.") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, bob, dev, ops := dc.Person("Ann"), dc.Person("Bob"), dc.Channel("dev"), dc.Channel("ops")
			thread := dev.Thread("plans", false)
			w := newFixture(t, dc).start()
			w.waitConnected()
			ann.Sends(ann.Private(), "one")
			w.waitTexts("one")
			dc.Forget()
			end(dc)
			for i := range 250 { // three pages
				ann.Sends(dev, fmt.Sprint("d", i))
			}
			ann.Sends(thread, "in a thread")
			bob.Sends(ops, "nobody was here before")
			ann.Sends(ann.Private(), "in private")
			ann.Sends(dev, "nobody says this", discordtest.MessageOptions{Bot: true})
			waitFor(t, "everything", func() bool { return strings.Count(w.texts(), ",") == 253 })
			last := -1
			for _, e := range w.recorded() {
				var i int
				if _, err := fmt.Sscanf(e.Text, "d%d", &i); err == nil {
					if i <= last {
						t.Errorf("%d comes after %d", i, last)
					}
					last = i
				}
			}
			began, _ := dc.Sessions()
			if pages := len(dc.Calls(discordtest.History)); began != 2 || pages > 7 {
				t.Errorf("%d sessions were begun, and %d pages of histories asked for", began, pages)
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
	waitFor(t, "a later id", func() bool { return time.Since(said) > 2*time.Millisecond })
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(ann.Private(), "one")
	w.waitTexts("one")
	w.stop()
	ann.Sends(dev, "two")
	ann.Sends(ann.Private(), "three")
	w.start().waitConnected()
	waitFor(t, "both", func() bool { return strings.Contains(w.texts(), "two") && strings.Contains(w.texts(), "three") })
	w.stop()
	w.start().waitConnected()
	ann.Sends(dev, "four")
	waitFor(t, "the last", func() bool { return strings.Contains(w.texts(), "four") })
	if got := w.texts(); strings.Contains(got, "long ago") || strings.Count(got, ",") != 3 {
		t.Errorf("taken was %q", got)
	}
}

// TestDecreasingIDsSkipNothing has a message arrive whose id is that of half a minute
// later, as if another part of the platform were behind.
func TestDecreasingIDsSkipNothing(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	dc.PushEvent("MESSAGE_CREATE", map[string]any{
		"id": snowflake(30 * time.Second), "channel_id": dev.ID, "guild_id": discordtest.ServerID, "author": map[string]any{"id": ann.ID}, "content": "ahead",
	})
	ann.Sends(dev, "behind")
	w.waitTexts("ahead, behind")
	w.stop()
	ann.Sends(dev, "meanwhile")
	w.start().waitConnected()
	w.waitTexts("ahead, behind, meanwhile")
}

func TestMessagesDuringAServerOutageAreRead(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	dc.SetOutage(true)
	w.stop()
	ann.Sends(dev, "two")
	w.start().waitConnected() // to a platform that has no such server for now
	ann.Sends(ann.Private(), "three")
	w.waitTexts("one, three")
	w.stop()
	w.start().waitConnected()
	dc.SetOutage(false)
	waitFor(t, "what was said in between", func() bool { return strings.Contains(w.texts(), "two") })
	dc.SetOutage(true) // also while it is connected
	dc.Forget()
	dc.Cut()
	w.waitState("another connection", func(s channel.State) bool { return s.Adapter > 1 && s.Condition == channel.ConditionConnected })
	ann.Sends(dev, "four")
	dc.SetOutage(false)
	waitFor(t, "the last", func() bool { return strings.Contains(w.texts(), "four") })
}

// TestPositionWaitsForAnUnavailableServer also while others are much newer.
func TestPositionWaitsForAnUnavailableServer(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	w.stop()
	dc.SetOutage(true)
	ann.Sends(dev, "two")
	w.start().waitConnected()
	dc.PushEvent("MESSAGE_CREATE", map[string]any{
		"id": snowflake(5 * time.Minute), "channel_id": "17", "author": map[string]any{"id": ann.ID}, "content": "later, in private",
	})
	w.waitTexts("one, later, in private")
	w.stop()
	dc.SetOutage(false)
	w.start()
	w.waitTexts("one, later, in private, two")
}

// snowflake is an id of a moment from now.
func snowflake(from time.Duration) string {
	return fmt.Sprint(uint64(time.Now().Add(from).UnixMilli()-1420070400000) << 22)
}

func TestJoinedServerIsNotReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	dc.PushEvent("GUILD_CREATE", map[string]any{"id": "99", "channels": []any{map[string]any{"id": dev.ID, "type": 0, "last_message_id": "9999999999999999999"}}})
	ann.Sends(dev, "two")
	w.waitTexts("one, two")
	if n := len(dc.Calls(discordtest.History)); n != 0 {
		t.Errorf("histories were asked for %d times", n)
	}
}

func TestFailedHistoryIsRetried(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev, hidden := dc.Person("Ann"), dc.Channel("dev"), dc.Channel("hidden")
	w := newFixture(t, dc).start()
	w.waitConnected()
	ann.Sends(dev, "one")
	w.waitTexts("one")
	w.stop()
	ann.Sends(dev, "two")
	ann.Sends(hidden, "not for the bot")
	dc.Fail(discordtest.History,
		discordtest.Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: 0.2},
		discordtest.Fault{Status: 500, Message: "Internal Server Error"},
		discordtest.Fault{Lose: true},
		discordtest.Fault{Raw: "[{]"},
	)
	hidden.Remove()
	w.start()
	waitFor(t, "what was said meanwhile", func() bool { return w.texts() == "one, two" })
	if n := len(dc.Calls(discordtest.History)); n != 5 && n != 6 {
		t.Errorf("the history was asked for %d times", n)
	}
}

// TestPositionIsBounded also after years.
func TestPositionIsBounded(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	w := newFixture(t, dc).start()
	w.waitConnected()
	for i := range 150 {
		p := dc.Person(fmt.Sprint("P", i))
		p.Sends(p.Private(), "hello")
	}
	waitFor(t, "all of them", func() bool { return len(w.recorded()) == 150 })
	at := w.recorded()[149].Position
	var v struct {
		At      string
		Private []string
	}
	if err := json.Unmarshal([]byte(at), &v); err != nil || len(v.Private) != 100 || len(at) > 3000 || v.At != w.recorded()[149].Key {
		t.Errorf("the position has %d bytes, %v: %.200s", len(at), err, at)
	}
	if v.Private[0] != w.recorded()[149].Room.Chat {
		t.Errorf("the first of the private channels is %s, and %s was used last", v.Private[0], w.recorded()[149].Room.Chat)
	}
}

func TestMalformedPositionIsFatal(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"{", `{"at":"x"}`, `{}`} {
		w := newFixture(t, discordtest.New(t))
		w.position = at
		w.start()
		s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
		if !strings.Contains(s.Reason, "saved position") {
			t.Errorf("%s: %s", at, s.Reason)
		}
	}
}

func TestHeartbeatsReportTheLastEventAndProveTheConnection(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	dc.SetHeartbeatInterval(30 * time.Millisecond)
	ann := dc.Person("Ann")
	w := newFixture(t, dc)
	w.policy.InitialDelay = time.Hour // what ends is not tried again here
	w.start().waitConnected()
	ann.Sends(ann.Private(), "one")
	w.waitTexts("one")
	began := w.runner.State().LastSuccess
	dc.WaitFor(t, "a heartbeat after it", func() bool {
		told := dc.HeartbeatSeqs()
		return len(told) > 0 && told[len(told)-1] == 3 // READY, the server, the message
	})
	s := w.waitState("evidence", func(s channel.State) bool {
		return s.LastSuccess.Sub(began) > 50*time.Millisecond || s.Condition != channel.ConditionConnected
	})
	if s.Condition == channel.ConditionConnected && s.Adapter != 1 {
		t.Errorf("the state is %+v", s)
	}
}

// TestFailedHistoryAffectsOnlyItsRoom: other rooms go on, what is said in the room
// waits in its order, and neither a lost connection nor another process skips anything.
func TestFailedHistoryAffectsOnlyItsRoom(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(w *fixture, dc *discordtest.Platform){
		"an answer at last": func(*fixture, *discordtest.Platform) {},
		"a lost connection": func(w *fixture, dc *discordtest.Platform) {
			dc.Cut()
			w.waitState("another connection", func(s channel.State) bool { return s.Adapter == 2 && s.Condition == channel.ConditionConnected })
		},
		"another process": func(w *fixture, _ *discordtest.Platform) {
			w.stop()
			w.start().waitConnected()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann, dev, ops := dc.Person("Ann"), dc.Channel("dev"), dc.Channel("ops")
			w := newFixture(t, dc).start()
			w.waitConnected()
			ann.Sends(dev, "one")
			w.waitTexts("one")
			w.stop()
			ann.Sends(dev, "two")
			hold := make(chan struct{})
			dc.Fail(discordtest.History,
				discordtest.Fault{Status: 500, Message: "Internal Server Error"},
				discordtest.Fault{Status: 502, Raw: "<html>"},
				discordtest.Fault{Status: 403, Code: 40333, Message: "internal network error"},
				discordtest.Fault{Hold: hold},
			)
			w.start().waitConnected()
			waitFor(t, "a history that is slow", func() bool { return len(dc.Calls(discordtest.History)) == 4 })
			three := ann.Sends(dev, "three")
			ann.Edits(dev, three, "three, changed")
			ann.Sends(dev, "four")
			ann.Sends(ops, "elsewhere")
			w.waitTexts("one, elsewhere")
			if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 || !strings.Contains(s.LastError, "is read later") {
				t.Errorf("the channel is %+v", s)
			}
			after(w, dc)
			close(hold)
			want := map[string]string{
				"an answer at last": "one, elsewhere, two, three, three, changed, four",
				// The history has it as it is then, and the change that has waited follows.
				"a lost connection": "one, elsewhere, two, three, changed, four, three, changed",
				"another process":   "one, elsewhere, two, three, changed, four",
			}[name]
			w.waitTexts(want)
			ann.Sends(dev, "five")
			w.waitTexts(want + ", five")
		})
	}
}
