package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

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
		Text: "**Run** `rm <x>`?", Buttons: []chat.Button{{Label: "Approve", Data: strings.Repeat("a", 64)}, {Label: "Deny", Data: "d"}}, ReplyTo: fmt.Sprintf("%d:%s", group.ID, asked),
	}, "key")
	if err != nil {
		t.Fatal(err)
	}
	m := group.Replies()[0]
	if m.Text != "Run rm <x>?" || m.Source != "<b>Run</b> <code>rm &lt;x&gt;</code>?" || m.Thread != to.Topic || len(m.Buttons) != 2 || m.ReplyTo != asked || m.ID != messageNumber(id) {
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
	if err := p.Edit(t.Context(), to, id, chat.Message{Text: "x"}); channeltest.SendClass(err) != mailroom.ClassPermanent || errors.Is(err, chat.ErrGone) {
		t.Errorf("an edit of a missing message: %v", err)
	}
}

func TestTextThatTelegramCannotParseIsSentPlain(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	p := newRecorder(t, tg).Start().AwaitConnected()
	tg.Fail("sendMessage", telegramtest.Fault{Status: 400, Message: `Bad Request: can't parse entities: Unsupported start tag "x" at byte offset 3`})
	id, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "some **odd** text"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := ann.Private().Replies()[0]; got.Text != "some **odd** text" || got.Source != "" {
		t.Errorf("sent %+v", got)
	}
	tg.Fail("editMessageText", telegramtest.Fault{Status: 400, Message: `Bad Request: can't parse entities: whatever`})
	if err := p.Edit(t.Context(), room(ann.Private()), id, chat.Message{Text: "*other*"}); err != nil || ann.Private().Texts()[0] != "*other*" {
		t.Errorf("edited to %q, %v", ann.Private().Texts(), err)
	}
	if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "```\n```"}, ""); err != nil || ann.Private().Texts()[1] != "```\n```" {
		t.Errorf("markup without text is sent as %q, %v", ann.Private().Texts(), err)
	}
}

func TestFloodLimitIsReportedWithoutAnotherTry(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	p := newRecorder(t, tg).Start().AwaitConnected()
	to := room(ann.Private())
	id, err := p.Send(t.Context(), to, chat.Message{Text: "**one**"}, "")
	if err != nil {
		t.Fatal(err)
	}
	tg.Limit(ann.Private(), 40*time.Second)
	for name, call := range map[string]func() error{
		"sendMessage":     func() error { _, err := p.Send(t.Context(), to, chat.Message{Text: "**two**"}, ""); return err },
		"editMessageText": func() error { return p.Edit(t.Context(), to, id, chat.Message{Text: "**two**"}) },
		"sendChatAction":  func() error { return p.Typing(t.Context(), to) },
	} {
		before := len(tg.Calls(name))
		err := call()
		f := mailroom.AsFailure(err)
		if f.Class != mailroom.ClassUnavailable || f.RetryAfter < 39*time.Second || f.RetryAfter > 41*time.Second || errors.Is(err, mailroom.ErrUnknown) {
			t.Errorf("%s: %s, after %s: %v", name, f.Class, f.RetryAfter, err)
		}
		if n := len(tg.Calls(name)) - before; n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
	}
}

