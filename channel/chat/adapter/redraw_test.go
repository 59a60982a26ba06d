package adapter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/thread"
)

// askThenWork asks for approval and then runs for an hour without a reply.
func askThenWork(ctx context.Context, s mailroom.Session) error {
	if _, err := s.Wait(ctx, false, payment()); err != nil {
		return err
	}
	select {
	case <-time.After(time.Hour):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decideElsewhere decides the only ticket outside of the platform.
func (o *serverFixture) decideElsewhere() {
	o.t.Helper()
	k := o.ticket()
	if _, err := o.ledger.Decide(o.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove,
		Digest: k.Digest, By: "bob"}); err != nil {
		o.t.Fatal(err)
	}
}

// expectRedrawn waits, and checks that the first message shows the decision.
func (o *serverFixture) expectRedrawn(within time.Duration) {
	o.t.Helper()
	<-time.After(within)
	q := o.platform.Sent()[0]
	if !strings.HasPrefix(q.Message.Text, "Approved by bob") || len(q.Message.Buttons) > 0 || len(q.Versions) != 2 {
		o.t.Errorf("question after %s: %+v", within, q)
	}
}

func TestAQuestionDecidedElsewhereIsRedrawn(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		<-time.After(5 * time.Minute)
		if n := len(o.platform.Sent()[0].Versions); n != 1 {
			t.Fatalf("%d versions of the question before the decision", n)
		}
		o.decideElsewhere()
		o.expectRedrawn(3 * time.Second)
		<-time.After(5 * time.Minute)
		if n := len(o.deliveries()); n != 2 || len(o.sentTexts()) != 1 {
			t.Errorf("%d deliveries, chat %q", n, o.sentTexts())
		}
	})
}

func TestALostAnnouncementDelaysARedrawByAMinute(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		o.deaf = true
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		<-time.After(90 * time.Second)
		o.decideElsewhere()
		o.expectRedrawn(65 * time.Second)
	})
}

func TestAnOpenQuestionCostsOneReadAMinute(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		<-time.After(time.Minute)
		before := o.views.Load()
		<-time.After(7 * time.Minute)
		if n := o.views.Load() - before; n > 7 {
			t.Errorf("%d views of the store in seven idle minutes", n)
		}
		o.decideElsewhere()
		o.expectRedrawn(3 * time.Second)
		<-time.After(10 * time.Minute)
		before = o.views.Load()
		<-time.After(30 * time.Minute)
		if n := o.views.Load() - before; n > 0 {
			t.Errorf("%d views of the store without open questions", n)
		}
	})
}

func TestAQuestionFromBeforeARestartIsRedrawnWhenItIsDecided(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		o.stop()
		o.start()
		<-time.After(time.Minute)
		o.decideElsewhere()
		o.expectRedrawn(3 * time.Second)
	})
}

// TestAQuestionIsRedrawnOverTheNextConnection decides during an outage.
func TestAQuestionIsRedrawnOverTheNextConnection(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		var mu sync.Mutex
		away := false
		dials := func(context.Context, CallArgs) error {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return errors.New("refused")
			}
			return nil
		}
		o.platform.Hook(CallDial, dials)
		o.platform.Hook(CallReceive, dials)
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		mu.Lock()
		away = true
		mu.Unlock()
		o.platform.SendPrivate("ann", "and this too")
		<-time.After(time.Minute)
		o.decideElsewhere()
		<-time.After(10 * time.Minute)
		mu.Lock()
		away = false
		mu.Unlock()
		o.expectRedrawn(6 * time.Minute)
	})
}

// TestAFailedRedrawIsRetriedALimitedNumberOfTimes has the platform refuse the edit for
// a while, or always.
func TestAFailedRedrawIsRetriedALimitedNumberOfTimes(t *testing.T) {
	for name, c := range map[string]struct {
		fails, tries int
	}{"for a while": {2, 3}, "always": {1000, 5}} {
		t.Run(name, func(t *testing.T) {
			withServer(t, askThenWork, func(o *serverFixture) {
				var mu sync.Mutex
				tries := 0
				o.platform.Hook(CallEdit, func(_ context.Context, c2 CallArgs) error {
					mu.Lock()
					defer mu.Unlock()
					if tries++; tries <= c.fails {
						return errors.New("the platform has a problem")
					}
					c2.Do()
					return nil
				})
				o.start()
				o.platform.SendPrivate("ann", "go")
				o.awaitSettled(1)
				o.decideElsewhere()
				<-time.After(30 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if tries != c.tries {
					t.Errorf("%d attempts, want %d", tries, c.tries)
				}
				if shown := strings.HasPrefix(o.sentTexts()[0], "Approved by bob"); shown != (c.fails < c.tries) {
					t.Errorf("question %q", o.sentTexts()[0])
				}
			})
		})
	}
}

// TestADecisionInTheChatRedrawsTheQuestion presses a button. The redraw needs no delivery besides the
// answer, also if the acknowledgement is slow.
func TestADecisionInTheChatRedrawsTheQuestion(t *testing.T) {
	withServer(t, askThenWork, func(o *serverFixture) {
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		o.platform.Hook(CallAckButton, func(_ context.Context, c CallArgs) error {
			<-time.After(1500 * time.Millisecond)
			c.Do()
			return nil
		})
		o.platform.PressButton("ann", o.platform.Sent()[0], "Approve")
		<-time.After(10 * time.Minute)
		if n, sent := len(o.deliveries()), o.platform.Sent(); n != 2 || len(sent) != 1 || len(sent[0].Versions) != 2 {
			t.Errorf("%d deliveries, chat %+v", n, sent)
		}
	})
}
