package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

func TestAMessageIsSentAndEdited(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		p := w.start().waitConnected()
		asked := w.ann.Says(w.private, "well?")
		to := chat.Room{Chat: w.private, Topic: asked}
		id, err := p.Send(t.Context(), to, chat.Message{Text: "**Run** `rm <x>`?", ReplyTo: w.ann.Says(w.private, "say", matrixtest.Thread(asked))}, "key")
		if err != nil {
			t.Fatal(err)
		}
		m := w.ann.Messages(w.private, w.bot)[0]
		related, _ := m.Content["m.relates_to"].(map[string]any)
		if m.ID != id || m.Body() != "**Run** `rm <x>`?" || m.Content["formatted_body"] != "<b>Run</b> <code>rm &lt;x&gt;</code>?" || related["rel_type"] != "m.thread" || related["event_id"] != asked || related["is_falling_back"] != nil {
			t.Errorf("sent %+v as %s", m, id)
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved & *done*."}); err != nil {
			t.Fatal(err)
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved & done."}); err != nil {
			t.Fatal(err)
		}
		if got := w.ann.Messages(w.private, w.bot); len(got) != 1 || got[0].Body() != "Approved & done." || got[0].Content["formatted_body"] != nil {
			t.Errorf("the edited message is %+v", got)
		}
		if err := p.Typing(t.Context(), to); err != nil {
			t.Error(err)
		}
		if _, err := p.Send(t.Context(), to, chat.Message{Text: "in the thread"}, "other"); err != nil {
			t.Error(err)
		}
		m = w.ann.Messages(w.private, w.bot)[1]
		if kind := m.Content["m.relates_to"].(map[string]any); kind["rel_type"] != "m.thread" || kind["is_falling_back"] != true {
			t.Errorf("the thread message is %+v", m)
		}
	})
}

// TestSentMessagesMentionNobody also checks that notices have their own type.
func TestSentMessagesMentionNobody(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		p := w.start().waitConnected()
		to := chat.Room{Chat: w.private}
		id, err := p.Send(t.Context(), to, chat.Message{Text: "@room: Ann, look"}, "one")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(t.Context(), to, chat.Message{Text: "Nothing is running.", Notice: true}, "two"); err != nil {
			t.Fatal(err)
		}
		got := w.ann.Messages(w.private, w.bot)
		for i, kind := range []string{"m.text", "m.notice"} {
			mentions, there := got[i].Content["m.mentions"].(map[string]any)
			if !there || len(mentions) != 0 || got[i].Content["msgtype"] != kind {
				t.Errorf("sent %+v, want an %s without mentions", got[i].Content, kind)
			}
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "@room: Ann, look again"}); err != nil {
			t.Fatal(err)
		}
		now := w.ann.Messages(w.private, w.bot)[0].Content
		if mentions, there := now["m.mentions"].(map[string]any); !there || len(mentions) != 0 {
			t.Errorf("the edited message is %+v", now)
		}
	})
}

// TestAKeyIsOneMessage checks the transaction id and, once the homeserver has forgotten it, the
// history.
func TestAKeyIsOneMessage(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		p := w.start().waitConnected()
		to := chat.Room{Chat: w.private}
		send := func(key string) string {
			t.Helper()
			id, err := p.Send(t.Context(), to, chat.Message{Text: "text of " + key}, key)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		find := func(key string) (id string) {
			t.Helper()
			id, found, err := p.Find(t.Context(), to, key, chat.Message{})
			if err != nil || found != (id != "") {
				t.Fatalf("%s: %q, %t, %v", key, id, found, err)
			}
			return id
		}
		one, two := send("one"), send("two")
		if again := send("one"); again != one || one == two {
			t.Errorf("the repeated key returned %s, want %s", again, one)
		}
		matrixtest.WaitFor(t, "the last in the history", func() bool { return find("two") == two })
		if find("one") != one || find("three") != "" {
			t.Error("Find returned a wrong result")
		}
		w.bot.Login() // another device does not share transaction ids
		w.mu.Lock()
		w.token = w.bot.Token
		w.mu.Unlock()
		p = w.reconnect()
		if find("one") != one || find("two") != two {
			t.Error("messages of the other device were not found")
		}
		for i := range 310 {
			w.bot.Says(w.private, fmt.Sprint(i))
		}
		matrixtest.WaitFor(t, "all of it", func() bool {
			_, _, err := p.Find(t.Context(), to, "one", chat.Message{})
			return errors.Is(err, chat.ErrNoHistory)
		})
	})
}

