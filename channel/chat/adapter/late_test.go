package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

// slowly is an agent that calls a tool for 30 minutes and then replies. At the message "ask" it asks for an approval
// instead, and replies after the decision.
func slowly(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	if input[0].Text == "ask" {
		if _, err := s.Wait(ctx, false, mailroom.Ask{Name: "may", Kind: mailroom.TicketApproval, Prompt: "May I?",
			Action: "go"}); err != nil {
			return err
		}
		return s.Stream(ctx, "decided")
	}
	call := mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "tool.started",
		Body: []byte(`{"call":"1","name":"bash","arguments":{"command":"secret"}}`)}}}
	if err := s.Append(ctx, call); err != nil {
		return err
	}
	select {
	case <-time.After(30 * time.Minute):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.Stream(ctx, "done "+input[0].Text)
}

// TestAChatLearnsOnceWhatALateRunDoes restarts the server after the notice. The reply replaces the notice if the
// platform can edit messages.
func TestAChatLearnsOnceWhatALateRunDoes(t *testing.T) {
	for _, edits := range []bool{true, false} {
		withServer(t, slowly, func(o *serverFixture) {
			o.platform.Capabilities.Edits = edits
			o.options.AnswerWithin = 10 * time.Minute
			o.start()
			o.platform.SendPrivate("ann", "one")
			<-time.After(9 * time.Minute)
			o.expectSent()
			<-time.After(6 * time.Minute)
			texts := o.sentTexts()
			if len(texts) != 1 || !strings.HasPrefix(texts[0], "(No answer yet: codex is running, since ") ||
				!strings.Contains(texts[0], "It works with bash since ") || strings.Contains(texts[0], "secret") {
				o.t.Errorf("sent %q", texts)
			}
			o.stop()
			o.start()
			<-time.After(25 * time.Minute)
			if n := len(o.platform.Sent()); n != 1 {
				o.t.Errorf("%d messages after the restart: %q", n, o.sentTexts())
			}
			<-time.After(10 * time.Minute)
			if !edits {
				o.expectSent(texts[0], "done one")
				return
			}
			o.expectSent("done one")
			if sent := o.platform.Sent(); len(sent[0].Versions) != 2 {
				o.t.Errorf("%d versions of the message", len(sent[0].Versions))
			}
		})
	}
}

// TestEachLateRunHasItsOwnNotice sends two messages at once. The first notice counts the second run, which waits in the
// queue; the second run gets a notice of its own while it runs.
func TestEachLateRunHasItsOwnNotice(t *testing.T) {
	withServer(t, slowly, func(o *serverFixture) {
		o.options.AnswerWithin = 20 * time.Minute
		o.start()
		o.platform.SendPrivate("ann", "one")
		o.platform.SendPrivate("ann", "two")
		<-time.After(25 * time.Minute)
		if texts := o.sentTexts(); len(texts) != 1 || !strings.HasSuffix(texts[0], " Behind it in the queue: 1.)") {
			o.t.Errorf("sent %q", texts)
		}
		<-time.After(25 * time.Minute)
		texts := o.sentTexts()
		if len(texts) != 2 || texts[0] != "done one" || !strings.HasPrefix(texts[1],
			"(No answer yet: codex is running, since ") || strings.Contains(texts[1], "queue") {
			o.t.Errorf("sent %q", texts)
		}
	})
}

// TestEachUnansweredChatGetsANoticeBeyondTheWatchedNumber has more conversations than the channel watches at a time.
// Their runs all take longer than the test waits.
func TestEachUnansweredChatGetsANoticeBeyondTheWatchedNumber(t *testing.T) {
	withServer(t, slowly, func(o *serverFixture) {
		o.options.AnswerWithin, o.options.Access.AllowAll = 10*time.Minute, true
		o.start()
		const people = 270 // 256 are watched
		for i := range people {
			o.platform.SendPrivate(fmt.Sprint("person ", i), "one")
		}
		<-time.After(14 * time.Minute)
		told := map[string]int{}
		for _, m := range o.platform.Sent() {
			if strings.HasPrefix(m.Versions[0].Text, "(No answer yet: ") {
				told[m.Room.Chat]++
			}
		}
		for chat, n := range told {
			if n != 1 {
				t.Errorf("%s has %d notices", chat, n)
			}
		}
		if len(told) != people {
			t.Errorf("%d of %d chats have a notice", len(told), people)
		}
	})
}

