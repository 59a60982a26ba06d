package matrix_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

func TestAMessageIsSentAndEdited(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		p := r.Start().AwaitConnected()
		asked := w.ann.Says(w.rooms[channeltest.Ann], "well?")
		to := chat.Room{Chat: w.rooms[channeltest.Ann], Topic: asked}
		id, err := p.Send(t.Context(), to, chat.Message{Text: "**Run** `rm <x>`?",
			ReplyTo: w.ann.Says(w.rooms[channeltest.Ann], "say", matrixtest.Thread(asked))}, "key")
		if err != nil {
			t.Fatal(err)
		}
		m := w.ann.Messages(w.rooms[channeltest.Ann], w.bot)[0]
		related, _ := m.Content["m.relates_to"].(map[string]any)
		if m.ID != id || m.Body() != "**Run** `rm <x>`?" ||
			m.Content["formatted_body"] != "<b>Run</b> <code>rm &lt;x&gt;</code>?" || related["rel_type"] != "m.thread" ||
			related["event_id"] != asked || related["is_falling_back"] != nil {
			t.Errorf("sent %+v as %s", m, id)
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved & *done*."}); err != nil {
			t.Fatal(err)
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved & done."}); err != nil {
			t.Fatal(err)
		}
		if got := w.ann.Messages(w.rooms[channeltest.Ann], w.bot); len(got) != 1 || got[0].Body() != "Approved & done." ||
			got[0].Content["formatted_body"] != nil {
			t.Errorf("the edited message is %+v", got)
		}
		if err := p.Typing(t.Context(), to); err != nil {
			t.Error(err)
		}
		if _, err := p.Send(t.Context(), to, chat.Message{Text: "in the thread"}, "other"); err != nil {
			t.Error(err)
		}
		m = w.ann.Messages(w.rooms[channeltest.Ann], w.bot)[1]
		if kind := m.Content["m.relates_to"].(map[string]any); kind["rel_type"] != "m.thread" ||
			kind["is_falling_back"] != true {
			t.Errorf("the thread message is %+v", m)
		}
	})
}

// TestSentMessagesMentionNobody also checks that notices have their own type.
func TestSentMessagesMentionNobody(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		p := r.Start().AwaitConnected()
		to := chat.Room{Chat: w.rooms[channeltest.Ann]}
		id, err := p.Send(t.Context(), to, chat.Message{Text: "@room: Ann, look"}, "one")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(t.Context(), to, chat.Message{Text: "Nothing is running.", Notice: true}, "two"); err != nil {
			t.Fatal(err)
		}
		got := w.ann.Messages(w.rooms[channeltest.Ann], w.bot)
		for i, kind := range []string{"m.text", "m.notice"} {
			mentions, there := got[i].Content["m.mentions"].(map[string]any)
			if !there || len(mentions) != 0 || got[i].Content["msgtype"] != kind {
				t.Errorf("sent %+v, want an %s without mentions", got[i].Content, kind)
			}
		}
		if err := p.Edit(t.Context(), to, id, chat.Message{Text: "@room: Ann, look again"}); err != nil {
			t.Fatal(err)
		}
		now := w.ann.Messages(w.rooms[channeltest.Ann], w.bot)[0].Content
		if mentions, there := now["m.mentions"].(map[string]any); !there || len(mentions) != 0 {
			t.Errorf("the edited message is %+v", now)
		}
	})
}

// TestASecondSendWithTheSameKeyAddsNoMessage checks the transaction id and, once the homeserver has forgotten it, the
// history.
func TestASecondSendWithTheSameKeyAddsNoMessage(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		p := r.Start().AwaitConnected()
		to := chat.Room{Chat: w.rooms[channeltest.Ann]}
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
			t.Error("Find found a message of another key or room")
		}
		w.bot.Login() // another device does not share transaction ids
		w.token.Set(w.bot.Token)
		p = r.Reconnect()
		if find("one") != one || find("two") != two {
			t.Error("messages of the other device were not found")
		}
		for i := range 310 {
			w.bot.Says(w.rooms[channeltest.Ann], fmt.Sprint(i))
		}
		matrixtest.WaitFor(t, "all of it", func() bool {
			_, _, err := p.Find(t.Context(), to, "one", chat.Message{})
			return errors.Is(err, chat.ErrNoHistory)
		})
	})
}

