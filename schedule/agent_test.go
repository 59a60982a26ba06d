package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/schedule/plan"
	"mailroom/store/storetest"
	"mailroom/thread"
)

func TestAScheduleSendsAtItsTimes(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(s *plan.Spec) { s.Every, s.Cron, s.Zone = 0, "35,40-42 5 * * 6", "Asia/Kolkata" }) // +05:30
		h.rest(30 * time.Minute)
		if got, want := h.received("work"), "00:05, 00:10, 00:11, 00:12"; got != want {
			t.Errorf("sent at %s, want %s", got, want)
		}
		s := h.state(nightly)
		if s.Sent != 4 || len(s.Open) != 0 || len(s.Results) != 4 || s.Results[3].Status != mailroom.StatusCompleted {
			t.Errorf("the state is %+v", s)
		}
	})
}

// TestAScheduleGoesOnForLongerThanAChainOfThreads guards against the bound of threads that a message is sent through.
func TestAScheduleGoesOnForLongerThanAChainOfThreads(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(*plan.Spec) {})
		h.rest(4 * mailroom.MaxHops * time.Minute)
		if got := h.state(nightly).Sent; got != 4*mailroom.MaxHops {
			t.Errorf("%d were sent, want one each minute", got)
		}
	})
}

func TestOneTimeIsOnce(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(s *plan.Spec) { s.Every, s.At = 0, time.Now().Truncate(time.Minute).Add(time.Minute) })
		h.rest(10 * time.Minute)
		if got := h.received("work"); got != "00:01" {
			t.Errorf("sent at %q", got)
		}
		if at := h.state(nightly).NextFire(); !at.IsZero() {
			t.Errorf("it fires again at %s", at)
		}
	})
}

func TestWhatWasDueDuringAnOutageIsSentOrSkipped(t *testing.T) {
	for policy, want := range map[plan.CatchUp]string{
		"one":  "00:01 missed ×6, 00:07 superseded ×2, 00:09 sent",
		"none": "00:01 missed ×8, 00:09 sent",
		"all":  "00:01 missed ×6, 00:07 sent, 00:08 sent, 00:09 sent",
	} {
		t.Run(string(policy), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				h.set(func(s *plan.Spec) {
					s.CatchUp, s.Overlap, s.Window = policy, "all", 3*time.Minute
				})
				h.stop()
				h.rest(9*time.Minute + 30*time.Second)
				h.serve(h.store)
				if got := h.story(nightly); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if policy == "all" {
					if got := h.received("work"); got != "00:07, 00:08, 00:09" {
						t.Errorf("sent %s", got)
					}
				}
			})
		})
	}
}

func TestOverlap(t *testing.T) {
	for policy, want := range map[plan.Overlap]string{
		"skip": "00:01 sent, 00:02 overlap, 00:03 overlap, 00:04 sent",
		"one":  "00:01 sent, 00:02 overlap, 00:03 sent, 00:04 sent",
		"all":  "00:01 sent, 00:02 sent, 00:03 sent, 00:04 sent",
	} {
		t.Run(string(policy), func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				first := true
				h.worker = func(ctx context.Context, _ mailroom.Session) error {
					if first {
						first = false
						return sleep(ctx, 2*time.Minute+30*time.Second)
					}
					return nil
				}
				h.set(func(s *plan.Spec) { s.Overlap = policy })
				h.rest(4*time.Minute + 10*time.Second)
				if got := h.story(nightly); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

func TestABusyThreadIsNotDisturbed(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.worker = func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Origin.Via == "user" {
				return sleep(ctx, 90*time.Second)
			}
			return nil
		}
		h.set(func(s *plan.Spec) { s.Busy = plan.BusySkip })
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: "work", Agent: "coder", Owner: "admin",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("by hand")}}, Origin: mailroom.Origin{Via: "user"}})
		h.must(err)
		h.rest(2*time.Minute + 10*time.Second)
		if got, want := h.story(nightly), "00:01 busy, 00:02 sent"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestAPausedScheduleSendsNothing(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(*plan.Spec) {})
		h.rest(time.Minute)
		h.do(plan.Command{Op: plan.OpPause, Note: "holidays"})
		h.rest(3 * time.Minute)
		h.do(plan.Command{Op: plan.OpTrigger})
		h.do(plan.Command{Op: plan.OpResume})
		h.rest(time.Minute)
		const want = "00:01 sent, 00:04 sent, 00:02 paused ×3, 00:05 sent"
		if got := h.story(nightly); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestFailuresInARowPauseASchedule(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.worker = func(context.Context, mailroom.Session) error {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("no key")}
		}
		h.set(func(s *plan.Spec) { s.PauseAfter = 2 })
		h.rest(5 * time.Minute)
		const want = "00:01 sent, 00:02 sent, paused: 2 failures in a row, the last one: no key"
		if got := h.story(nightly); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestARefusedMessageIsSkippedAndSaid(t *testing.T) {
	withFixture(t, func(h *fixture) {
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: "work", Agent: "coder", Owner: "ann",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("mine")}}})
		h.must(err)
		const id = "schedule:bob:x"
		row := &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit}, Sum: "5e",
			CreatedAt: time.Now()}
		row, err = h.ledger.Accounts().CreateToken(h.t.Context(), *row)
		h.must(err)
		h.must(h.command(id, plan.Command{Op: plan.OpSet, By: "bob", Source: row.ID(),
			Spec: h.spec(func(s *plan.Spec) { s.PauseAfter = 2 })}))
		h.rest(3 * time.Minute)
		got := h.story(id)
		if !strings.HasPrefix(got, "00:01 refused, 00:02 refused, paused: 2 failures in a row, the last one: ") ||
			!strings.Contains(got, `no thread "work"`) {
			t.Errorf("got %s", got)
		}
	})
}

