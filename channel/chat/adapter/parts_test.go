package adapter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"mailroom"
)

// dump replies with 50 messages.
func dump(ctx context.Context, s mailroom.Session) error {
	return s.Stream(ctx, strings.Repeat(strings.Repeat("x", 199)+"\n", 50))
}

func TestAHugeReplyHasAFewParts(t *testing.T) {
	withServer(t, dump, func(o *serverFixture) {
		o.options.MaxParts = 4
		o.start()
		o.platform.SendPrivate("ann", "one")
		run := o.awaitSettled(1)[0]
		sent := o.platform.Sent()
		if len(sent) != 4 || !strings.Contains(sent[3].Message.Text, "47 more messages") ||
			!strings.Contains(sent[3].Message.Text, "run show "+run.Parent) {
			o.t.Errorf("%d messages, the last is %+v", len(sent), sent[len(sent)-1].Message)
		}
	})
}

// TestAStopEndsADelivery stops a reply after three of its messages were sent.
func TestAStopEndsADelivery(t *testing.T) {
	withServer(t, dump, func(o *serverFixture) {
		o.platform.Capabilities.RoomInterval = time.Second
		o.start()
		o.platform.SendPrivate("ann", "one")
		o.platform.AwaitSent(3)
		asked := time.Now()
		o.platform.SendPrivate("ann", "/stop")
		o.platform.Await("the answer", func() bool {
			sent := o.platform.Sent()
			return strings.Contains(sent[len(sent)-1].Message.Text, "The rest of the reply is not sent.")
		})
		if waited := time.Since(asked); waited > 3*time.Second {
			o.t.Errorf("answered after %s", waited)
		}
		o.platform.SendPrivate("ann", "/status")
		o.platform.Await("the status", func() bool {
			sent := o.platform.Sent()
			return strings.Contains(sent[len(sent)-1].Message.Text, "is idle")
		})
		reply := o.awaitSettled(3)[0]
		if n := len(o.platform.Sent()); n > 6 || reply.Status != mailroom.StatusCancelled {
			o.t.Errorf("%d messages, want at most one of the reply after the stop; the reply is %s", n, reply.Status)
		}
	})
}
