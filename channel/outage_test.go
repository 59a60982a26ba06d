package channel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// submitTo submits a message of a chat directly to the ledger, as if it had arrived before a
// restart.
func (o *serverFixture) submitTo(chat, text string) {
	o.t.Helper()
	threadID := channel.ThreadID("c", "chat", chat)
	_, err := o.ledger.Submit(o.t.Context(), thread.Submit{
		Thread: threadID, Key: text, Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}},
		Origin: mailroom.Origin{Via: channel.Via("c")},
		Agent:  "echo", DeliverTo: channel.DeliveryThreadID(threadID), DeliverAgent: channel.AgentName("c"),
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// kinds returns the kinds of a thread's entries.
func (o *serverFixture) kinds(thread string) (kinds []string) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: thread})
		for _, e := range entries {
			kinds = append(kinds, e.Kind)
		}
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return kinds
}

// dialWhile connects only while up is true.
func dialWhile(up *atomic.Bool) func(context.Context, *channel.Host) error {
	return func(context.Context, *channel.Host) error {
		if !up.Load() {
			return errors.New("refused")
		}
		return nil
	}
}

// awaitConnected waits until the channel has reconnected and returns when it did.
func (o *serverFixture) awaitConnected() time.Time {
	o.t.Helper()
	for range 1000 {
		if o.advance(time.Second).Connected() {
			return o.State().ConnectedSince
		}
	}
	o.t.Fatalf("the channel is %+v", o.State())
	return time.Time{}
}

func TestDeliveriesStayQueuedDuringAnOutage(t *testing.T) {
	var up atomic.Bool
	var sent []time.Time
	withServer(t, echo, func(o *serverFixture) {
		o.p.connect, o.p.receive = dialWhile(&up), pollWhile(&up)
		o.onDeliver(func(_ context.Context, l *channel.Host) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			sent = append(sent, time.Now())
			return nil
		})
	}, func(o *serverFixture) {
		chats := []string{"1", "2", "3"}
		for i := range 4 {
			for _, chat := range chats {
				o.submitTo(chat, fmt.Sprint(chat, " ", i))
			}
		}
		o.advance(4 * time.Hour)
		for _, chat := range chats {
			d := o.run(channel.DeliveryThreadID(channel.ThreadID("c", "chat", chat)))
			if d.Status != mailroom.StatusQueued || d.Attempt != 0 {
				t.Errorf("chat %s: delivery is %s, attempt %d; want it queued without an attempt", chat, d.Status, d.Attempt)
			}
		}
		up.Store(true)
		at := o.awaitConnected()
		o.mu.Lock()
		times := slices.Clone(sent)
		o.mu.Unlock()
		if len(times) != 12 {
			t.Fatalf("%d of 12 deliveries sent", len(times))
		}
		for _, when := range times {
			if !when.Equal(at) {
				t.Errorf("a delivery was sent %v after the reconnect, want 0", when.Sub(at))
			}
		}
		for _, chat := range chats {
			got := slices.DeleteFunc(o.delivered(), func(s string) bool { return !strings.HasPrefix(s, chat) })
			if diff := cmp.Diff([]string{chat + " 0", chat + " 1", chat + " 2", chat + " 3"}, got); diff != "" {
				t.Error(diff)
			}
			out := channel.DeliveryThreadID(channel.ThreadID("c", "chat", chat))
			if slices.Contains(o.kinds(out), entry.KindRescheduled) || o.run(out).Attempt != 1 {
				t.Errorf("chat %s: %v", chat, o.kinds(out))
			}
		}
	})
}

// TestADeliveryThatFailedWithItsConnectionIsSentOverTheNext fails a delivery together with its
// connection, for longer than an outage may last, and then twice more.
func TestADeliveryThatFailedWithItsConnectionIsSentOverTheNext(t *testing.T) {
	var up, works atomic.Bool
	up.Store(true)
	withServer(t, echo, func(o *serverFixture) {
		o.p.connect, o.p.receive = dialWhile(&up), pollWhile(&up)
		o.onDeliver(func(context.Context, *channel.Host) error {
			if !works.Load() {
				up.Store(false)
				return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("connection reset")}
			}
			return nil
		})
	}, func(o *serverFixture) {
		o.submitTo("1", "one")
		o.advance(time.Second)
		o.submitTo("1", "two")
		o.advance(25 * time.Hour)
		for range 2 {
			up.Store(true)
			if o.awaitConnected(); len(o.delivered()) == 0 {
				t.Fatal("the delivery was not retried")
			}
			o.advance(10 * time.Minute)
		}
		works.Store(true)
		up.Store(true)
		o.awaitConnected()
		got := slices.Compact(o.delivered())
		if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" || len(o.delivered()) > 10 {
			t.Errorf("sent %q: %s", o.delivered(), diff)
		}
		if got := o.kinds(out); slices.Contains(got, entry.KindFailed) || o.run(out).Status != mailroom.StatusCompleted {
			t.Errorf("a delivery is a dead letter or unfinished: %v", got)
		}
	})
}

// TestAFlappingPlatformGetsNoExtraRetries connects and fails at the first delivery, for hours.
func TestAFlappingPlatformGetsNoExtraRetries(t *testing.T) {
	var up, works atomic.Bool
	var last time.Time
	withServer(t, echo, func(o *serverFixture) {
		o.p.connect = func(context.Context, *channel.Host) error {
			up.Store(true)
			return nil
		}
		o.p.receive = pollWhile(&up)
		o.onDeliver(func(context.Context, *channel.Host) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			last = time.Now()
			if works.Load() {
				return nil
			}
			up.Store(false)
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("connection reset")}
		})
	}, func(o *serverFixture) {
		o.submitTo("1", "hello")
		o.advance(4 * time.Hour)
		tried, connections := len(o.delivered()), o.p.count()
		if tried < 10 || tried > connections+5 || tried > 100 {
			t.Errorf("%d attempts over %d connections", tried, connections)
		}
		// The delivery's own delay is never longer than the channel's.
		works.Store(true)
		o.mu.Lock()
		failed := last
		o.mu.Unlock()
		o.advance(20 * time.Minute) // parked: retries every 15 minutes
		o.mu.Lock()
		defer o.mu.Unlock()
		if d := o.run(out); d.Status != mailroom.StatusCompleted || last.Sub(failed) > 20*time.Minute {
			t.Errorf("the delivery is %s: %+v", d.Status, d.Error)
		}
	})
}

func TestAFloodLimitOutlastsAConnection(t *testing.T) {
	var up atomic.Bool
	var tried []time.Time
	up.Store(true)
	withServer(t, echo, func(o *serverFixture) {
		o.p.connect, o.p.receive = dialWhile(&up), pollWhile(&up)
		o.onDeliver(func(context.Context, *channel.Host) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			tried = append(tried, time.Now())
			if len(tried) > 1 {
				return nil
			}
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: time.Hour,
				Err: errors.New("too many requests")}
		})
	}, func(o *serverFixture) {
		o.submitTo("1", "hello")
		o.advance(time.Minute)
		up.Store(false)
		o.advance(time.Minute)
		up.Store(true)
		o.awaitConnected()
		o.advance(2 * time.Hour)
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(tried) != 2 || tried[1].Sub(tried[0]) < time.Hour {
			t.Errorf("attempts at %v, want the second one after the hour of Retry-After", tried)
		}
	})
}
