package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/store"
	"mailroom/thread"
)

// burst has messages that belong together in private, and messages of two people in a group. Messages of different
// people are never joined.
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
	s.wrap = func(l channel.Ledger) channel.Ledger { return patientLedger{l} }
	s.startConnected()
	for _, text := range []string{"one", "two", "three"} {
		s.say(Ann, Ann, text)
	}
	s.endBursts(3)
	s.awaitText(Ann, "three")
	s.say(Ann, Dev, "a")
	s.say(Bob, Dev, "b")
	s.say(Bob, Dev, "c")
	s.say(Ann, Dev, "d")
	s.endBursts(8) // with what ended the first one
	s.awaitTexts(Dev, "all answers", func(all string) bool {
		return strings.Count(all, "heard") >= 3 && strings.Contains(all, "c") && strings.Contains(all, ": d")
	})
	s.AwaitSettled()
	isEnd := func(text string) bool { return text == "1 heard: "+endOfBurst }
	want := []string{"3 heard: one, two, three"}
	if got := slices.DeleteFunc(s.p.texts(Ann), isEnd); !slices.Equal(got, want) {
		s.t.Errorf("in private: %q, want %q", got, want)
	}
	group := slices.DeleteFunc(s.p.texts(Dev), isEnd)
	slices.Sort(group) // on Slack, each message of a group begins a conversation
	got := strings.Join(group, "\n")
	if got != "1 heard: a\n1 heard: d\n2 heard: b, c" && got != "1 heard: a\n1 heard: b\n1 heard: c\n1 heard: d" {
		s.t.Errorf("in the group: %q", got)
	}
}

func last(words []string) string { return words[len(words)-1] }

// patientLedger lets each message wait for more as long as the limit allows, so that a slow machine splits no burst.
type patientLedger struct{ channel.Ledger }

func (l patientLedger) Submit(ctx context.Context, in thread.Submit) (store.Submitted, error) {
	if in.Join > 0 {
		in.Join = mailroom.MaxJoin
	}
	return l.Ledger.Submit(ctx, in)
}

// endOfBurst is the message that ends the wait of a burst: nothing overtakes.
const endOfBurst = "end"

// endBursts waits until there are n messages, and ends the waits for more.
func (s *Server) endBursts(n int) {
	s.t.Helper()
	var waiting []string // threads
	await(s.t, fmt.Sprintf("%d messages", n), func() bool {
		inputs := 0
		waiting = nil
		err := s.store.View(s.t.Context(), func(r store.Reader) error {
			runs, err := r.Runs(store.RunQuery{Agent: Agent})
			for _, run := range runs {
				inputs += len(run.Inputs)
				if run.Joins {
					waiting = append(waiting, run.Thread)
				}
			}
			return err
		})
		return err == nil && inputs >= n
	}, func() string { return fmt.Sprintf("waiting: %q", waiting) })
	for _, id := range waiting {
		end := []thread.NewMessage{{Parts: mailroom.Text(endOfBurst)}}
		in := thread.Submit{Thread: id, Agent: Agent, Sender: "test", Messages: end}
		if _, err := s.ledger.Submit(s.t.Context(), in); err != nil {
			s.t.Error(err)
		}
	}
}
