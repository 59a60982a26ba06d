package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/thread"
)

// TestARetryOfAGoneRecipientAlwaysTries has a chat that is gone for a time. Later replies make no call, but the retry
// of an operator does.
func TestARetryOfAGoneRecipientAlwaysTries(t *testing.T) {
	withServer(t, echo, func(o *serverFixture) {
		gone, calls := true, 0
		o.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
			if calls++; gone {
				return &mailroom.Failure{Class: mailroom.ClassPermanent,
					Err: fmt.Errorf("%w: %w", chat.ErrGone, errors.New("bot was blocked"))}
			}
			c.Do()
			return nil
		})
		o.start()
		o.platform.SendPrivate("ann", "one")
		dead := o.awaitSettled(1)[0]
		if dead.Status != mailroom.StatusFailed || strings.Contains(dead.Error.Message, "permanent") {
			o.t.Fatalf("the delivery is %s: %+v", dead.Status, dead.Error)
		}
		for _, open := range []bool{false, true} {
			gone = !open
			before := calls
			if _, err := o.ledger.Retry(o.t.Context(), thread.Retry{Run: dead.ID, By: "ann"}); err != nil {
				o.t.Fatal(err)
			}
			o.awaitSettled(1)
			if calls != before+1 {
				o.t.Errorf("%d calls for a retry", calls-before)
			}
		}
		o.expectSent("one")
	})
}

// TestAQuestionOfADeletedTopicIsShownInTheChat has a topic that is deleted before the agent asks. The chat learns it,
// without buttons: the question is one of the topic.
func TestAQuestionOfADeletedTopicIsShownInTheChat(t *testing.T) {
	withServer(t, askingAgent(mailroom.Ask{Name: "rm", Kind: mailroom.TicketApproval, Prompt: "May I?", Action: "rm"}),
		func(o *serverFixture) {
			o.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
				if c.Room.Topic != "" {
					return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: chat.ErrTopicGone}
				}
				c.Do()
				return nil
			})
			o.start()
			at := GroupRoom(room)
			at.Topic = "77"
			o.platform.AddEvent(chat.Event{Kind: chat.EventMessage, Room: at, User: chat.User{ID: "ann"}, Text: "go",
				Addressed: true})
			sent := o.platform.AwaitSent(1)[0]
			if sent.Room.Topic != "" || len(sent.Message.Buttons) > 0 ||
				!strings.Contains(sent.Message.Text, "in a topic that was deleted") {
				o.t.Errorf("sent %+v", sent)
			}
		})
}
