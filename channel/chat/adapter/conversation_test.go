package adapter_test

import (
	"context"
	"fmt"
	"testing"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

func TestAMessageIsAnsweredInItsRoom(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(friend, "hello")
	sent := w.platform.AwaitSent(1)
	wantEqual(t, "sent", texts(sent), []string{"hello!"})
	wantEqual(t, "where", sent[0].Room, PrivateRoom(friend))
	wantEqual(t, "threads", w.threads(), []string{"out:tg:bot-1:with-friend", "tg:bot-1:with-friend"})
}

// TestAVerbatimAnswerHasNoMarkup sends an answer with the words of an agent and a link of the server.
func TestAVerbatimAnswerHasNoMarkup(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(friend, "hello")
	w.platform.AwaitSent(1)
	err := channel.SendAnswer(t.Context(), w.ledger, "tg", channel.Answer{
		Room: []string{"bot-1", "with-friend"}, Key: "k", Verbatim: "[x](https://evil.example)\n```\n**y**",
		Text: "https://mail.example.org", Later: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "sent", texts(w.platform.AwaitSent(2))[1],
		"```\n[x](https://evil.example)\n` ` `\n**y**\n```\nhttps://mail.example.org")
}

func TestRepeatedEventsChangeNothing(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(friend, "hello")
	w.awaitText("hello!")
	w.platform.SendPrivate(friend, "/new")
	w.platform.SendPrivate(friend, "again")
	w.awaitText("again!")
	w.platform.SendPrivate(friend, "/help")
	w.platform.SendPrivate(friend, "/stop")
	w.awaitSettled()
	before := w.threads()
	n := len(w.platform.Sent())
	w.platform.Redeliver(0)
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(2), []string{"hello", "again"})
	wantEqual(t, "messages", len(w.platform.Sent()), n)
	wantEqual(t, "threads", w.threads(), before)
}

func TestInAGroupOnlyAddressedMessagesAreRead(t *testing.T) {
	w := newFixture(t).start()
	group := func(text string, addressed bool) {
		w.platform.AddEvent(chat.Event{Kind: chat.EventMessage, Room: GroupRoom(room), User: chat.User{ID: "x", Name: "X"},
			Text: text, Addressed: addressed})
	}
	group("chatter", false)
	group("@Mailbot one", false)
	group("two", true)
	group("mailbot: three", false)
	group("mailbotics four", false)
	group("/status", false)
	group("/status@otherbot", true)
	group("/status@mailbot", false)
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(3),
		[]string{"From tg:x (calls themselves \"X\"):\n> one", "From tg:x (calls themselves \"X\"):\n> two",
			"From tg:x (calls themselves \"X\"):\n> three"})
	wantEqual(t, "sent", len(w.platform.Sent()), 4)
}

// TestANewConversationHasANewSession has an agent that keeps a session in its state, as programs do.
func TestANewConversationHasANewSession(t *testing.T) {
	began := 0
	agent := func(ctx context.Context, s mailroom.Session) error {
		session := string(s.State())
		if session == "" {
			began++
			session = fmt.Sprintf(`"session %d"`, began)
			if err := s.Append(ctx, mailroom.Step{State: []byte(session)}); err != nil {
				return err
			}
		}
		return s.Stream(ctx, session)
	}
	withServer(t, agent, func(o *serverFixture) {
		o.start()
		for i, text := range []string{"one", "two", "/new", "three", "four"} {
			o.platform.SendPrivate("ann", text)
			o.platform.AwaitSent(i + 1)
			o.awaitSettled(i + 1)
		}
		o.expectSent(`"session 1"`, `"session 1"`, "A new conversation begins. Replies of the old one still arrive here.",
			`"session 2"`, `"session 2"`)
	})
}
