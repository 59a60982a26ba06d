package adapter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/store/storetest"
)

// report replies "report" with 20 numbered messages, "ask" with a text and a question, and anything else with an echo.
func report(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	switch input[0].Text {
	case "report":
		return s.Stream(ctx, numbered(20))
	case "ask":
		if s.Run().Attempt == 1 {
			if err := s.Stream(ctx, "I need a decision."); err != nil {
				return err
			}
		}
		_, err := s.Wait(ctx, false, payment())
		return err
	}
	return s.Stream(ctx, "echo "+input[0].Text)
}

// numbered is a text that takes n messages of the fake, which begin with their number.
func numbered(n int) string {
	var all []string
	for i := range n {
		line := fmt.Sprintf("part %02d ", i+1)
		all = append(all, line+strings.Repeat("x", 199-len(line)))
	}
	return strings.Join(all, "\n")
}

// order returns the first word or two of each message in the order in which they were sent.
func (o *serverFixture) order() (all []string) {
	for _, s := range o.platform.Sent() {
		text := s.Versions[0].Text
		if strings.HasPrefix(text, "part ") {
			text = text[:7]
		}
		all = append(all, text)
	}
	return all
}

// TestAnswersAndQuestionsPassBetweenThePartsOfAReply sends a command and a message that leads to a question while a
// reply of 20 messages goes out.
func TestAnswersAndQuestionsPassBetweenThePartsOfAReply(t *testing.T) {
	withServer(t, report, func(o *serverFixture) {
		o.platform.Capabilities.RoomInterval = time.Second
		o.start()
		o.platform.SendPrivate("ann", "report")
		o.platform.AwaitSent(3)
		o.platform.SendPrivate("ann", "/status")
		o.platform.SendPrivate("ann", "hello")
		o.platform.SendPrivate("ann", "ask")
		o.awaitSettled(5)
		got := o.order()
		at := func(start string) int {
			return slices.IndexFunc(got, func(text string) bool { return strings.HasPrefix(text, start) })
		}
		status, text, question, next, last := at("codex is "), at("I need a decision."), at("codex asks: May I pay?"),
			at("echo hello"), at("part 20")
		if !strings.HasSuffix(got[status], "\nA reply is being sent. /stop ends it.") {
			o.t.Errorf("the status is %q", got[status])
		}
		if status < 3 || status > 5 {
			t.Errorf("the answer to the command is message %d", status+1)
		}
		if text < 3 || text > 7 || question != text+1 {
			t.Errorf("the question is message %d, its text message %d", question+1, text+1)
		}
		if next != last+1 {
			t.Errorf("the next reply is message %d, the last part message %d", next+1, last+1)
		}
		parts := slices.DeleteFunc(got, func(text string) bool { return !strings.HasPrefix(text, "part ") })
		if len(parts) != 20 || !slices.IsSorted(parts) {
			t.Errorf("parts %q", parts)
		}
		found, err := storetest.Check(t.Context(), o.store)
		if err != nil || len(found) > 0 {
			t.Errorf("broken invariants %v, %v", found, err)
		}
	})
}

// TestAQuestionDoesNotPassTheTextOfItsOwnRun asks below a text of 20 messages.
func TestAQuestionDoesNotPassTheTextOfItsOwnRun(t *testing.T) {
	agent := func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Attempt == 1 {
			if err := s.Stream(ctx, numbered(20)); err != nil {
				return err
			}
		}
		_, err := s.Wait(ctx, false, payment())
		return err
	}
	withServer(t, agent, func(o *serverFixture) {
		o.platform.Capabilities.RoomInterval = time.Second
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(2)
		if got := o.order(); len(got) != 21 || !strings.HasPrefix(got[20], "codex asks: May I pay?") {
			t.Errorf("messages %q", got)
		}
	})
}

// TestAStopEndsAReplyThatLetsAnotherMessagePass stops it before the answer to the command before is sent.
func TestAStopEndsAReplyThatLetsAnotherMessagePass(t *testing.T) {
	withServer(t, report, func(o *serverFixture) {
		o.platform.Capabilities.RoomInterval = time.Minute
		o.start()
		o.platform.SendPrivate("ann", "report")
		o.platform.AwaitSent(1)
		o.platform.SendPrivate("ann", "/status")
		synctest.Wait() // the reply has let the answer pass, which waits for the room's limit
		o.platform.SendPrivate("ann", "/stop")
		o.awaitSettled(3)
		got := o.order()
		if len(got) != 3 || !strings.HasPrefix(got[1], "codex is ") || got[2] != "The rest of the reply is not sent." {
			t.Errorf("messages %q", got)
		}
	})
}
