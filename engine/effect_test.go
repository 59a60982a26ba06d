package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

type result struct {
	value string
	err   error
}

// effects returns the effect entries of a thread, as "kind name".
func (h *fixture) effects(thread string) []string {
	h.t.Helper()
	var list []string
	for _, e := range h.entries(thread, entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown) {
		list = append(list, strings.TrimPrefix(e.Kind, "effect.")+" "+body[entry.EffectEntry](h, e).Name)
	}
	return list
}

func (h *fixture) wantEffects(thread string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.effects(thread)); diff != "" {
		h.t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// crashed submits to another process, which dies during the effect "pay" of its agent. The run is then
// due for other workers.
func (h *fixture) crashed(e mailroom.Effect) store.Submitted {
	h.t.Helper()
	inside := make(chan struct{})
	victim := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
		_, err := s.Do(ctx, e, func(ctx context.Context, _ string) (json.RawMessage, error) {
			close(inside)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		return err
	}))
	out := h.send("t", "pay")
	<-inside
	victim.kill()
	return out
}

// A call that its stop cut off may have had its effect, whatever error it returns.
func TestAnEffectThatAStopCutOffIsUnknown(t *testing.T) {
	everywhere(t, func(h *fixture) {
		inside := make(chan struct{})
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(ctx context.Context, _ string) (json.RawMessage, error) {
				close(inside)
				<-ctx.Done()
				return nil, errors.New("connection reset")
			})
			return err
		})
		out := h.send("t", "pay")
		<-inside
		_, err := h.ledger.Cancel(context.Background(), out.Run, "anna")
		h.must(err)
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCancelled)
		h.wantEffects("t", "intended pay", "unknown pay")
	})
}

func TestACrashInAnEffectIsUnknownAndOpensATicket(t *testing.T) {
	for verdict, want := range map[mailroom.Verdict]struct {
		status mailroom.Status
		reply  string
		calls  int
	}{
		mailroom.VerdictApprove: {mailroom.StatusCompleted, `"again"`, 1},
		mailroom.VerdictAnswer:  {mailroom.StatusCompleted, `"answered"`, 0},
		mailroom.VerdictDeny:    {mailroom.StatusFailed, "", 0},
	} {
		t.Run(string(verdict), func(t *testing.T) {
			everywhere(t, func(h *fixture) {
				out := h.crashed(mailroom.Effect{Name: "pay"})
				calls := 0
				h.serve(func(ctx context.Context, s mailroom.Session) error {
					v, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
						calls++
						return json.RawMessage(`"again"`), nil
					})
					if err != nil {
						return err
					}
					return s.Stream(ctx, string(v))
				})
				h.wait(time.Minute)
				h.status(out.Run, mailroom.StatusWaiting)
				h.wantEffects("t", "intended pay", "unknown pay")
				k := h.ticket(out.Run, "effect:pay#1")
				d := thread.Decision{Ticket: k.ID, Verdict: verdict, Digest: k.Digest, By: "anna"}
				if verdict == mailroom.VerdictAnswer {
					d.Answer = json.RawMessage(`"answered"`)
				}
				_, err := h.ledger.Decide(context.Background(), d)
				h.must(err)
				h.wait(time.Minute)
				r := h.status(out.Run, want.status)
				if calls != want.calls {
					t.Errorf("got %d calls, want %d", calls, want.calls)
				}
				if want.reply != "" && (r.Reply == nil || *r.Reply != want.reply) {
					t.Errorf("got %+v, want reply %s", r, want.reply)
				}
				if want.status == mailroom.StatusFailed && (r.Error.Class != mailroom.ClassPermanent ||
					!strings.Contains(r.Error.Message, "pay")) {
					t.Errorf("got error %+v, want a permanent one that names the effect", r.Error)
				}
			})
		})
	}
}

func TestACrashInAnIdempotentEffectCallsAgainWithTheSameKey(t *testing.T) {
	everywhere(t, func(h *fixture) {
		e := mailroom.Effect{Name: "pay", Idempotent: true}
		out := h.crashed(e)
		var key string
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, e, func(_ context.Context, k string) (json.RawMessage, error) {
				key = k
				return nil, nil
			})
			return err
		})
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		h.wantEffects("t", "intended pay", "unknown pay", "intended pay", "settled pay")
		keys := map[string]bool{key: true}
		for _, e := range h.entries("t", entry.KindEffectIntended) {
			keys[body[entry.EffectEntry](h, e).Key] = true
		}
		if len(keys) != 1 || key == "" {
			t.Errorf("got keys %v, want one", keys)
		}
	})
}