func TestSendErrorsAreClassified(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	p := newRecorder(t, tg).Start().AwaitConnected()
	refusal := func(code int, words string) telegramtest.Fault {
		return telegramtest.Fault{Status: code, Message: words}
	}
	for _, c := range []struct {
		fault telegramtest.Fault
		want  mailroom.Class
	}{
		{refusal(403, "Forbidden: bot was blocked by the user"), channeltest.ClassGone},
		{refusal(403, "Forbidden: user is deactivated"), channeltest.ClassGone},
		{refusal(403, "Forbidden: bot was kicked from the supergroup chat"), channeltest.ClassGone},
		{refusal(403, "Forbidden: bot is not a member of the channel chat"), channeltest.ClassGone},
		{refusal(403, "Forbidden: bot can't initiate conversation with a user"), channeltest.ClassGone},
		{refusal(403, "Forbidden: the group chat was deleted"), channeltest.ClassGone},
		{refusal(400, "Bad Request: chat not found"), channeltest.ClassGone},
		{refusal(400, "Bad Request: message thread not found"), channeltest.ClassGone},
		{refusal(400, "Bad Request: not enough rights to send text messages to the chat"), mailroom.ClassPermanent},
		{refusal(400, "Bad Request: CHAT_WRITE_FORBIDDEN"), mailroom.ClassPermanent},
		{refusal(400, "Bad Request: TOPIC_CLOSED"), mailroom.ClassPermanent},
		{refusal(400, "Bad Request: message is too long"), mailroom.ClassPermanent},
		{refusal(413, "Request Entity Too Large"), mailroom.ClassPermanent},
		{refusal(401, "Unauthorized"), mailroom.ClassUnavailable}, // the message waits until the token is corrected
		{refusal(429, "Too Many Requests: retry after 5"), mailroom.ClassUnavailable},
		{refusal(500, "Internal Server Error"), channeltest.ClassUnknown},
		{telegramtest.Fault{Status: 502, Raw: "<html>bad gateway</html>"}, channeltest.ClassUnknown},
		{telegramtest.Fault{Status: 407, Raw: "<html>who are you?</html>"}, mailroom.ClassUnavailable}, // a proxy that has not forwarded the call
		{telegramtest.Fault{Raw: "what?"}, channeltest.ClassUnknown},
		{telegramtest.Fault{Half: true}, channeltest.ClassUnknown},
		{telegramtest.Fault{Lose: true}, channeltest.ClassUnknown},
	} {
		tg.Fail("sendMessage", c.fault)
		_, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"}, "")
		if got := channeltest.SendClass(err); got != c.want {
			t.Errorf("%+v is %s, want %s: %v", c.fault, got, c.want, err)
		}
	}
	tg.Fail("sendMessage", telegramtest.Fault{Hang: true})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Send(short, room(ann.Private()), chat.Message{Text: "x"}, ""); channeltest.SendClass(err) != channeltest.ClassUnknown {
		t.Errorf("a timeout is %s: %v", channeltest.SendClass(err), err)
	}
	if _, err := p.Send(t.Context(), chat.Room{Chat: "5"}, chat.Message{Text: "x"}, ""); channeltest.SendClass(err) != channeltest.ClassGone {
		t.Errorf("an unknown chat is %s: %v", channeltest.SendClass(err), err)
	}
	if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x", Buttons: []chat.Button{{Label: "y", Data: strings.Repeat("z", 65)}}}, ""); channeltest.SendClass(err) != mailroom.ClassPermanent {
		t.Errorf("a button with too much data is %s: %v", channeltest.SendClass(err), err)
	}
}

func TestUnsentMessageIsUnavailable(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	fx := newRecorder(t, tg).Start()
	p := fx.AwaitConnected()
	tg.Down()
	_, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"}, "")
	for channeltest.SendClass(err) == channeltest.ClassUnknown { // an idle connection whose end was not noticed; there are few
		_, err = p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"}, "")
	}
	if channeltest.SendClass(err) != mailroom.ClassUnavailable {
		t.Errorf("a refused connection is %s: %v", channeltest.SendClass(err), err)
	}
	// A listener that accepts and closes connections may have received the message.
	ln, err := net.Listen("tcp", strings.TrimPrefix(tg.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			_, _ = c.Read(buf) // part of the request is enough
			_ = c.Close()      // without a response
		}
	}()
	if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"}, ""); channeltest.SendClass(err) != channeltest.ClassUnknown {
		t.Errorf("a closed connection is %s: %v", channeltest.SendClass(err), err)
	}
	_ = ln.Close() // ends the goroutine
	<-closed
}
