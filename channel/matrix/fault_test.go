package matrix_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
)

// These tests poll every second with a grace of another second.

func TestAFailedConnectionIsRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	w.proxy.Down()
	w.ann.Says(w.private, "while you were away")
	w.start()
	s := w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued && s.Attempts >= 2 })
	if !strings.Contains(s.Reason, "refused") {
		t.Errorf("the reason is %q", s.Reason)
	}
	w.proxy.Up(t)
	w.waitConnected()
	w.waitTexts("while you were away")
}

func TestABrokenPollIsRepeated(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.start().waitConnected()
		polls := len(w.proxy.Calls("sync"))
		matrixtest.WaitFor(t, "a poll that waits", func() bool { return len(w.proxy.Calls("sync")) > polls })
		w.proxy.Down()
		w.waitState("queued", func(s channel.State) bool { return s.Condition == channel.ConditionQueued })
		w.ann.Says(w.private, "are you there?")
		w.proxy.Up(t)
		w.waitConnected()
		w.waitTexts("are you there?")
	})
}

func TestAHalfOpenConnectionIsSilentAndReplaced(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.policy.IdleTimeout = w.options.ReconnectPolicy().IdleTimeout
		w.start().waitConnected()
		w.proxy.Freeze()
		s := w.waitState("silent", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
		if quiet := time.Since(s.LastSuccess); s.Condition != channel.ConditionSilent || quiet < 1900*time.Millisecond || !strings.Contains(s.Reason, "no heartbeat") {
			t.Errorf("after %s: %+v", quiet, s)
		}
		w.ann.Says(w.private, "are you there?")
		w.proxy.Thaw()
		w.waitConnected()
		w.waitTexts("are you there?")
	})
}

func TestARejectedTokenStopsTheChannelUntilItIsReplaced(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		for name, c := range map[string]struct {
			token, want string
			fault       matrixtest.Fault
		}{
			"unknown":     {"syt_not_known", "was rejected (401", matrixtest.Fault{}},
			"none":        {"", "not a Matrix access token", matrixtest.Fault{}},
			"words":       {"two words", "not a Matrix access token", matrixtest.Fault{}},
			"ended":       {"syt_ended", "access token expired (401", matrixtest.Fault{Status: 401, Raw: `{"errcode":"M_UNKNOWN_TOKEN","error":"Soft logged out","soft_logout":true}`}},
			"deactivated": {"syt_old", "account is deactivated", matrixtest.Fault{Status: 403, Code: "M_USER_DEACTIVATED", Message: "This account has been deactivated"}},
			"terms":       {"syt_terms", "requires consent to its terms", matrixtest.Fault{Status: 403, Code: "M_CONSENT_NOT_GIVEN", Message: "Agree at https://terms.example"}},
		} {
			w := newFixtureNamed(t, url, name)
			good := w.token
			w.token = c.token
			if c.fault.Status != 0 {
				w.proxy.Fail("whoami", c.fault)
			}
			w.start()
			s := w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
			if !strings.Contains(s.Reason, c.want) || s.Attempts != 1 || c.token != "" && strings.Contains(s.Reason, c.token) {
				t.Errorf("%s: %d tries: %s", name, s.Attempts, s.Reason)
			}
			w.mu.Lock()
			w.token = good
			w.mu.Unlock()
			w.runner.Resume()
			w.waitConnected()
		}
	})
}

func TestARevokedTokenStopsTheChannelAndANewOneResumesIt(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		w.start().waitConnected()
		w.ann.Says(w.private, "one")
		w.waitTexts("one")
		w.bot.Logout()
		w.waitState("failed", func(s channel.State) bool { return s.Condition == channel.ConditionFailed })
		w.ann.Says(w.private, "two")
		w.bot.Login()
		w.mu.Lock()
		w.token = w.bot.Token
		w.mu.Unlock()
		w.runner.Resume()
		w.waitConnected()
		w.waitTexts("one, two")
		if w.mu.Lock(); w.capabilities.BotID != w.bot.ID {
			t.Errorf("the bot is %q", w.capabilities.BotID)
		}
		w.mu.Unlock()
	})
}

