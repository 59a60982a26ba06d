package adapter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/chat/outbound"
	"mailroom/thread"
)

// TestARefusalIsFinalAfterTheGracePeriod has a platform with a RefusalGrace refuse messages, also over
// a restart. After the grace period the message is a dead letter and the next one is sent.
func TestARefusalIsFinalAfterTheGracePeriod(t *testing.T) {
	const patience = 5 * time.Minute
	refused := &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("404 Not Found")}
	withServer(t, echo, func(o *serverFixture) {
		o.platform.Capabilities.RefusalGrace = patience
		began := time.Now()
		o.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
			if strings.Contains(c.Message.Text, "poison") || time.Since(began) < 4*time.Minute {
				return refused
			}
			c.Do()
			return nil
		})
		o.start()
		o.platform.SendPrivate("ann", "one")
		<-time.After(2 * time.Minute)
		o.stop()
		o.start()
		o.awaitSettled(1)
		o.expectSent("one")
		if n := len(o.notes(outbound.KindRefused)); n != 1 {
			o.t.Errorf("%d entries for the first refusal", n)
		}
		began = time.Now().Add(-time.Hour) // the platform accepts messages again
		refusedAt := time.Now()
		o.platform.SendPrivate("ann", "poison")
		o.platform.SendPrivate("ann", "two")
		runs := o.awaitSettled(3)
		o.expectSent("one", "two")
		dead := runs[1]
		if lasted := dead.FinishedAt.Sub(refusedAt); dead.Status != mailroom.StatusFailed ||
			dead.Error.Class != mailroom.ClassPermanent || lasted < patience || lasted > 3*patience {
			o.t.Errorf("refused delivery is %s (%+v) after %s", dead.Status, dead.Error, lasted)
		}
		if _, err := o.ledger.Retry(o.t.Context(), thread.Retry{Run: dead.ID, By: "ann"}); err != nil {
			o.t.Fatal(err)
		}
		<-time.After(patience / 2) // a manual retry starts a new grace period
		for _, r := range o.deliveries() {
			if r.ID == dead.ID && r.Status.Finished() {
				o.t.Errorf("retried delivery is %s after its first refusal", r.Status)
			}
		}
		o.awaitSettled(3)
	})
	withServer(t, echo, func(o *serverFixture) { // a platform with documented refusals
		o.platform.Hook(CallSend, func(context.Context, CallArgs) error { return refused })
		o.start()
		refusedAt := time.Now()
		o.platform.SendPrivate("ann", "one")
		if run := o.awaitSettled(1)[0]; run.Status != mailroom.StatusFailed || run.FinishedAt.Sub(refusedAt) > time.Minute {
			o.t.Errorf("status %s after %s", run.Status, run.FinishedAt.Sub(refusedAt))
		}
	})
}
