package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/store"
)

// answeredBetween sends a command while the second of many messages of a reply is sent. Its answer is the third
// message, and the reply is whole.
func answeredBetween(s *Server) {
	var text strings.Builder
	for i := 0; text.Len() < 2*s.p.Calls.LongReply; i++ {
		fmt.Fprintf(&text, "line %d of many\n", i)
	}
	s.Agent = func(ctx context.Context, run mailroom.Session) error { return run.Stream(ctx, text.String()) }
	s.Options.Previews = false
	var sent atomic.Int32
	second, goOn := make(chan struct{}), make(chan struct{})
	s.onSend = func(chat.Message) {
		if sent.Add(1) == 2 {
			close(second)
			<-goOn
		}
	}
	s.startConnected()
	if s.p.Calls.LongReply == 0 {
		s.t.Fatal("the platform does not say what a long reply is")
	}
	if caps := s.Capabilities(); len(chat.SplitText(text.String(), caps, 0)) == 1 { // each reply is one message
		close(goOn)
		s.say(Ann, Ann, "go on")
		s.awaitText(Ann, "line 0 of many")
		s.AwaitSettled()
		if n := len(s.p.texts(Ann)); n != 1 {
			s.t.Errorf("%d messages, want 1", n)
		}
		return
	}
	s.say(Ann, Ann, "go on")
	<-second
	s.command(Ann, Ann, "status")
	s.Await("the queued answer", func() bool {
		return s.runs(store.RunQuery{Agent: channel.AgentName("c"), Statuses: []mailroom.Status{mailroom.StatusQueued}}) > 0
	})
	close(goOn)
	want := strings.Join(strings.Fields(text.String()), " ")
	s.awaitTexts(Ann, "the whole reply", func(all string) bool {
		return len(strings.Join(strings.Fields(all), " ")) > len(want)
	})
	s.AwaitSettled()
	texts := s.p.texts(Ann)
	at := slices.IndexFunc(texts, func(text string) bool { return strings.Contains(text, Agent+" is idle.") })
	if at != 2 {
		s.t.Fatalf("the answer is message %d of %d", at+1, len(texts))
	}
	// the answer may have several lines
	texts = slices.DeleteFunc(texts, func(text string) bool { return !strings.Contains(text, " of many") })
	if got := strings.Join(strings.Fields(strings.Join(texts, " ")), " "); got != want {
		s.t.Errorf("%d bytes of the reply, want %d", len(got), len(want))
	}
}

// startHuge starts a server whose agent replies with more than the three messages that a reply may take, and has Ann
// ask for it. parts is the number of messages that it would take.
func (s *Server) startHuge() (text string, parts int) {
	s.t.Helper()
	var all strings.Builder
	for i := 0; all.Len() < 4*s.p.Calls.LongReply; i++ {
		fmt.Fprintf(&all, "line %d of many\n", i)
	}
	text = strings.TrimSuffix(all.String(), "\n")
	s.Agent = func(ctx context.Context, run mailroom.Session) error { return run.Stream(ctx, text) }
	s.Options.Previews, s.Options.MaxParts, s.Options.URL = false, 3, "https://mailroom.example.org"
	s.startConnected()
	s.say(Ann, Ann, "go on")
	return text, len(chat.SplitText(text, s.Capabilities(), 0))
}

// restAsFile has a reply that is too long for the chat. Its last message has all of it in a file, or a link where the
// platform takes no file.
func restAsFile(s *Server) {
	text, parts := s.startHuge()
	if parts == 1 {
		s.awaitText(Ann, "line 0 of many")
		return
	}
	if s.Capabilities().MaxUpload == 0 {
		s.awaitText(Ann, "https://mailroom.example.org/#/run/")
		return
	}
	s.awaitText(Ann, "too long for the chat") // with or without a file
	s.AwaitSettled()
	shown := s.p.People.Shown(Ann)
	last := shown[len(shown)-1]
	if len(shown) != 3 || !strings.HasPrefix(last.File, "reply-") || !strings.HasSuffix(last.File, ".md") ||
		last.Content != text+"\n" {
		s.t.Errorf("%d messages, the last one has the file %q of %d bytes, want 3 and %d bytes", len(shown), last.File,
			len(last.Content), len(text)+1)
	}
	if !strings.Contains(last.Text, "too long for the chat") || strings.Contains(last.Text, "https://") {
		s.t.Errorf("the file has the caption %q", last.Text)
	}
}

// restAsLink has a platform that refuses the file.
func restAsLink(s *Server) {
	if s.p.Calls.RefuseFiles != nil {
		s.p.Calls.RefuseFiles()
	}
	if _, parts := s.startHuge(); parts == 1 {
		s.awaitText(Ann, "line 0 of many")
		return
	}
	if takes := s.Capabilities().MaxUpload > 0; takes != (s.p.Calls.RefuseFiles != nil) {
		s.t.Fatal("a platform that takes files must be able to refuse them")
	}
	s.awaitText(Ann, "line 0 of many")
	s.AwaitSettled()
	if all := s.texts(Ann); !strings.Contains(all, "https://mailroom.example.org/#/run/") {
		s.t.Error("the reply ends without a link")
	}
	for _, m := range s.p.People.Shown(Ann) {
		if m.File != "" {
			s.t.Errorf("a file %q", m.File)
		}
	}
}