// TestNoNoticeComesWhileAQuestionIsOpenOrInAListeningGroup has one chat with an open question, and one group whose
// messages all go to the agent. Neither gets a notice.
func TestNoNoticeComesWhileAQuestionIsOpenOrInAListeningGroup(t *testing.T) {
	withServer(t, slowly, func(o *serverFixture) {
		o.options.AnswerWithin, o.options.Access.AllGroupMessages, o.options.Access.Chats = 10*time.Minute, true,
			[]string{"room"}
		o.start()
		o.platform.SendPrivate("ann", "ask")
		o.platform.SendGroup("room", "ann", "one")
		<-time.After(25 * time.Minute)
		if texts := o.sentTexts(); len(texts) != 1 || !strings.HasPrefix(texts[0], "codex asks: May I?") {
			t.Errorf("sent %q", texts)
		}
		o.decideElsewhere()
		<-time.After(time.Minute)
		if texts := o.sentTexts(); len(texts) != 2 || texts[1] != "decided" {
			t.Errorf("sent %q", texts)
		}
	})
}

// TestAChatLearnsOnceOfAPauseOfItsAgent has an agent that cannot work for an hour. Ann's chat reports it once, with her
// failed run, and Bob's chat once, with his waiting message. Neither chat reports that the agent works again.
func TestAChatLearnsOnceOfAPauseOfItsAgent(t *testing.T) {
	var works time.Time // set before the start
	agent := func(ctx context.Context, s mailroom.Session) error {
		if time.Now().Before(works) {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Agent: true, Err: errors.New("no credit for key sk-1")}
		}
		return echo(ctx, s)
	}
	withServer(t, agent, func(o *serverFixture) {
		works = time.Now().Add(time.Hour)
		o.options.AnswerWithin, o.options.Access.Users = 24*time.Hour, []string{"bob"}
		o.start()
		o.platform.SendPrivate("ann", "one")
		o.platform.AwaitSent(1)
		o.platform.SendPrivate("ann", "again")
		o.platform.SendPrivate("bob", "two")
		<-time.After(50 * time.Second)
		texts := strings.Join(o.sentTexts(), "\n")
		if strings.Count(texts, "Further messages to codex wait") != 1 ||
			strings.Count(texts, "(codex cannot work at present. The next try is at ") != 1 || strings.Contains(texts, "sk-1") {
			t.Errorf("sent %q", texts)
		}
		<-time.After(2 * time.Hour)
		o.platform.SendPrivate("ann", "three")
		<-time.After(time.Minute)
		all := o.sentTexts()
		texts = strings.Join(all, "\n")
		if strings.Count(texts, "cannot work at present") != 1 || all[len(all)-1] != "three" {
			t.Errorf("sent %q", all)
		}
	})
}

// TestAPauseByTheOperatorIsShownInTheChat pauses the agent by hand.
func TestAPauseByTheOperatorIsShownInTheChat(t *testing.T) {
	withServer(t, echo, func(o *serverFixture) {
		o.options.AnswerWithin = 24 * time.Hour
		o.start()
		if _, err := o.ledger.PauseAgent(o.t.Context(), store.Pause{Agent: "codex", By: "operator"}); err != nil {
			o.t.Fatal(err)
		}
		o.platform.SendPrivate("ann", "one")
		o.platform.SendPrivate("ann", "two")
		<-time.After(time.Hour)
		o.expectSent("(codex is paused by the server's operator. Your message waits.)")
		if err := o.ledger.ResumeAgent(o.t.Context(), "codex"); err != nil {
			o.t.Fatal(err)
		}
		<-time.After(time.Minute)
		o.expectSent("one", "two")
	})
}
