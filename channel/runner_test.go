package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
)

// adapter is one that does what a test says.
type adapter struct {
	prepare func() // within the bubble
	receive func(ctx context.Context, l *channel.Link) error
	tend    func(ctx context.Context, l *channel.Link)
}

func (a *adapter) Receive(ctx context.Context, l *channel.Link) error { return a.receive(ctx, l) }

func (a *adapter) Tend(ctx context.Context, l *channel.Link) {
	if a.tend != nil {
		a.tend(ctx, l)
	}
}

func (a *adapter) Deliver(context.Context, *channel.Link, channel.Delivery, mailroom.Session) error {
	return nil
}

// running runs a channel in a bubble until the test has looked at it.
func running(t *testing.T, a *adapter, look func(r *channel.Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if a.prepare != nil {
			a.prepare()
		}
		r := channel.New(channel.Options{Name: "c", Kind: "k", Adapter: a, Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			r.Run(ctx)
			close(done)
		}()
		synctest.Wait()
		look(r)
		stop()
		<-done
	})
}

// after lets time pass in a bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPausesGrowToAMinuteAndTheFirstSuccessBeginsAnew(t *testing.T) {
	var pauses []time.Duration
	var last time.Time
	tries := 0
	a := &adapter{receive: func(_ context.Context, l *channel.Link) error {
		if !last.IsZero() {
			pauses = append(pauses, time.Since(last))
		}
		last = time.Now()
		if tries++; tries == 9 {
			l.Heard()
		}
		return errors.New("no")
	}}
	running(t, a, func(*channel.Runner) {
		after(10 * time.Minute)
		s := time.Second
		want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, s, 2 * s, 4 * s}
		if got := pauses[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
	})
}

func TestARetryAfterIsObeyed(t *testing.T) {
	var at []time.Time
	a := &adapter{receive: func(context.Context, *channel.Link) error {
		at = append(at, time.Now())
		return fmt.Errorf("look: %w", &mailroom.Failure{Class: mailroom.Outage, RetryAfter: 90 * time.Second, Err: errors.New("later")})
	}}
	running(t, a, func(r *channel.Runner) {
		if next := time.Until(r.State().NextTry); next != 90*time.Second { // no time has passed
			t.Errorf("the next try is after %v", next)
		}
		after(2 * time.Minute)
		if len(at) != 2 || at[1].Sub(at[0]) != 90*time.Second {
			t.Errorf("tried at %v", at)
		}
	})
}

func TestConnectedIsSaidOnlyWhileTheEvidenceIsFresh(t *testing.T) {
	var heard chan struct{}
	var fail chan error
	a := &adapter{prepare: func() { heard, fail = make(chan struct{}), make(chan error) }, receive: func(ctx context.Context, l *channel.Link) error {
		for {
			select {
			case <-heard:
				l.Heard()
			case err := <-fail:
				return err
			case <-ctx.Done():
				return nil
			}
		}
	}}
	running(t, a, func(r *channel.Runner) {
		want := func(c channel.Condition, reason string) channel.State {
			t.Helper()
			synctest.Wait()
			s := r.State()
			if s.Condition != c || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
				t.Errorf("it is %s, %q, want %s, %q", s.Condition, s.Reason, c, reason)
			}
			return s
		}
		want(channel.Starting, "")
		heard <- struct{}{}
		since := want(channel.Connected, "").ConnectedSince
		after(30 * time.Second)
		want(channel.Connected, "")
		after(time.Second)
		want(channel.Silent, "31s")
		heard <- struct{}{}
		if s := want(channel.Connected, ""); !s.ConnectedSince.After(since) {
			t.Errorf("it was silent, and is said to be connected since %v", s.ConnectedSince)
		}
		fail <- errors.New("cut")
		if s := want(channel.Queued, "cut"); s.Failures != 1 || s.NextTry.IsZero() || !s.ConnectedSince.IsZero() || s.LastErrorAt.IsZero() {
			t.Errorf("the state is %+v", s)
		}
		after(time.Second)
		want(channel.Queued, "cut") // it is tried again; nothing was heard yet
		heard <- struct{}{}
		if s := want(channel.Connected, ""); s.Failures != 0 || s.LastError != "cut" || !s.NextTry.IsZero() {
			t.Errorf("the state is %+v", s)
		}
		fail <- channel.Fatal(errors.New("never"))
		after(time.Hour)
		if s := want(channel.Failed, "never"); !s.NextTry.IsZero() {
			t.Errorf("the state is %+v", s)
		}
	})
}

func TestAChannelThatPanicsIsTriedAgainAndTakesNobodyWithIt(t *testing.T) {
	a := &adapter{
		receive: func(context.Context, *channel.Link) error { panic("bug") },
		tend:    func(context.Context, *channel.Link) { panic("another bug") },
	}
	running(t, a, func(r *channel.Runner) {
		after(4 * time.Second)
		if s := r.State(); s.Condition != channel.Queued || s.Failures != 3 || !strings.Contains(s.Reason, "bug") || len(s.Reason) > 600 {
			t.Errorf("the state is %+v", s)
		}
	})
}

func TestAChannelThatReturnsWithoutAWordIsTriedAgain(t *testing.T) {
	running(t, &adapter{receive: func(context.Context, *channel.Link) error { return nil }}, func(r *channel.Runner) {
		if s := r.State(); s.Condition != channel.Queued || s.Reason == "" {
			t.Errorf("the state is %+v", s)
		}
	})
}

func TestABrokenChannelSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := channel.New(channel.Options{
			Name: "c", Kind: "k", Adapter: channel.Broken(errors.New("there is no token")), Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		r.Run(ctx)
		if s := r.State(); s.Condition != channel.Failed || s.Reason != "there is no token" || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the state is %+v; logged %s", s, log.String())
		}
	})
}

func TestEachChatHasAThreadOfItsOwn(t *testing.T) {
	for want, chat := range map[string][]string{
		"b:canvas:ws-1": {"canvas", "ws-1"}, "b:peer:a%2Fb": {"peer", "a/b"}, "b:peer:a%3Ab": {"peer", "a:b"},
		"b:peer:a:b": {"peer", "a", "b"}, "b:peer:%C3%A9+%0A": {"peer", "é \n"}, "b:peer:": {"peer", ""},
	} {
		if got := channel.ThreadID("b", chat...); got != want {
			t.Errorf("%q: %s, want %s", chat, got, want)
		}
	}
}

func FuzzThreadID(f *testing.F) {
	f.Add("b", "peer", "p-1", "p-2")
	f.Add("b", ".", "/", strings.Repeat("é", 300))
	f.Add("out", strings.Repeat("x", 200), "\x00", "\xff")
	f.Fuzz(func(t *testing.T, name, a, b, c string) {
		if name == "" {
			return // no channel is called so
		}
		id := channel.ThreadID(name, a, b)
		for _, id := range []string{id, channel.OutID(id)} {
			if got, err := mailroom.CheckThreadID(id); err != nil || got != id || !utf8.ValidString(id) {
				t.Errorf("%q is no thread: %q, %v", id, got, err)
			}
		}
		if id != channel.ThreadID(name, a, b) {
			t.Error("it is another one the second time")
		}
		if b != c && id == channel.ThreadID(name, a, c) {
			t.Errorf("%q and %q share %s", b, c, id)
		}
	})
}