func TestALongTextIsSentWhole(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		p := r.Start().AwaitConnected()
		for i, unit := range []string{"a", `"`, "\x01", "<", "é", "&"} {
			text := strings.Repeat(unit, matrix.MaxMessage/r.Capabilities().Units(unit))
			id, err := p.Send(t.Context(), chat.Room{Chat: w.rooms[channeltest.Ann]}, chat.Message{Text: text}, fmt.Sprint(i))
			if err != nil {
				t.Fatalf("%q: %v", unit, err)
			}
			if err := p.Edit(t.Context(), chat.Room{Chat: w.rooms[channeltest.Ann]}, id, chat.Message{Text: text}); err != nil {
				t.Fatalf("%q: %v", unit, err)
			}
			matrixtest.WaitFor(t, "it", func() bool {
				said := w.ann.Messages(w.rooms[channeltest.Ann], w.bot)
				return len(said) == i+1 && said[i].Body() == text
			})
		}
	})
}

func TestARoomThatTheBotLeftIsGone(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w, r := newRecorder(t, url, "")
		p := r.Start().AwaitConnected()
		send := func(room string) error {
			_, err := p.Send(t.Context(), chat.Room{Chat: room}, chat.Message{Text: "x"}, room)
			return err
		}
		if err := send("!nowhere:test.example"); channeltest.SendClass(err) != channeltest.ClassGone {
			t.Errorf("unknown room: %v", err)
		}
		muted := w.ann.CreateRoom(map[string]any{"preset": "private_chat", "invite": []string{w.bot.ID}})
		w.bot.Joins(muted)
		w.ann.Sets(muted, "m.room.power_levels", map[string]any{"events_default": 50, "users": map[string]any{w.ann.ID: 100}})
		matrixtest.WaitFor(t, "the bot muted", func() bool { return send(muted) != nil })
		if err := send(muted); channeltest.SendClass(err) != mailroom.ClassPermanent {
			t.Errorf("room without permission to send: %v", err)
		}
		w.ann.ChangeMember("kick", w.rooms[channeltest.Ann], w.bot)
		if err := send(w.rooms[channeltest.Ann]); channeltest.SendClass(err) != channeltest.ClassGone {
			t.Errorf("room after a kick: %v", err)
		}
		if _, _, err := p.Find(t.Context(), chat.Room{Chat: "!nowhere:test.example"}, "x",
			chat.Message{}); channeltest.SendClass(err) != channeltest.ClassGone {
			t.Errorf("history of an unknown room: %v", err)
		}
		if err := p.Typing(t.Context(),
			chat.Room{Chat: w.rooms[channeltest.Ann]}); channeltest.SendClass(err) != channeltest.ClassGone {
			t.Errorf("typing in a room after a kick: %v", err)
		}
	})
}

func TestARefusalWithoutAKnownMembershipIsRetried(t *testing.T) {
	t.Parallel()
	w, r := newRecorder(t, matrixtest.Start(t).URL, "")
	p := r.Start().AwaitConnected()
	to := chat.Room{Chat: w.rooms[channeltest.Ann]}
	w.proxy.Fail("send", matrixtest.Fault{Status: 403, Code: "M_FORBIDDEN"})
	w.proxy.Fail("state", matrixtest.Fault{Status: 500, Code: "M_UNKNOWN"})
	if _, err := p.Send(t.Context(), to, chat.Message{Text: "x"},
		"y"); channeltest.SendClass(err) != mailroom.ClassUnavailable {
		t.Errorf("a refusal without a known membership is %s: %v", channeltest.SendClass(err), err)
	}
}
