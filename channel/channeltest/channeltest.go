// Package channeltest is the test suite of channels. Each case is written once and runs on every
// platform: the platform is a fake that the test controls, which fails in every way that platforms
// do. A platform that lacks a feature gets the case for platforms without it.
package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// Run runs the suite, with a new platform of make for each case. The platform must end with its
// test.
func Run(t *testing.T, make func(t *testing.T) *Platform) {
	for _, c := range []struct {
		name string
		run  func(s *Server)
	}{
		{"each message is answered once", answeredOnce},
		{"a platform that is down at the start", downAtStart},
		{"an outage of the platform", platformOutage},
		{"a platform that hangs", hangs},
		{"a platform that hangs during connect", hangsAtStart},
		{"a restart of the server", restarted},
		{"a redelivered message", redelivered},
		{"rejected credentials", loginRejected},
		{"credentials that are refused for a moment", loginRefusedOnce},
		{"credentials that are refused for minutes", loginRefusedLong},
		{"a commit that was reported as failed", uncertainCommit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the cases mostly wait
			c.run(NewServer(t, make(t)))
		})
	}
}

func answeredOnce(s *Server) {
	s.Start()
	s.awaitCondition(channel.ConditionConnected)
	s.post("1", "one")
	s.post("2", "two")
	s.expectSent("one", "two")
	if now := s.State(); now.LastInbound.IsZero() || now.LastOutbound.IsZero() || now.LastSuccess.IsZero() ||
		now.Attempts != 0 {
		s.t.Errorf("the state is %+v", now)
	}
	s.Stop()
}

// downAtStart has messages that the platform keeps, or that a program sends, during the outage. Their
// replies are no dead letters, and nothing counts as perhaps sent.
func downAtStart(s *Server) {
	s.p.down()
	s.Start()
	if !s.connects() {
		s.post("1", "one")
		s.post("2", "two")
	}
	s.awaitFailures(2)
	now := s.State()
	if s.connects() && (now.Condition == channel.ConditionConnected || !now.ConnectedSince.IsZero() ||
		!strings.Contains(now.Reason, "refused")) {
		s.t.Errorf("the state is %+v", now)
	}
	if s.connects() {
		s.postIfHistory("1", "one")
		s.postIfHistory("2", "two")
	}
	s.p.restore(s.t)
	s.awaitCondition(channel.ConditionConnected)
	if !s.p.Events.History {
		s.post("1", "one")
		s.post("2", "two")
	}
	s.expectSent("one", "two")
	if dead, unknown := s.runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}}), s.countEntries(
		entry.KindEffectUnknown); dead+unknown > 0 {
		s.t.Errorf("%d dead letters, %d unknown outcomes", dead, unknown)
	}
	s.Stop()
}

func platformOutage(s *Server) {
	s.startAnswered()
	s.p.down()
	s.awaitLeaves(channel.ConditionConnected)
	s.postIfHistory("2", "two")
	s.awaitFailures(1)
	s.p.restore(s.t)
	s.awaitReconnect("2", "two")
	s.expectSent("one", "two")
	if now := s.State(); s.connects() && (now.Reconnects < 1 || now.Downtime == 0 || now.Adapter < 2) {
		s.t.Errorf("the state is %+v", now)
	}
	s.Stop()
}

func hangs(s *Server) {
	if s.p.Outages.HangReason == "" { // else the adapter notices
		s.noticeSilence()
	}
	s.startAnswered()
	s.p.hang()
	s.postIfHistory("2", "two")
	s.awaitLeaves(channel.ConditionConnected)
	if now := s.State(); s.connects() && s.p.Outages.HangReason == "" && (now.Condition != channel.ConditionSilent ||
		!strings.Contains(now.Reason, "no heartbeat")) {
		s.t.Errorf("the state is %+v", now)
	} else if !strings.Contains(now.LastError, s.p.Outages.HangReason) {
		s.t.Errorf("the state is %+v", now)
	}
	s.p.restore(s.t)
	s.awaitReconnect("2", "two")
	s.expectSent("one", "two")
	s.Stop()
}

func hangsAtStart(s *Server) {
	s.noticeSilence()
	s.p.hang()
	s.Start()
	if !s.connects() {
		s.post("1", "one")
	}
	s.awaitFailures(1)
	s.Stop() // also during an attempt
	s.p.restore(s.t)
	s.Start()
	s.awaitCondition(channel.ConditionConnected)
	if s.connects() {
		s.post("1", "one")
	}
	s.expectSent("one")
	s.Stop()
}

func restarted(s *Server) {
	s.startAnswered()
	s.Stop()
	s.postIfHistory("2", "two")
	s.Start()
	s.awaitReconnect("2", "two")
	s.post("3", "three")
	s.expectSent("one", "two", "three")
	s.Stop()
}

