package slack_test

import (
	"testing"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
)

// TestAFileOfUnknownOutcomeIsFoundByItsName loses the response to each call of an upload. Only the last one shows the
// file.
func TestAFileOfUnknownOutcomeIsFoundByItsName(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	dev := sl.Channel("dev")
	p := newRecorder(t, sl).Start().AwaitConnected()
	at := chat.Room{Chat: dev.ID, Group: true}
	m := chat.Message{Text: "the rest", File: &chat.Upload{Name: "reply-1.md", Content: []byte("all of it")}}
	for _, c := range []struct {
		lost  string
		class mailroom.Class
		found bool
	}{
		{"files.getUploadURLExternal", mailroom.ClassUnavailable, false},
		{"files.completeUploadExternal", channeltest.ClassUnknown, true},
	} {
		sl.Fail(c.lost, slacktest.Fault{Lose: true})
		if _, err := p.Send(t.Context(), at, m, "key"); channeltest.SendClass(err) != c.class {
			t.Errorf("%s lost: class %s, want %s: %v", c.lost, channeltest.SendClass(err), c.class, err)
		}
		if id, found, err := p.Find(t.Context(), at, "key", m); found != c.found || err != nil || found && id == "" {
			t.Errorf("%s lost: found %q, %t, %v", c.lost, id, found, err)
		}
	}
	other := chat.Message{Text: "the rest", File: &chat.Upload{Name: "reply-2.md"}}
	if _, found, err := p.Find(t.Context(), at, "other", other); found || err != nil {
		t.Errorf("another file: found %t, %v", found, err)
	}
}