// TestAScheduleEndsWithTheTokenThatMadeIt also creates a token of the same name.
func TestAScheduleEndsWithTheTokenThatMadeIt(t *testing.T) {
	withFixture(t, func(h *fixture) {
		const id = "schedule:bob:x"
		row := func(sum string) *auth.Token {
			return &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit}, Sum: sum, CreatedAt: time.Now()}
		}
		first, err := h.ledger.Accounts().CreateToken(h.t.Context(), *row("5e"))
		h.must(err)
		h.must(h.command(id, plan.Command{Op: plan.OpSet, By: "bob", Source: first.ID(),
			Spec: h.spec(func(*plan.Spec) {})}))
		h.rest(90 * time.Second)
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "bob"))
		second, err := h.ledger.Accounts().CreateToken(h.t.Context(), *row("6f"))
		h.must(err)
		h.rest(5 * time.Minute)
		const paused = "00:01 sent, paused: token bob, which made it, was revoked or replaced, or has expired"
		if got := h.story(id); got != paused {
			t.Errorf("after the revocation\n got %s\nwant %s", got, paused)
		}
		h.must(h.command(id, plan.Command{Op: plan.OpResume, By: "bob", Source: second.ID()}))
		h.rest(time.Minute)
		if got, want := h.story(id), paused+", 00:02 paused ×5, 00:07 sent"; got != want {
			t.Errorf("after a resume by the new token\n got %s\nwant %s", got, want)
		}
	})
}

func TestOnlyTheServerSendsCommands(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.set(func(*plan.Spec) {})
		c := plan.Command{Op: plan.OpPause, By: "admin"}
		parts, err := c.Parts()
		h.must(err)
		_, err = h.ledger.Submit(h.t.Context(), thread.Submit{Thread: nightly, Owner: "admin",
			Messages: []thread.NewMessage{{Parts: parts}}, By: h.operator, Origin: mailroom.Origin{Via: "user"}})
		h.must(err)
		h.rest(time.Minute)
		if s := h.state(nightly); s.Paused != nil || s.Sent != 1 {
			t.Errorf("the state is %+v, want no pause", s)
		}
	})
}

func TestACancelledRunDoesNotHoldUpTheNextAndIsNoFailure(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.worker = func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Wait(ctx, false, mailroom.Ask{Name: "ask", Kind: mailroom.TicketInput, Prompt: "go on?"})
			return err
		}
		h.set(func(s *plan.Spec) { s.PauseAfter = 1 })
		h.rest(time.Minute)
		_, err := h.ledger.Interrupt(h.t.Context(), "work", h.operator)
		h.must(err)
		h.must(h.ledger.DeleteThread(h.t.Context(), "work", nil))
		h.rest(time.Minute)
		if got, want := h.story(nightly), "00:01 sent, 00:02 sent"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestEachOccurrenceIsSentOnceDespiteAKillAtAnyWrite kills the server before and after each of its writes to a log,
// over a few minutes with two messages at a time.
func TestEachOccurrenceIsSentOnceDespiteAKillAtAnyWrite(t *testing.T) {
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.set(func(s *plan.Spec) { s.CatchUp, s.Overlap = "all", "all" })
					h.stop()
					h.rest(90 * time.Second)
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					for range 8 {
						if h.rest(15 * time.Second); m.IsDead() {
							h.stop()
							h.serve(h.store)
						}
					}
					survived = !m.IsDead()
					if got, want := h.received("work"), "00:01, 00:02, 00:03"; got != want {
						t.Errorf("sent %s, want %s; %s", got, want, h.story(nightly))
					}
				})
			})
		}
		if survived {
			if n < 10 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}

// TestACommandIsCarriedOutOnceDespiteAKillAtAnyWrite sends one message by hand.
func TestACommandIsCarriedOutOnceDespiteAKillAtAnyWrite(t *testing.T) {
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.set(func(s *plan.Spec) { s.Every = 24 * time.Hour })
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					trigger := plan.Command{Op: plan.OpTrigger, By: "admin"}
					err := h.command(nightly, trigger, "once")
					h.rest(time.Minute)
					if survived = !m.IsDead(); !survived {
						h.stop()
						h.serve(h.store)
					}
					if err != nil {
						h.must(h.command(nightly, trigger, "once"))
					}
					h.rest(2 * time.Minute)
					if got := h.state(nightly); got.Sent != 1 || len(got.Open) != 0 {
						t.Errorf("%d were sent, and %d are open: %s", got.Sent, len(got.Open), h.story(nightly))
					}
				})
			})
		}
		if survived {
			return
		}
	}
}
