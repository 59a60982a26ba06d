package slack_test

import (
	"strings"
	"testing"

	"mailroom/channel/channeltest"
	"mailroom/channel/slack/slacktest"
)

func TestACommandDecidesInTheThreadThatAsked(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	s := channeltest.NewServer(t, newPlatform(t, sl))
	s.Agent, s.Options.Access.Admins = channeltest.Ask, []string{ann.ID}
	s.Start()
	one := ann.Sends(dev, mention+" clean up")
	two := ann.Sends(dev, mention+" clean up too")
	asked := func(thread string) (n int) {
		for _, m := range dev.Replies() {
			if m.Thread == thread && len(m.Buttons) > 0 {
				n++
			}
		}
		return n
	}
	sl.WaitFor(t, "both questions", func() bool { return asked(one) == 1 && asked(two) == 1 })
	s.AwaitDelivered() // wait until the receipts of the questions are stored
	ann.Sends(dev, mention+" !approve", slacktest.MessageOptions{Thread: two})
	replied := func(thread, text string) bool {
		for _, m := range dev.Replies() {
			if m.Thread == thread && strings.Contains(m.Text, text) {
				return true
			}
		}
		return false
	}
	sl.WaitFor(t, "the outcome of the second question", func() bool {
		return replied(two, "Decision: approve.") && asked(two) == 0
	})
	if asked(one) != 1 || replied(one, "Decision") {
		t.Errorf("the other question was decided: %q", dev.Texts())
	}
	ann.Sends(ann.Private(), "!help")
	sl.WaitFor(t, "the help", func() bool { return len(ann.Private().Texts()) > 0 })
	if text := ann.Private().Texts()[0]; !strings.Contains(text, "!approve") || strings.Contains(text, "/") {
		t.Errorf("help: %q", text)
	}
}