func TestAFailingHomeserverIsRetriedAfterItsDelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call  string
		fault matrixtest.Fault
		want  string // substring of the reason
		after time.Duration
	}{
		"too many polls":         {"sync", matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", RetryAfter: 1}, "Too Many Requests", time.Second},
		"too many, by header":    {"sync", matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", Header: "Retry-After: 1"}, "Too Many Requests", time.Second},
		"too many, at the start": {"whoami", matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "Too Many Requests", RetryAfter: 1}, "Too Many Requests", time.Second},
		"an error of its own":    {"sync", matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "Internal Server Error"}, "500 M_UNKNOWN", 0},
		"a gateway's page":       {"sync", matrixtest.Fault{Status: 502, Raw: "<html>no {token}</html>"}, "(token)", 0},
		"a page that is missing": {"whoami", matrixtest.Fault{Status: 404, Raw: "<html>404</html>"}, "not from a homeserver (404 Not Found)", 0},
		"a gateway that is busy": {"whoami", matrixtest.Fault{Status: 503, Raw: "later", RetryAfter: 1}, "503", time.Second},
		"nonsense":               {"sync", matrixtest.Fault{Raw: "\x00\xff{"}, "unexpected response", 0},
		"other JSON":             {"sync", matrixtest.Fault{Raw: `{"rooms":[]}`}, "unexpected response", 0},
		"no place":               {"sync", matrixtest.Fault{Raw: `{}`}, "no next_batch token", 0},
		"no user":                {"whoami", matrixtest.Fault{Raw: `{}`}, "contains no user id", 0},
		"half an answer":         {"sync", matrixtest.Fault{Half: true}, "unexpected EOF", 0},
		"who is there, refused":  {"joined_members", matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "no"}, "list room members", 0},
		"a lost history":         {"messages", matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "no"}, "read room history", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, matrixtest.Start(t).URL)
			for range 60 {
				w.ann.Says(w.private, ".")
			}
			w.bot.Says(w.private, "its own")
			for range 60 {
				w.ann.Says(w.private, "still there")
			}
			c.fault.Raw = strings.ReplaceAll(c.fault.Raw, "{token}", w.token)
			w.proxy.Fail(c.call, c.fault)
			began := time.Now()
			w.start()
			s := w.waitState("queued", func(s channel.State) bool { return s.LastError != "" })
			if !strings.Contains(s.LastError, c.want) {
				t.Errorf("the reason is %q, want %q in it", s.LastError, c.want)
			}
			w.waitConnected()
			if waited := time.Since(began); waited < c.after {
				t.Errorf("retried after %s, want at least %s", waited, c.after)
			}
			matrixtest.WaitFor(t, "the messages", func() bool { return len(w.recorded()) >= 60 })
			if got := w.texts(); got != strings.TrimSuffix(strings.Repeat("still there, ", 60), ", ") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestInvalidEventsAreSkipped(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	w.proxy.Fail("sync", matrixtest.Fault{}, matrixtest.Fault{Raw: `{"next_batch":"s0","rooms":{"join":{"` + w.private + `":{"timeline":{"events":[7,{"event_id":"$a"},
		{"event_id":"$b","sender":"@ann:test.example","type":"m.room.message","content":7},
		{"event_id":"$c","sender":"@ann:test.example","type":"m.room.message","content":{"msgtype":"m.text","body":"good"}}]}}},
		"invite":{"!x:test.example":{"invite_state":{"events":[7,{"type":"m.room.member"}]}}}}}`})
	w.start()
	matrixtest.WaitFor(t, "the valid message", func() bool { return strings.HasPrefix(w.texts(), "good") })
	if !strings.Contains(w.logs.String(), "event=$b") {
		t.Error("nothing was logged")
	}
}