func redelivered(s *Server) {
	s.startAnswered()
	if s.p.Dialer == nil || s.p.Events.Redeliver != nil {
		s.post("1", "one")
	} else { // the platform repeats nothing
		s.Stop()
		s.Start()
	}
	s.post("2", "two") // posted behind the repeat
	s.expectSent("one", "two")
	s.Stop()
}

func loginRejected(s *Server) {
	if s.p.Credentials.Reject == nil {
		s.Start()
		s.awaitCondition(channel.ConditionConnected)
		s.Stop()
		return
	}
	s.p.Credentials.Reject()
	s.Start()
	s.awaitCondition(channel.ConditionFailed)
	if now := s.State(); now.Adapter != 1 || now.NextTry.IsZero() || now.Reason == "" {
		s.t.Errorf("at the start: %+v", now)
	}
	s.p.restore(s.t)
	s.Resume()
	s.awaitCondition(channel.ConditionConnected)
	s.Stop()
}

// loginRefusedOnce has credentials that work, are refused for a moment, and work again: nothing is for an
// operator to do.
func loginRefusedOnce(s *Server) {
	s.startAnswered()
	if s.p.Credentials.Reject != nil {
		s.p.Credentials.Reject()
		s.Await("a refusal", func() bool {
			now := s.State()
			return strings.Contains(now.LastError, "refused since") || now.Condition == channel.ConditionFailed
		})
		if now := s.State(); now.Condition == channel.ConditionFailed {
			s.t.Fatalf("one refusal is final: %+v", now)
		}
		s.p.restore(s.t)
		s.awaitCondition(channel.ConditionConnected)
	}
	s.post("2", "two")
	s.expectSent("one", "two")
	s.Stop()
}

// loginRefusedLong has credentials that worked, and are refused until the channel is failed. A probe finds out
// that they work again.
func loginRefusedLong(s *Server) {
	s.Policy.FatalGrace, s.Policy.ProbeInterval = 50*time.Millisecond, 50*time.Millisecond
	s.startAnswered()
	if s.p.Credentials.Reject != nil {
		s.p.Credentials.Reject()
		s.Await("a failed channel that is probed", func() bool { // in one state: during a probe it has no next try
			now := s.State()
			return now.Condition == channel.ConditionFailed && !now.NextTry.IsZero()
		})
		s.p.restore(s.t)
		s.awaitCondition(channel.ConditionConnected)
	}
	s.post("2", "two")
	s.expectSent("one", "two")
	s.Stop()
}

// uncertainCommit has a ledger that commits the first message and reports a failure. The message is
// delivered again, or is not, and runs once. The reply comes after the reconnect: one that the old
// connection was still sending would be sent again, with a mark.
func uncertainCommit(s *Server) {
	var failed atomic.Bool
	s.hold = make(chan struct{})
	s.wrap = func(l channel.Ledger) channel.Ledger { return uncertainLedger{l, &failed} }
	s.Start()
	s.awaitCondition(channel.ConditionConnected)
	s.post("1", "one")
	s.Await("the failure", func() bool { return strings.Contains(s.State().LastError, "outcome unknown") })
	s.awaitCondition(channel.ConditionConnected)
	close(s.hold)
	s.expectSent("one")
	s.post("2", "two")
	s.expectSent("one", "two")
	if n := s.runs(store.RunQuery{Agent: Agent}); n != 2 {
		s.t.Errorf("%d runs of 2 messages", n)
	}
	s.Stop()
}

// uncertainLedger reports the first submit as failed.
type uncertainLedger struct {
	channel.Ledger
	failed *atomic.Bool
}

// Submit implements [channel.Ledger].
func (u uncertainLedger) Submit(ctx context.Context, in thread.Submit) (store.Submitted, error) {
	out, err := u.Ledger.Submit(ctx, in)
	if err == nil && u.failed.CompareAndSwap(false, true) {
		err = mailroom.Errorf(mailroom.CodeUnavailable, "outcome unknown")
	}
	return out, err
}

// connects reports whether the platform has connections.
func (s *Server) connects() bool { return s.Policy.IdleTimeout >= 0 }

// awaitCondition waits for a condition.
func (s *Server) awaitCondition(want channel.Condition) {
	s.t.Helper()
	s.Await("the channel is "+string(want), func() bool { return s.State().Condition == want })
}

// expectSent waits until the platform has accepted exactly these texts.
func (s *Server) expectSent(want ...string) {
	s.t.Helper()
	s.Await(strings.Join(want, ", ")+" sent", func() bool { return len(s.sent()) >= len(want) })
	s.AwaitSettled()
	if got := s.sent(); !slices.Equal(got, want) {
		s.t.Fatalf("sent %q, want %q", got, want)
	}
}

// Await waits until good returns true.
func (s *Server) Await(what string, good func() bool) {
	s.t.Helper()
	await(s.t, what, good, func() string { return fmt.Sprintf("%+v; sent %q", s.State(), s.sent()) })
}
