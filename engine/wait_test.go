package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/thread"
)

func (h *fixture) ticket(run, name string) *mailroom.Ticket {
	h.t.Helper()
	k, err := h.ledger.Ticket(context.Background(), thread.TicketID(run, name))
	h.must(err)
	return k
}

func (h *fixture) decide(k *mailroom.Ticket, v mailroom.Verdict) {
	h.t.Helper()
	_, err := h.ledger.Decide(context.Background(), thread.Decision{Ticket: k.ID, Verdict: v, Digest: k.Digest,
		By: "anna"})
	h.must(err)
}

func approval(name string) mailroom.Ask {
	return mailroom.Ask{Name: name, Kind: mailroom.TicketApproval, Prompt: "may I?", Action: "deploy",
		Arguments: json.RawMessage(`{"to":"prod"}`)}
}

func TestADecisionResumesTheSameRun(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			got, err := s.Wait(ctx, false, approval("go"))
			if err != nil {
				return err
			}
			return s.Stream(ctx, "decided: "+string(got[0].Decision))
		})
		out := h.send("t", "deploy")
		h.wait(time.Hour)
		if r := h.run(out.Run); r.Status != mailroom.StatusWaiting {
			t.Fatalf("got status %s, want waiting", r.Status)
		}
		h.decide(h.ticket(out.Run, "go"), mailroom.VerdictApprove)
		h.wait(time.Second)
		r := h.run(out.Run)
		if r.Status != mailroom.StatusCompleted || r.Reply == nil || *r.Reply != "decided: approve" || r.Failures != 0 {
			t.Errorf("got %+v", r)
		}
		want := []string{
			"message", "run.queued", "run.started", "ticket.opened", "run.waiting",
			"ticket.decided", "run.resumed", "message", "run.completed",
		}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnEffectIsCalledOnceOverAttempts(t *testing.T) {
	everywhere(t, func(h *fixture) {
		calls, attempts := 0, 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			attempts++
			v, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
				calls++
				return json.RawMessage(`42`), nil
			})
			if err != nil {
				return err
			}
			if attempts < 3 {
				return errors.New("after the effect")
			}
			return s.Stream(ctx, string(v))
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		if r := h.run(out.Run); r.Reply == nil || *r.Reply != "42" || calls != 1 || attempts != 3 {
			t.Errorf("got %d calls, %d attempts, %+v", calls, attempts, r)
		}
	})
}

func TestAnUnknownEffectOpensATicket(t *testing.T) {
	everywhere(t, func(h *fixture) {
		calls := 0
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			v, err := s.Do(ctx, mailroom.Effect{Name: "pay"}, func(context.Context, string) (json.RawMessage, error) {
				calls++
				if calls == 1 {
					return nil, mailroom.ErrUnknown
				}
				return json.RawMessage(`"paid"`), nil
			})
			if err != nil {
				return err
			}
			return s.Stream(ctx, string(v))
		})
		out := h.send("t", "pay")
		h.wait(time.Minute)
		h.decide(h.ticket(out.Run, "effect:pay#1"), mailroom.VerdictApprove)
		h.wait(time.Minute)
		if r := h.run(out.Run); r.Reply == nil || *r.Reply != `"paid"` || calls != 2 {
			t.Errorf("got %d calls, %+v", calls, r)
		}
	})
}

func TestAChildsEndWakesItsParent(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Thread == "child" {
				return s.Stream(ctx, "from the child")
			}
			if s.Run().Asked == 0 {
				if err := s.Append(ctx, mailroom.Step{Sends: []mailroom.Send{{
					Name: "help", Thread: "child", Agent: "a", Parts: mailroom.Text("do it"), Answer: mailroom.AnswerWait,
				}}}); err != nil {
					return err
				}
			}
			got, err := s.Wait(ctx, false, mailroom.Ask{Name: "help"})
			if err != nil {
				return err
			}
			var answer struct{ Reply string }
			if err := json.Unmarshal(got[0].Answer, &answer); err != nil {
				return err
			}
			return s.Stream(ctx, "child said "+answer.Reply)
		})
		out := h.send("parent", "go")
		h.wait(time.Minute)
		if r := h.run(out.Run); r.Reply == nil || *r.Reply != "child said from the child" {
			t.Errorf("got %+v", r)
		}
	})
}

func TestATimerFires(t *testing.T) {
	localOnly(t, func(h *fixture) {
		begin := time.Now()
		var woke time.Duration
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if _, err := s.Wait(ctx, false, mailroom.Ask{Name: "later", Kind: mailroom.TicketTimer,
				After: 2 * time.Hour}); err != nil {
				return err
			}
			woke = time.Since(begin)
			return nil
		})
		out := h.send("t", "later")
		h.wait(2*time.Hour + time.Second)
		if r := h.run(out.Run); r.Status != mailroom.StatusCompleted || woke < 2*time.Hour {
			t.Errorf("resumed after %v: %+v", woke, r)
		}
	})
}