// TestARefusedHistoryAffectsOneRoomOnly checks that the connection and other rooms go on.
func TestARefusedHistoryAffectsOneRoomOnly(t *testing.T) {
	t.Parallel()
	for _, fault := range []matrixtest.Fault{
		{Status: 403, Code: "M_FORBIDDEN"}, {Status: 404, Code: "M_NOT_FOUND"}, {Status: 400, Code: "M_UNKNOWN"}, {Status: 400, Code: "M_INVALID_PARAM"},
		{Status: 400, Code: "M_BAD_STATE"}, {Status: 403, Code: "ORG.EXAMPLE.NEW"},
	} {
		w := newFixture(t, matrixtest.Start(t).URL)
		w.bot.Says(w.private, "its own")
		for range 60 { // more than the timeline limit
			w.ann.Says(w.private, "still there")
		}
		w.proxy.Fail("messages", fault)
		w.start()
		w.waitConnected()
		matrixtest.WaitFor(t, "the timeline's messages", func() bool { return len(w.recorded()) > 0 })
		if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
			t.Errorf("%s: the channel is %+v", fault.Code, s)
		}
		w.ann.Says(w.private, "after")
		matrixtest.WaitFor(t, "the message after the refusal", func() bool { return strings.HasSuffix(w.texts(), "after") })
	}
}

// TestAnUnreadableRoomAffectsItselfOnly checks that other rooms go on, that the room's events keep
// their order, and that a new connection neither skips nor repeats events.
func TestAnUnreadableRoomAffectsItselfOnly(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(w *fixture){
		"an answer at last":  func(*fixture) {},
		"another connection": func(w *fixture) { w.reconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := matrixtest.Start(t).URL
			w := newFixture(t, url)
			bob := matrixtest.NewPerson(t, url, "bob", "")
			group := w.newGroup(bob)
			w.start().waitConnected()
			w.ann.Says(w.private, "one")
			w.waitTexts("one")
			asked, hold := len(w.proxy.Calls("joined_members")), make(chan struct{})
			w.proxy.Fail("joined_members",
				matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "no"}, matrixtest.Fault{Status: 502, Raw: "<html>"}, matrixtest.Fault{Hold: hold})
			bob.Says(group, "two")
			matrixtest.WaitFor(t, "a room that is slow", func() bool { return len(w.proxy.Calls("joined_members")) == asked+3 })
			bob.Says(group, "three")
			w.ann.Says(w.private, "elsewhere")
			w.waitTexts("one, elsewhere")
			if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 || !strings.Contains(s.LastError, "retrying later") {
				t.Errorf("the channel is %+v", s)
			}
			after(w)
			close(hold)
			w.waitTexts("one, elsewhere, two, three")
			bob.Says(group, "four")
			w.ann.Says(w.private, "five")
			matrixtest.WaitFor(t, "both", func() bool { return len(w.recorded()) == 6 })
			w.reconnect()
			bob.Says(group, "six")
			matrixtest.WaitFor(t, "the last", func() bool { return strings.HasSuffix(w.texts(), "six") })
			if n := len(w.recorded()); n != 7 {
				t.Errorf("got %q", w.texts())
			}
		})
	}
}

// TestARoomThatCannotBeJoinedDelaysNoOther checks that joining is retried in the background, also
// by a new connection.
func TestARoomThatCannotBeJoinedDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	w.failWith(func(e chat.Event) error {
		if e.Accept != nil {
			return e.Accept(t.Context())
		}
		return nil
	})
	w.start().waitConnected()
	broken := matrixtest.Fault{Status: 502, Code: "M_UNKNOWN", Message: "no server of this room answers"}
	w.proxy.Fail("join", broken, broken, broken, broken)
	room := w.ann.NewRoom(true, w.bot)
	matrixtest.WaitFor(t, "a try", func() bool { return len(w.proxy.Calls("join")) > 0 })
	w.ann.Says(w.private, "elsewhere")
	matrixtest.WaitFor(t, "the other room", func() bool { return strings.Contains(w.texts(), "elsewhere") })
	if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the channel is %+v", s)
	}
	w.reconnect()
	matrixtest.WaitFor(t, "the room joined", func() bool {
		calls := w.proxy.Calls("join")
		return len(calls) == 5 && calls[4].Status == 200
	})
	w.ann.Says(room, "welcome")
	matrixtest.WaitFor(t, "the message in the room", func() bool { return strings.HasSuffix(w.texts(), "welcome") })
}
