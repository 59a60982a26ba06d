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
	"mailroom/channel/chat/chunk"
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
	if caps := s.Capabilities(); len(chunk.Split(text.String(), caps, 0)) == 1 { // each reply is one message
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
	s.awaitTexts(Ann, "the whole reply", func(all string) bool { return len(strings.Join(strings.Fields(all), " ")) > len(want) })
	s.AwaitSettled()
	texts := s.p.texts(Ann)
	at := slices.IndexFunc(texts, func(text string) bool { return strings.Contains(text, Agent+" is idle.") })
	if at != 2 {
		s.t.Fatalf("the answer is message %d of %d", at+1, len(texts))
	}
	if got := strings.Join(strings.Fields(strings.Join(slices.Delete(texts, at, at+1), " ")), " "); got != want {
		s.t.Errorf("%d bytes of the reply, want %d", len(got), len(want))
	}
}
