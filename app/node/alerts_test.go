package node

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/channel"
	"mailroom/store"
	"mailroom/thread"
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

// TestTheLogOfAChatHasNoLinkThatDecides sends a question to a chat: what is stored has no signature, and the channel
// makes the same link of it each time that it sends.
func TestTheLogOfAChatHasNoLinkThatDecides(t *testing.T) {
	l := &submits{}
	to := chatTarget{
		target: "team", ledger: l, channel: "tg", room: []string{"bot", "1"},
		condition: func(string) channel.Condition { return channel.ConditionConnected },
	}
	links := alert.NewLinks("secret")
	link := alert.Link{Ticket: "k", Digest: "d", Thread: "alert:team", Place: "p", Expires: time.Unix(1800000000, 0).UTC()}
	url := "https://mail.example.org/decide#" + links.Sign(link)
	if _, err := to.Send(t.Context(), alert.Message{Key: "k", Title: "codex asks: Deploy?", URL: url,
		Decides: &link}); err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(l.all)
	if err != nil {
		t.Fatal(err)
	}
	if signature := url[strings.LastIndex(url, "~")+1:]; len(l.all) != 1 || strings.Contains(string(stored), signature) ||
		strings.Contains(string(stored), "decide") {
		t.Errorf("stored: %s", stored)
	}
	if got := links.SignLabels("https://mail.example.org", l.all[0].Metadata); got != url {
		t.Errorf("the channel sends %q, want %q", got, url)
	}
	if got := links.SignLabels("https://mail.example.org", map[string]string{alert.LabelAlert: "team"}); got != "" {
		t.Errorf("a message without a question has the link %q", got)
	}
}