func TestACrashInAReconciledEffectCallsReconcile(t *testing.T) {
	for _, happened := range []bool{true, false} {
		everywhere(t, func(h *fixture) {
			e := mailroom.Effect{Name: "pay", Reconcile: func(context.Context, string) (json.RawMessage, bool, error) {
				return json.RawMessage(`"found"`), happened, nil
			}}
			out := h.crashed(e)
			calls := 0
			h.serve(func(ctx context.Context, s mailroom.Session) error {
				v, err := s.Do(ctx, e, func(context.Context, string) (json.RawMessage, error) {
					calls++
					return json.RawMessage(`"called"`), nil
				})
				return errors.Join(err, s.Stream(ctx, string(v)))
			})
			h.wait(time.Minute)
			want, n := `"called"`, 1
			if happened {
				want, n = `"found"`, 0
			}
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Reply == nil || *r.Reply != want || calls != n {
				t.Errorf("happened %v: got %d calls, %+v", happened, calls, r)
			}
		})
	}
}

func TestAnErrorOfAnEffectIsNotRemembered(t *testing.T) {
	everywhere(t, func(h *fixture) {
		calls := 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
				if calls++; calls < 3 {
					return nil, errors.New("refused")
				}
				return nil, nil
			})
			return err
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusCompleted); calls != 3 || r.Failures != 2 {
			t.Errorf("got %d calls, %d failures", calls, r.Failures)
		}
		h.wantEffects("t", "intended pay", "settled pay", "intended pay", "settled pay", "intended pay", "settled pay")
	})
}

func TestAnOutageDuringAnEffectCountsAsAnOutage(t *testing.T) {
	localOnly(t, func(h *fixture) {
		up, calls := time.Now().Add(time.Hour), 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, mailroom.Effect{Name: "tell"}, func(context.Context, string) (json.RawMessage, error) {
				if calls++; calls < 100 && time.Now().Before(up) { // a retry storm would end earlier
					return nil, &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("connection refused")}
				}
				return nil, nil
			})
			return err
		})
		out := h.send("t", "hello")
		h.wait(time.Hour + 7*time.Minute)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 0 || r.Attempt < 10 || r.Attempt > 40 {
			t.Errorf("%d failures in %d attempts, want none and no retry storm", r.Failures, r.Attempt)
		}
	})
}

func TestTheSameEffectWithOtherInputIsAConflict(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			do := func(input string) error {
				_, err := s.Do(ctx, mailroom.Effect{Name: "pay", Input: json.RawMessage(input)},
					func(context.Context, string) (json.RawMessage, error) { return nil, nil })
				return err
			}
			h.expect(do(`{"sum":1}`))
			h.expect(do(`{ "sum": 1 }`))
			if code := mailroom.CodeOf(do(`{"sum":2}`)); code != mailroom.CodeConflict {
				t.Errorf("got code %q, want %q", code, mailroom.CodeConflict)
			}
			return nil
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		h.wantEffects("t", "intended pay", "settled pay")
	})
}

// The call was made, and another one must not follow: the run fails for good. Only a memo may be called by a retry.
func TestAValueThatCannotBeKeptFailsTheRunAfterOneCall(t *testing.T) {
	for name, value := range map[string]string{
		"too large": `"` + strings.Repeat("x", mailroom.MaxEffect) + `"`, "no JSON": `{`, "no UTF-8": "\"\xff\"",
	} {
		for _, memo := range []bool{false, true} {
			t.Run(fmt.Sprint(name, memo), func(t *testing.T) {
				everywhere(t, func(h *fixture) {
					calls := 0
					h.serve(func(ctx context.Context, s mailroom.Session) error {
						_, err := s.Do(ctx, mailroom.Effect{Name: "read", Memo: memo},
							func(context.Context, string) (json.RawMessage, error) {
								calls++
								return json.RawMessage(value), nil
							})
						return err
					})
					out := h.send("t", "read")
					h.wait(time.Minute)
					r := h.status(out.Run, mailroom.StatusFailed)
					if calls != 1 || r.Attempt != 1 || !strings.Contains(r.Error.Message, "could not be kept") {
						t.Errorf("%d calls in %d attempts, error %+v", calls, r.Attempt, r.Error)
					}
					_, err := h.ledger.Retry(context.Background(), thread.Retry{Run: out.Run})
					h.must(err)
					h.wait(time.Minute)
					r = h.status(out.Run, mailroom.StatusFailed)
					if want := map[bool]int{true: 2, false: 1}[memo]; calls != want || r.Attempt != 2 {
						t.Errorf("after a retry: %d calls, want %d, in %d attempts", calls, want, r.Attempt)
					}
				})
			})
		}
	}
}

