// Package channeltest is a conformance suite for channel adapters. A platform that the test
// controls fails in every way that platforms do. The suite checks that each message is answered
// once, that at most one adapter runs at a time, and that the reported state is true.
package channeltest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/channel"
)

// Agent is the agent of the suite: it echoes each message.
const Agent = "echo"

// Platform is a platform under a test's control, with one chat, and the channel that connects to
// it. Its functions may be called concurrently and repeatedly.
type Platform struct {
	Kind    string
	Connect channel.Connect // must address messages to Agent
	// Reconnect should be short: InitialDelay some milliseconds, IdleTimeout and ConnectTimeout
	// less than a second.
	Reconnect channel.ReconnectPolicy

	// Post sends a user's message with the given platform id.
	Post func(id, text string)
	// Sent returns the texts that the platform has accepted, in order.
	Sent func() []string
	// Down refuses new connections and closes open ones.
	Down func()
	// Hang keeps open and new connections open but answers nothing.
	Hang func()
	// Restore undoes Down, Hang and RejectLogin.
	Restore func()
	// RejectLogin rejects the credentials and closes open connections. It is nil if the channel
	// cannot distinguish this from other failures.
	RejectLogin func()
	// History means that messages posted during an outage can be read later.
	History bool
	// ExactlyOnce means that the platform deduplicates messages by key or shows what was sent, so
	// that no reply is shown twice. See [RunNetfaults].
	ExactlyOnce bool
}

// Run runs the suite, with a new platform of make for each case. The platform must end with its
// test.
func Run(t *testing.T, make func(t *testing.T) *Platform) {
	for _, play := range []struct {
		name string
		f    func(o *fixture)
	}{
		{"each message is answered once", answeredOnce},
		{"a platform that is down at the start", downAtStart},
		{"an outage of the platform", outage},
		{"a platform that hangs", hangs},
		{"a platform that hangs during connect", hangsAtStart},
		{"a restart of the server", restarted},
		{"a redelivered message", redelivered},
		{"rejected credentials", loginRejected},
	} {
		t.Run(play.name, func(t *testing.T) {
			play.f(newFixture(t, make(t)))
		})
	}
}

func answeredOnce(o *fixture) {
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.p.Post("2", "two")
	o.expectSent("one", "two")
	if s := o.State(); s.LastInbound.IsZero() || s.LastOutbound.IsZero() || s.LastSuccess.IsZero() || s.Attempts != 0 {
		o.t.Errorf("the state is %+v", s)
	}
	o.stop()
}

func downAtStart(o *fixture) {
	o.p.Down()
	o.start()
	o.await("two failed attempts", func() bool { return o.State().Attempts > 1 })
	if s := o.State(); !slices.Contains([]channel.Condition{channel.ConditionQueued, channel.ConditionParked}, s.Condition) || s.Reason == "" || !s.ConnectedSince.IsZero() {
		o.t.Errorf("the state is %+v", s)
	}
	if o.p.History {
		o.p.Post("1", "one")
	}
	o.p.Restore()
	o.awaitCondition(channel.ConditionConnected)
	if !o.p.History {
		o.p.Post("1", "one")
	}
	o.expectSent("one")
	o.stop()
}

func outage(o *fixture) {
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectSent("one")
	o.p.Down()
	o.await("the channel is not connected", func() bool { return o.State().Condition != channel.ConditionConnected })
	if o.p.History {
		o.p.Post("2", "two")
	}
	o.p.Restore()
	o.awaitCondition(channel.ConditionConnected)
	if !o.p.History {
		o.p.Post("2", "two")
	}
	o.expectSent("one", "two")
	if s := o.State(); s.Reconnects < 1 || s.Downtime == 0 || s.Adapter < 2 {
		o.t.Errorf("the state is %+v", s)
	}
	o.stop()
}

func hangs(o *fixture) {
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Hang()
	o.await("the channel is not connected", func() bool { return o.State().Condition != channel.ConditionConnected })
	o.p.Restore()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectSent("one")
	o.stop()
}

func hangsAtStart(o *fixture) {
	o.p.Hang()
	o.start()
	o.await("a failed attempt", func() bool { return o.State().Attempts > 0 })
	o.stop() // also during an attempt
	o.p.Restore()
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.stop()
}

func restarted(o *fixture) {
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectSent("one")
	o.stop()
	if o.p.History {
		o.p.Post("2", "two")
	}
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	if !o.p.History {
		o.p.Post("2", "two")
	}
	o.p.Post("3", "three")
	o.expectSent("one", "two", "three")
	o.stop()
}

func redelivered(o *fixture) {
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectSent("one")
	o.p.Post("1", "one")
	o.p.Post("2", "two") // posted behind the repeat
	o.expectSent("one", "two")
	o.stop()
}

func loginRejected(o *fixture) {
	if o.p.RejectLogin == nil {
		o.start()
		o.awaitCondition(channel.ConditionConnected)
		o.stop()
		return
	}
	o.p.RejectLogin()
	o.start()
	o.awaitCondition(channel.ConditionFailed)
	if s := o.State(); s.Adapter != 1 || !s.NextTry.IsZero() || s.Reason == "" {
		o.t.Errorf("at the start: %+v", s)
	}
	o.p.Restore()
	o.Resume()
	o.awaitCondition(channel.ConditionConnected)
	o.p.RejectLogin()
	o.awaitCondition(channel.ConditionFailed)
	o.stop()
}

// awaitCondition waits for a condition.
func (o *fixture) awaitCondition(want channel.Condition) {
	o.t.Helper()
	o.await("the channel is "+string(want), func() bool { return o.State().Condition == want })
}

// expectSent waits until the platform has accepted exactly these texts.
func (o *fixture) expectSent(want ...string) {
	o.t.Helper()
	o.await(strings.Join(want, ", ")+" sent", func() bool { return len(o.p.Sent()) >= len(want) })
	o.awaitSettled()
	if got := o.p.Sent(); !slices.Equal(got, want) {
		o.t.Fatalf("sent %q, want %q", got, want)
	}
}

func (o *fixture) await(what string, good func() bool) {
	o.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			o.t.Fatalf("timeout: %s; the channel is %+v; sent %q", what, o.State(), o.p.Sent())
		}
	}
}
