package channeltest

import "strings"

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

// wordless has Ann send what has no text, and what the adapter does not know.
func wordless(s *Server) {
	s.startConnected()
	if s.p.People.Wordless != nil {
		about := s.p.People.Wordless(Ann, Ann)
		s.awaitTexts(Ann, about, func(all string) bool { return strings.Contains(all, about) || strings.Contains(all, "I cannot read") })
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
