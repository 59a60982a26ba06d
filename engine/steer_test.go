package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// texts returns the texts of messages.
func texts(all []mailroom.Message) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.Text)
	}
	return out
}

// untilSteered waits for steered messages in steps, as an agent does.
func untilSteered(ctx context.Context, s mailroom.Session) ([]mailroom.Message, error) {
	for {
		got, err := s.Steered(ctx)
		if err != nil || len(got) > 0 {
			return got, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func TestSteerReachesTheRunsNextStepAndIsInTheLogOnce(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			got, err := untilSteered(ctx, s)
			if err != nil {
				return err
			}
			return s.Stream(ctx, fmt.Sprint(texts(got)))
		})
		out := h.send("t", "question")
		h.wait(time.Second)
		begin := time.Now()
		steer := h.send("t", "and one more", mode(mailroom.ModeSteer))
		if steer.Run != out.Run || steer.Disposition != store.DispositionSteered {
			t.Errorf("got %+v, want steered into run %s", steer, out.Run)
		}
		h.wait(time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if got := r.FinishedAt.Sub(begin); got > 100*time.Millisecond {
			t.Errorf("read after %v, want at the next step", got)
		}
		want := []string{
			entry.KindMessage, entry.KindQueued, entry.KindStarted, entry.KindMessage,
			entry.KindMessageRead, entry.KindMessage, entry.KindCompleted,
		}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"question", "and one more", "[and one more]"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSteerReachesAnotherProcessWithARenewal(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			_, err := untilSteered(ctx, s)
			return err
		}))
		out := h.send("t", "question")
		h.wait(2 * time.Second)
		h.send("t", "and one more", mode(mailroom.ModeSteer))
		h.wait(6 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}

func TestSteerThatItsRunDidNotReadBecomesARunOfItsOwn(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			if err != nil {
				return err
			}
			<-time.After(5 * time.Second) // without reading steered messages
			return s.Stream(ctx, "re: "+in[0].Text)
		})
		out := h.send("t", "question")
		h.wait(time.Second)
		behind := h.send("t", "behind")
		h.send("t", "steered", mode(mailroom.ModeSteer))
		h.wait(30 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		h.status(behind.Run, mailroom.StatusCompleted)
		want := []string{"question", "behind", "steered", "re: question", "re: behind", "re: steered"}
		if diff := cmp.Diff(want, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSteerReadButNotCoveredIsHandedToTheNextAttemptAgain(t *testing.T) {
	localOnly(t, func(h *fixture) {
		var handed seen[[]string]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			got, err := untilSteered(ctx, s)
			if err != nil {
				return err
			}
			handed.add(texts(got))
			switch s.Run().Attempt {
			case 1: // reads and fails before a step
				return errors.New("once")
			case 2: // commits a step, which covers the message, and fails
				h.expect(s.Append(ctx, mailroom.Step{Name: "took it in"}))
				return errors.New("twice")
			}
			return nil
		})
		out := h.send("t", "question")
		h.wait(500 * time.Millisecond)
		h.send("t", "first", mode(mailroom.ModeSteer))
		h.wait(2 * time.Second)
		h.send("t", "second", mode(mailroom.ModeSteer))
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		want := [][]string{{"first"}, {"first"}, {"second"}}
		if diff := cmp.Diff(want, handed.all()); diff != "" {
			t.Error(diff)
		}
		if reads := h.entries("t", entry.KindMessageRead); len(reads) != 2 {
			t.Errorf("got %d message.read entries, want one for each", len(reads))
		}
	})
}

func TestSteerThatExpectsAnotherRunIsItsOwnRun(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-time.After(5 * time.Second)
			got, err := s.Steered(ctx)
			if len(got) != 0 {
				t.Errorf("got steered %v, want none", texts(got))
			}
			return err
		})
		h.send("t", "question")
		h.wait(time.Second)
		own := h.send("t", "for an older run", mode(mailroom.ModeSteer), func(in *thread.Submit) { in.ExpectRun = "another" })
		h.wait(20 * time.Second)
		h.status(own.Run, mailroom.StatusCompleted)
	})
}

func TestEditedSteerIsReadAsItIsNow(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-time.After(5 * time.Second)
			got, err := s.Steered(ctx)
			h.expect(err)
			return s.Stream(ctx, fmt.Sprint(texts(got)))
		})
		h.send("t", "question")
		h.wait(time.Second)
		first := h.send("t", "frist", mode(mailroom.ModeSteer))
		gone := h.send("t", "never mind", mode(mailroom.ModeSteer))
		h.send("t", "third", mode(mailroom.ModeSteer))
		_, err := h.ledger.Edit(context.Background(), "t", first.Message, mailroom.Text("first"))
		h.must(err)
		h.must(h.ledger.Retract(context.Background(), "t", gone.Message))
		h.wait(10 * time.Second)
		all := h.texts("t")
		if got, want := all[len(all)-1], "[first third]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// An agent may call its session from several goroutines, while other transactions change the run.
func TestSessionTakesConcurrentCalls(t *testing.T) {
	everywhere(t, func(h *fixture) {
		const writers, each = 4, 25
		var handed seen[string]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if in, err := s.Input(ctx); err != nil || in[0].Text != "go" {
				return err
			}
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						h.expect(s.Stream(ctx, fmt.Sprintf("%d.%d ", w, i)))
						if i%5 == 0 {
							h.expect(s.Append(ctx, mailroom.Step{Name: fmt.Sprint(w, i), Checkpoint: []byte(fmt.Sprint(i))}))
						}
						<-time.After(10 * time.Millisecond)
					}
				})
				wg.Go(func() {
					for range each {
						got, err := s.Steered(ctx)
						h.expect(err)
						for _, m := range got {
							handed.add(m.Text)
						}
						if s.Run().Thread != "t" {
							t.Errorf("got thread %s", s.Run().Thread)
						}
						_, err = s.Transcript(ctx, 3)
						h.expect(err)
						<-time.After(15 * time.Millisecond)
					}
				})
			}
			wg.Wait()
			return nil
		})
		out := h.send("t", "go")
		h.wait(time.Millisecond)
		var want []string
		for i := range 10 {
			text := fmt.Sprint("steer ", i)
			if h.send("t", text, mode(mailroom.ModeSteer)).Disposition == store.DispositionSteered {
				want = append(want, text)
			}
			h.wait(20 * time.Millisecond)
		}
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		got := handed.all()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("steered messages: %s", diff)
		}
		said := ""
		for _, e := range h.entries("t", entry.KindMessage) {
			if m := body[mailroom.Message](h, e); m.Role == mailroom.RoleAssistant {
				said += m.Text
			}
		}
		if want := writers * (10*len("0.0 ") + 15*len("0.00 ")); len(said) != want {
			t.Errorf("%d bytes of text, want %d", len(said), want)
		}
		if steps := h.entries("t", entry.KindStep); len(steps) != writers*each/5 {
			t.Errorf("got %d steps, want %d", len(steps), writers*each/5)
		}
	})
}
