package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/channel/chat"
)

// burst has messages that belong together in private, and messages of two people in a group. No message of one person
// joins one of another.
func burst(s *Server) {
	s.Options.Access.Join = chat.MaxJoin
	s.Options.Access.Chats = []string{s.p.People.Room(Dev).Chat}
	s.Options.Previews = false
	s.Agent = func(ctx context.Context, run mailroom.Session) error {
		input, err := run.Input(ctx)
		if err != nil {
			return err
		}
		var words []string
		for _, m := range input {
			words = append(words, last(strings.Fields(m.Text)))
		}
		return run.Stream(ctx, fmt.Sprintf("%d heard: %s", len(input), strings.Join(words, ", ")))
	}
	s.startConnected()
	for _, text := range []string{"one", "two", "three"} {
		s.say(Ann, Ann, text)
	}
	s.awaitText(Ann, "three")
	s.say(Ann, Dev, "a")
	s.say(Bob, Dev, "b")
	s.say(Bob, Dev, "c")
	s.say(Ann, Dev, "d")
	s.awaitTexts(Dev, "all answers", func(all string) bool {
		return strings.Count(all, "heard") >= 3 && strings.Contains(all, "c") && strings.Contains(all, ": d")
	})
	s.AwaitSettled()
	if got, want := s.p.texts(Ann), []string{"3 heard: one, two, three"}; !slices.Equal(got, want) {
		s.t.Errorf("in private: %q, want %q", got, want)
	}
	group := s.p.texts(Dev)
	slices.Sort(group) // on Slack, each message of a group begins a conversation
	got := strings.Join(group, "\n")
	if got != "1 heard: a\n1 heard: d\n2 heard: b, c" && got != "1 heard: a\n1 heard: b\n1 heard: c\n1 heard: d" {
		s.t.Errorf("in the group: %q", got)
	}
}

func last(words []string) string { return words[len(words)-1] }
