package channeltest

import (
	"strings"

	"mailroom"
	"mailroom/store"
)

// wordsOfOthers has Ann pass on a command of Mallory, and answer a message that addresses the bot without
// addressing it herself.
func wordsOfOthers(s *Server) {
	s.startConnected()
	if s.p.People.Forward != nil {
		prefix := s.Capabilities().CommandPrefix
		if prefix == "" {
			prefix = "/"
		}
		s.p.People.Forward(Ann, Ann, prefix+"status")
		s.awaitTexts(Ann, "an answer", func(all string) bool {
			return strings.Contains(all, "Forwarded from") || strings.Contains(all, Agent+" is ")
		})
		if all := s.texts(Ann); !strings.Contains(all, prefix+"status") || strings.Contains(all, Agent+" is ") {
			s.t.Errorf("the forwarded command is answered %q", all)
		}
	}
	if s.p.People.Quote != nil {
		s.p.People.Quote(Ann, Dev, "good idea")
	}
	s.say(Ann, Dev, "the end")
	s.awaitText(Dev, "the end")
	s.AwaitSettled()
	if all := s.texts(Dev); strings.Contains(all, "good idea") || strings.Contains(all, "do it") {
		s.t.Errorf("the group has %q, an answer to a quotation", all)
	}
}

// wordless has Ann send messages without text, and messages of kinds that the adapter does not know.
func wordless(s *Server) {
	s.startConnected()
	if s.p.People.Wordless != nil {
		about := s.p.People.Wordless(Ann, Ann)
		s.awaitTexts(Ann, about, func(all string) bool {
			return strings.Contains(all, about) || strings.Contains(all, "I cannot read")
		})
		if all := s.texts(Ann); !strings.Contains(all, about) {
			s.t.Fatalf("the answer is %q, want %q in it", all, about)
		}
	}
	if s.p.People.Unknown != nil {
		s.p.People.Unknown(Ann, Ann)
		s.p.People.Unknown(Ann, Ann)
		s.awaitText(Ann, "I cannot read this kind of message")
	}
	s.say(Ann, Ann, "the end")
	s.awaitText(Ann, "the end")
	s.AwaitSettled()
	if n := strings.Count(s.texts(Ann), "I cannot read"); n > 1 {
		s.t.Errorf("%d answers to unknown messages", n)
	}
}

// topicDeleted deletes a topic while the agent works on its message. The group gets the answer, once.
func topicDeleted(s *Server) {
	if s.p.People.Topic == nil {
		s.startConnected()
		return
	}
	gate := make(chan struct{})
	s.hold = gate
	s.startConnected()
	say, destroy := s.p.People.Topic(Ann)
	say("what now?")
	s.Await("the run", func() bool {
		return s.runs(store.RunQuery{Agent: Agent, Statuses: []mailroom.Status{mailroom.StatusRunning}}) == 1
	})
	destroy()
	close(gate)
	s.Await("the end of the delivery", func() bool {
		return strings.Contains(s.texts(Dev), "The answer of a deleted topic") ||
			s.runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}}) > 0
	})
	s.say(Ann, Dev, "the end")
	s.awaitText(Dev, "the end")
	s.AwaitSettled()
	all := s.texts(Dev)
	if strings.Count(all, "The answer of a deleted topic") != 1 || strings.Count(all, "what now?") != 1 {
		s.t.Errorf("the group has %q, want the answer once", all)
	}
	if now := s.State(); !strings.Contains(now.LastError, "gone") {
		s.t.Errorf("the last error is %q", now.LastError)
	}
}
