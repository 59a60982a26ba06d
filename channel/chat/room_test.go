package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel"
)

func TestNoTwoConversationsShareAName(t *testing.T) {
	seen := map[string][]string{}
	words := []string{"", "a", "a:b", "b", ":"}
	for _, chat := range words[1:] {
		for _, topic := range words {
			for _, user := range words {
				for _, since := range words {
					named := []string{chat, topic, user, since}
					id := channel.ThreadID("t", Room{Chat: chat, Topic: topic}.ConversationWords("bot", user, since)...)
					if other, ok := seen[id]; ok {
						t.Errorf("%q and %q are both %s", named, other, id)
					}
					seen[id] = named
				}
			}
		}
	}
	plain := channel.ThreadID("t", Room{Chat: "a"}.ConversationWords("bot", "", "")...)
	if want := channel.ThreadID("t", Room{Chat: "a"}.Words("bot")...); plain != want {
		t.Errorf("the first conversation of a chat is %s, and its room %s", plain, want)
	}
}

func TestARoomIsParsedFromLabelsAndThreads(t *testing.T) {
	for _, p := range []Room{{Chat: "1"}, {Chat: "!room:example.org", Topic: "$a:b"}, {Chat: "#c", Topic: "%3A"},
		{Chat: "-1", Group: true}} {
		if got, ok := RoomOf(p.Labels()); !ok || got != p {
			t.Errorf("from labels: %+v, want %+v", got, p)
		}
		want := p
		want.Group = false
		got, ok := RoomOfThread("tg", "bot:1", channel.DeliveryThreadID(channel.ThreadID("tg", p.Words("bot:1")...)))
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("from the thread: %s", diff)
		}
	}
	long := channel.DeliveryThreadID(channel.ThreadID("tg",
		Room{Chat: strings.Repeat("x", mailroom.MaxThreadID)}.Words("bot")...))
	for _, id := range []string{long, "out:tg:bot", "out:tg:bot:", "tg:bot:1", "out:tg:other:1", "out:tg:bot:a:b:c",
		"out:tg:bot:%zz", "out:tg:bot:a:"} {
		if p, ok := RoomOfThread("tg", "bot", id); ok {
			t.Errorf("%s is read as %+v", id, p)
		}
	}
}