func TestAnUnknownEffectWithALargeInputOpensATicket(t *testing.T) {
	everywhere(t, func(h *fixture) {
		input := json.RawMessage(`"` + strings.Repeat("x", 2*mailroom.MaxAnswer) + `"`)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			_, err := s.Do(ctx, mailroom.Effect{Name: "pay", Input: input},
				func(context.Context, string) (json.RawMessage, error) {
					return nil, mailroom.ErrUnknown
				})
			return err
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusWaiting)
	})
}

func TestConcurrentEffectsHappenOnceAlsoWhenOneParks(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var mu sync.Mutex
		calls := map[string]int{}
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			results := make([]result, 8)
			var all sync.WaitGroup
			for i := range results {
				all.Go(func() {
					name := fmt.Sprint("e", i)
					v, err := s.Do(ctx, mailroom.Effect{Name: name}, func(context.Context, string) (json.RawMessage, error) {
						mu.Lock()
						calls[name]++
						n := calls[name]
						mu.Unlock()
						<-time.After(time.Duration(i) * time.Second)
						if i == 3 && n == 1 {
							return nil, mailroom.ErrUnknown
						}
						return json.Marshal(name)
					})
					results[i] = result{string(v), err}
				})
			}
			all.Wait()
			for i, r := range results {
				if r.err != nil {
					return r.err
				}
				if want := fmt.Sprintf("%q", fmt.Sprint("e", i)); r.value != want {
					t.Errorf("effect %d: got %s, want %s", i, r.value, want)
				}
			}
			return nil
		})
		out := h.send("t", "all")
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusWaiting)
		h.decide(h.ticket(out.Run, "effect:e3#1"), mailroom.VerdictApprove)
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusCompleted)
		for i := range 8 {
			want := 1
			if i == 3 {
				want = 2
			}
			if got := calls[fmt.Sprint("e", i)]; got != want {
				t.Errorf("effect %d: got %d calls, want %d", i, got, want)
			}
		}
	})
}

func TestARetryByHandKeepsEffectsAndFreshForgetsThem(t *testing.T) {
	everywhere(t, func(h *fixture) {
		calls := 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Checkpoint == nil {
				h.expect(s.Append(ctx, mailroom.Step{Checkpoint: json.RawMessage(`{"at":1}`)}))
			}
			if _, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
				calls++
				return nil, nil
			}); err != nil {
				return err
			}
			got, err := s.Wait(ctx, false, approval("go"))
			if err != nil {
				return err
			}
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New(string(got[0].Decision))}
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		h.decide(h.ticket(out.Run, "go"), mailroom.VerdictApprove)
		h.wait(time.Minute)
		h.status(out.Run, mailroom.StatusFailed)
		retry := func(fresh bool) {
			_, err := h.ledger.Retry(context.Background(), thread.Retry{Run: out.Run, Fresh: fresh})
			h.must(err)
			h.wait(time.Minute)
		}
		prompts := func() int { return len(h.entries("t", entry.KindTicketOpened)) }

		retry(false)
		if r := h.status(out.Run, mailroom.StatusFailed); calls != 1 || prompts() != 1 || r.Checkpoint == nil ||
			r.Attempt != 3 {
			t.Errorf("%d calls, %d prompts, %+v", calls, prompts(), r)
		}
		retry(true)
		h.status(out.Run, mailroom.StatusWaiting)
		if calls != 2 || prompts() != 2 {
			t.Errorf("fresh: got %d calls, %d prompts; want 2 of each", calls, prompts())
		}
		h.decide(h.ticket(out.Run, "go"), mailroom.VerdictDeny)
		h.wait(time.Minute)
		if r := h.status(out.Run, mailroom.StatusFailed); r.Error.Message != "deny" {
			t.Errorf("got %+v, want the new decision", r.Error)
		}
	})
}
