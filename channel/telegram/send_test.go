package telegram_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/telegram/telegramtest"
)

func room(c *telegramtest.Chat) chat.Room {
	return chat.Room{Chat: fmt.Sprint(c.ID), Group: c.Type != "private"}
}

// messageNumber returns the number of a message id within its chat.
func messageNumber(id string) string {
	_, at, _ := strings.Cut(id, ":")
	return at
}

func TestAMessageIsSentAndEdited(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann, group := tg.Person("Ann"), tg.Group("team")
	p := newRecorder(t, tg).Start().AwaitConnected()
	to := room(group)
	to.Topic = fmt.Sprint(group.Topic())
	asked := ann.Sends(group, "well?")
	id, err := p.Send(t.Context(), to, chat.Message{
		Text: "**Run** `rm <x>`?", Buttons: []chat.Button{{Label: "Approve", Data: strings.Repeat("a", 64)},
			{Label: "Deny", Data: "d"}}, ReplyTo: fmt.Sprintf("%d:%s", group.ID, asked),
	}, "key")
	if err != nil {
		t.Fatal(err)
	}
	m := group.Replies()[0]
	if m.Text != "Run rm <x>?" || m.Source != "<b>Run</b> <code>rm &lt;x&gt;</code>?" || m.Thread != to.Topic ||
		len(m.Buttons) != 2 || m.ReplyTo != asked || m.ID != messageNumber(id) {
		t.Errorf("sent %+v with id %s", m, id)
	}
	if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved."}); err != nil {
		t.Fatal(err)
	}
	if m := group.Replies()[0]; m.Text != "Approved." || len(m.Buttons) != 0 {
		t.Errorf("after the edit: %+v", m)
	}
	if err := p.Edit(t.Context(), to, id, chat.Message{Text: "Approved."}); err != nil {
		t.Errorf("an edit that changes nothing: %v", err)
	}
	if err := p.Typing(t.Context(), to); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Find(t.Context(), to, "key", chat.Message{}); !errors.Is(err, chat.ErrNoHistory) {
		t.Errorf("Find: %v", err)
	}
	if _, err := p.Send(t.Context(), to, chat.Message{Text: "and", ReplyTo: "1:999"}, ""); err != nil {
		t.Errorf("a reply to a missing message: %v", err)
	}
	group.Remove(messageNumber(id))
	if err := p.Edit(t.Context(), to, id,
		chat.Message{Text: "x"}); channeltest.SendClass(err) != mailroom.ClassPermanent || errors.Is(err, chat.ErrGone) {
		t.Errorf("an edit of a missing message: %v", err)
	}
}

func TestTextThatTelegramCannotParseIsSentPlain(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	p := newRecorder(t, tg).Start().AwaitConnected()
	tg.Fail("sendMessage", telegramtest.Fault{Status: 400,
		Message: `Bad Request: can't parse entities: Unsupported start tag "x" at byte offset 3`})
	id, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "some **odd** text"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := ann.Private().Replies()[0]; got.Text != "some **odd** text" || got.Source != "" {
		t.Errorf("sent %+v", got)
	}
	tg.Fail("editMessageText", telegramtest.Fault{Status: 400, Message: `Bad Request: can't parse entities: whatever`})
	if err := p.Edit(t.Context(), room(ann.Private()), id, chat.Message{Text: "*other*"}); err != nil ||
		ann.Private().Texts()[0] != "*other*" {
		t.Errorf("edited to %q, %v", ann.Private().Texts(), err)
	}
	if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "```\n```"}, ""); err != nil ||
		ann.Private().Texts()[1] != "```\n```" {
		t.Errorf("markup without text is sent as %q, %v", ann.Private().Texts(), err)
	}
}

func TestAButtonWithTooMuchDataIsRefused(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	p := newRecorder(t, tg).Start().AwaitConnected()
	if _, err := p.Send(t.Context(), room(ann.Private()),
		chat.Message{Text: "x", Buttons: []chat.Button{{Label: "y", Data: strings.Repeat("z", 65)}}},
		""); channeltest.SendClass(err) != mailroom.ClassPermanent {
		t.Errorf("a button with too much data is %s: %v", channeltest.SendClass(err), err)
	}
}