func TestALongTextIsSentWhole(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		p := w.start().waitConnected()
		for i, unit := range []string{"a", `"`, "\x01", "<", "é", "&"} {
			text := strings.Repeat(unit, matrix.MaxMessage/w.capabilities.Units(unit))
			id, err := p.Send(t.Context(), chat.Room{Chat: w.private}, chat.Message{Text: text}, fmt.Sprint(i))
			if err != nil {
				t.Fatalf("%q: %v", unit, err)
			}
			if err := p.Edit(t.Context(), chat.Room{Chat: w.private}, id, chat.Message{Text: text}); err != nil {
				t.Fatalf("%q: %v", unit, err)
			}
			matrixtest.WaitFor(t, "it", func() bool {
				said := w.ann.Messages(w.private, w.bot)
				return len(said) == i+1 && said[i].Body() == text
			})
		}
	})
}

func TestARoomThatTheBotLeftIsGone(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := newFixture(t, url)
		p := w.start().waitConnected()
		send := func(room string) error {
			_, err := p.Send(t.Context(), chat.Room{Chat: room}, chat.Message{Text: "x"}, room)
			return err
		}
		if err := send("!nowhere:test.example"); sendClass(err) != classGone {
			t.Errorf("unknown room: %v", err)
		}
		muted := w.ann.CreateRoom(map[string]any{"preset": "private_chat", "invite": []string{w.bot.ID}})
		w.bot.Joins(muted)
		w.ann.Sets(muted, "m.room.power_levels", map[string]any{"events_default": 50, "users": map[string]any{w.ann.ID: 100}})
		matrixtest.WaitFor(t, "the bot muted", func() bool { return send(muted) != nil })
		if err := send(muted); sendClass(err) != mailroom.ClassPermanent {
			t.Errorf("room without permission to send: %v", err)
		}
		w.ann.ChangeMember("kick", w.private, w.bot)
		if err := send(w.private); sendClass(err) != classGone {
			t.Errorf("room after a kick: %v", err)
		}
		if _, _, err := p.Find(t.Context(), chat.Room{Chat: "!nowhere:test.example"}, "x", chat.Message{}); sendClass(err) != classGone {
			t.Errorf("history of an unknown room: %v", err)
		}
		if err := p.Typing(t.Context(), chat.Room{Chat: w.private}); sendClass(err) != classGone {
			t.Errorf("typing in a room after a kick: %v", err)
		}
	})
}

func TestARateLimitAppliesToAllRooms(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	p := w.start().waitConnected()
	to := chat.Room{Chat: w.private}
	id, err := p.Send(t.Context(), to, chat.Message{Text: "**one**"}, "one")
	if err != nil {
		t.Fatal(err)
	}
	w.proxy.Limit(40 * time.Second)
	for name, call := range map[string]func() error{
		"send":   func() error { _, err := p.Send(t.Context(), to, chat.Message{Text: "**two**"}, "two"); return err },
		"edit":   func() error { return p.Edit(t.Context(), to, id, chat.Message{Text: "**two**"}) },
		"typing": func() error { return p.Typing(t.Context(), to) },
	} {
		before := len(w.proxy.Calls("send")) + len(w.proxy.Calls("typing"))
		err := call()
		f := mailroom.AsFailure(err)
		if f.Class != mailroom.ClassUnavailable || f.RetryAfter < 35*time.Second || f.RetryAfter > 41*time.Second || !errors.Is(err, chat.ErrEverywhere) || errors.Is(err, mailroom.ErrUnknown) {
			t.Errorf("%s: class %s, retry after %s: %v", name, f.Class, f.RetryAfter, err)
		}
		if n := len(w.proxy.Calls("send")) + len(w.proxy.Calls("typing")) - before; n != 1 {
			t.Errorf("%s was tried %d times", name, n)
		}
	}
}

