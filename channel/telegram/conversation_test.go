package telegram_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/channel/channeltest"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
)

func TestTheMenuHasTheCommands(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	channeltest.NewRecorder(t, newPlatform(t, tg, func(o *telegram.Options) {
		o.Commands = []telegram.Command{{Name: "stop", Description: "stop it"}}
	})).Start().AwaitConnected()
	tg.WaitFor(t, "the menu", func() bool { return tg.Commands() == 1 })
}

// TestAnOldApprovalInATopicIsDecided presses a button of a message that is too old for the bot
// to access: the update does not contain the topic.
func TestAnOldApprovalInATopicIsDecided(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	forum, other := tg.Group("forum"), tg.Group("other")
	topic := forum.Topic()
	s := channeltest.NewServer(t, newPlatform(t, tg))
	s.Agent, s.Options.Access.Admins = channeltest.Ask, []string{fmt.Sprint(ann.ID)}
	s.Start()
	ann.Sends(forum, "@mailroom_bot clean up", telegramtest.MessageOptions{Topic: topic})
	var q telegramtest.Message
	tg.WaitFor(t, "the question", func() bool {
		for _, m := range forum.Replies() {
			if len(m.Buttons) > 0 {
				q = m
			}
		}
		return q.ID != ""
	})
	elsewhere := ann.PressesInaccessibleData(other, q.Buttons[0].Data) // the same data in another chat
	tg.WaitFor(t, "the answer to the press elsewhere", func() bool { return len(elsewhere.Answers()) > 0 })
	if answer := elsewhere.Answers()[0]; !strings.Contains(answer, "matches no question") {
		t.Errorf("a press in another chat was answered %q", answer)
	}
	press := ann.PressesInaccessible(forum, q.ID, q.Buttons[0].Label)
	tg.WaitFor(t, "the reply of the agent", func() bool {
		return strings.Contains(strings.Join(forum.Texts(), "\n"), "Decision: approve.")
	})
	tg.WaitFor(t, "the answer to the press", func() bool { return len(press.Answers()) > 0 })
	if answer := press.Answers()[0]; !strings.HasPrefix(answer, "Approved by ") {
		t.Errorf("the press was answered %q", answer)
	}
}
