package node

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/channel"
	"mailroom/internal/thread"
	"mailroom/store"
)

// submits is a ledger that records submits.
type submits struct {
	channel.Ledger
	all []thread.Submit
}

func (s *submits) Submit(_ context.Context, in thread.Submit) (store.Submitted, error) {
	s.all = append(s.all, in)
	return store.Submitted{}, nil
}

// TestAChatShowsTheWordsOfAnAlertAsTheyAre sends a question to a chat. Only the link is text of the bot.
func TestAChatShowsTheWordsOfAnAlertAsTheyAre(t *testing.T) {
	l := &submits{}
	to := chatTarget{
		target: "team", ledger: l, channel: "tg", room: []string{"bot", "1"},
		condition: func(string) channel.Condition { return channel.ConditionConnected },
	}
	const link = "https://mail.example.org/decide#a"
	for _, m := range []alert.Message{
		{Key: "k", Title: "codex asks: [x](https://evil.example)", Body: "**y**\nIn t.", URL: link},
		{Key: "l", Title: "*codex* failed"},
	} {
		if _, err := to.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	plain := func(text string) mailroom.Part {
		return mailroom.Part{Type: "text", Text: text, MimeType: "text/plain"}
	}
	want := [][]mailroom.Part{
		{plain("codex asks: [x](https://evil.example)\n**y**\nIn t."), {Type: "text", Text: link}},
		{plain("*codex* failed")},
	}
	for i, in := range l.all {
		if diff := cmp.Diff(want[i], in.Messages[0].Parts); diff != "" {
			t.Errorf("message %d (-want +got):\n%s", i, diff)
		}
	}
	if len(l.all) != len(want) {
		t.Errorf("%d messages, want %d", len(l.all), len(want))
	}
}