const (
	classGone    = "gone"
	classUnknown = "unknown"
)

// sendClass classifies an error of Send.
func sendClass(err error) mailroom.Class {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, mailroom.ErrUnknown):
		return classUnknown
	case errors.Is(err, chat.ErrGone) && mailroom.AsFailure(err).Class == mailroom.ClassPermanent:
		return classGone
	}
	return mailroom.AsFailure(err).Class
}

func TestSendErrorsAreClassified(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	p := w.start().waitConnected()
	to := chat.Room{Chat: w.private}
	for _, c := range []struct {
		fault matrixtest.Fault
		want  mailroom.Class
	}{
		{matrixtest.Fault{Status: 400, Code: "M_BAD_JSON", Message: "no"}, mailroom.ClassPermanent},
		{matrixtest.Fault{Status: 413, Code: "M_TOO_LARGE", Message: "too large"}, mailroom.ClassPermanent},
		{matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN", Message: "no power"}, mailroom.ClassPermanent}, // the bot is still a member
		{matrixtest.Fault{Status: 403, Code: "M_USER_SUSPENDED", Message: "wait"}, mailroom.ClassUnavailable},
		{matrixtest.Fault{Status: 401, Code: "M_UNKNOWN_TOKEN", Message: "who?"}, mailroom.ClassUnavailable}, // the channel fails, and the message waits for a new token
		{matrixtest.Fault{Status: 404, Code: "M_UNRECOGNIZED", Message: "not here"}, mailroom.ClassUnavailable},
		{matrixtest.Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Message: "slow", RetryAfter: 0.005}, mailroom.ClassUnavailable},
		{matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "oh"}, classUnknown},
		{matrixtest.Fault{Status: 502, Raw: "<html>bad gateway</html>"}, classUnknown},
		{matrixtest.Fault{Status: 407, Raw: "<html>who are you?</html>"}, mailroom.ClassUnavailable}, // the proxy that answered has forwarded nothing
		{matrixtest.Fault{Raw: "what?"}, classUnknown},
		{matrixtest.Fault{Raw: "{}"}, classUnknown},
		{matrixtest.Fault{Half: true}, classUnknown},
		{matrixtest.Fault{Lose: true}, classUnknown},
	} {
		w.proxy.Fail("send", c.fault)
		_, err := p.Send(t.Context(), to, chat.Message{Text: "x"}, fmt.Sprint(c.fault))
		if got := sendClass(err); got != c.want {
			t.Errorf("%+v is %s, want %s: %v", c.fault, got, c.want, err)
		}
	}
	w.proxy.Fail("send", matrixtest.Fault{Hang: true})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Send(short, to, chat.Message{Text: "x"}, "x"); sendClass(err) != classUnknown {
		t.Errorf("a timeout is %s: %v", sendClass(err), err)
	}
	w.proxy.Fail("send", matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN"})
	w.proxy.Fail("state", matrixtest.Fault{Status: 500, Code: "M_UNKNOWN"})
	if _, err := p.Send(t.Context(), to, chat.Message{Text: "x"}, "y"); sendClass(err) != mailroom.ClassUnavailable {
		t.Errorf("a refusal without a known membership is %s: %v", sendClass(err), err)
	}
}

func TestAnUnsentMessageIsRetried(t *testing.T) {
	t.Parallel()
	w := newFixture(t, matrixtest.Start(t).URL)
	p := w.start().waitConnected()
	to := chat.Room{Chat: w.private}
	w.proxy.Down()
	_, err := p.Send(t.Context(), to, chat.Message{Text: "x"}, "x")
	for sendClass(err) == classUnknown { // an idle connection whose end was not noticed yet; there are few
		_, err = p.Send(t.Context(), to, chat.Message{Text: "x"}, "x")
	}
	if sendClass(err) != mailroom.ClassUnavailable {
		t.Errorf("a refused connection is %s: %v", sendClass(err), err)
	}
}
