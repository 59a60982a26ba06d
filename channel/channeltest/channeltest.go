// Package channeltest holds an adapter against what package channel asks of it: a
// platform that a test controls fails in every way that platforms do, and what was
// said must be answered once, by one connection at a time, with nothing claimed that
// is not so.
package channeltest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/channel"
)

// Agent is who reads what arrives: it answers with the same words.
const Agent = "echo"

// Platform is one that a test controls, with one chat, and how a channel connects to
// it. Its functions may be called concurrently, and more than once.
type Platform struct {
	Kind    string
	Connect channel.Connect // what arrives is for Agent
	// Reconnect should be short: First some milliseconds, Fresh and Connect less than
	// a second.
	Reconnect channel.ReconnectPolicy

	// Post has somebody say something, under an id that the platform gives it.
	Post func(id, text string)
	// Sent are the texts that the platform has taken, in order.
	Sent func() []string
	// Down refuses connections from now on, and ends those that are open.
	Down func()
	// Hang leaves connections open, new ones too, and answers nothing on any.
	Hang func()
	// Restore ends what Down and Hang have begun.
	Restore func()
	// RejectLogin refuses the credentials from now on, and ends open connections. nil: it
	// is not told from other failures.
	RejectLogin func()
	// History says that what is said while nobody is connected can be read later.
	History bool
	// ExactlyOnce says that the platform shows a message once that is sent again with its
	// key, or shows what was sent: no reply is there twice. See [RunNetfaults].
	ExactlyOnce bool
}

// Run plays all there is on a platform that make makes for each. What it makes must
// end with the test.
func Run(t *testing.T, make func(t *testing.T) *Platform) {
	for _, play := range []struct {
		name string
		f    func(o *fixture)
	}{
		{"what is said is answered once", answeredOnce},
		{"a platform that is down at the start", downAtStart},
		{"a platform that goes and comes back", outage},
		{"a platform that hangs", hangs},
		{"a platform that hangs when it is connected to", hangsAtStart},
		{"a server that is started again", restarted},
		{"the same thing twice", redelivered},
		{"credentials that are refused", loginRejected},
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
	o.await("it has failed more than once", func() bool { return o.State().Attempts > 1 })
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
	o.await("it is not called connected", func() bool { return o.State().Condition != channel.ConditionConnected })
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
	o.await("it is not called connected", func() bool { return o.State().Condition != channel.ConditionConnected })
	o.p.Restore()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectSent("one")
	o.stop()
}

func hangsAtStart(o *fixture) {
	o.p.Hang()
	o.start()
	o.await("it has failed", func() bool { return o.State().Attempts > 0 })
	o.stop() // also in the middle of a try
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
	o.p.Post("2", "two") // what comes behind it
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
	o.await("it is "+string(want), func() bool { return o.State().Condition == want })
}

// expectSent waits until the platform has taken these texts, and no others.
func (o *fixture) expectSent(want ...string) {
	o.t.Helper()
	o.await("it has sent "+strings.Join(want, ", "), func() bool { return len(o.p.Sent()) >= len(want) })
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
			o.t.Fatalf("never: %s; the channel is %+v; sent %q", what, o.State(), o.p.Sent())
		}
	}
}
