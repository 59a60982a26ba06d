package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestCheckpointSurvivesIntoTheNextAttempt(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var found seen[string]
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			found.add(string(s.Run().Checkpoint))
			n := s.Run().Attempt
			h.expect(s.Append(ctx, mailroom.Step{Name: fmt.Sprint("step ", n), Checkpoint: fmt.Appendf(nil, `{"n":%d}`, n)}))
			if got, want := string(s.Run().Checkpoint), fmt.Sprintf(`{"n":%d}`, n); got != want {
				t.Errorf("after the step: got checkpoint %s, want %s", got, want)
			}
			h.expect(s.Append(ctx, mailroom.Step{Name: "leaves the checkpoint"}))
			if n < 3 {
				return errors.New("again")
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		if diff := cmp.Diff([]string{"", `{"n":1}`, `{"n":2}`}, found.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNamedSendArrivesOnceThoughItsRunIsExecutedTwice(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Thread != "t" {
				return s.Stream(ctx, "thanks")
			}
			h.expect(s.Append(ctx, mailroom.Step{Name: "tell", Sends: []mailroom.Send{
				{Name: "one", Thread: "x", Agent: "a", Parts: mailroom.Text("to x")},
				{Name: "two", Agent: "a", Parts: mailroom.Text("to a new thread")},
			}}))
			if s.Run().Attempt == 1 {
				return errors.New("after the send")
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(5 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 {
			t.Errorf("got attempt %d, want 2", r.Attempt)
		}
		if diff := cmp.Diff([]string{"to x", "thanks"}, h.texts("x")); diff != "" {
			t.Error(diff)
		}
		var sent []entry.Sent
		for _, e := range h.entries("t", entry.KindSend) {
			sent = append(sent, body[entry.Sent](h, e))
		}
		if len(sent) != 4 || sent[0] != sent[2] || sent[1] != sent[3] {
			t.Fatalf("got %+v, want the second pair to answer as the first", sent)
		}
		if diff := cmp.Diff([]string{"to a new thread", "thanks"}, h.texts(sent[1].Thread)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAppendWhoseResponseWasLostIsWrittenOnce(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			for i := range 5 {
				h.expect(s.Stream(ctx, fmt.Sprint("message ", i)))
				if err := s.Append(ctx, mailroom.Step{Name: fmt.Sprint("step ", i)}); err != nil {
					return err
				}
			}
			return s.Stream(ctx, "end")
		}))
		h.wait(time.Second)
		n := 0
		p.line.onWrite(nil, func(c *store.Changes) error {
			if n += len(c.Runs); len(c.Runs) > 0 && n%2 == 1 {
				return unknown()
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(30 * time.Second)
		p.line.onWrite(nil, nil)
		h.wait(10 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Step != 5 || r.Failures != 0 {
			t.Errorf("got %d steps, %d failures, want 5 and none", r.Step, r.Failures)
		}
		want := []string{"hello", "message 0", "message 1", "message 2", "message 3", "message 4", "end"}
		if diff := cmp.Diff(want, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

// A stop during the commit of a step must not leave the session without the step's outcome, because the number of the
// settle follows the number of the step.
func TestStepThatIsBeingWrittenWhenTheRunIsStoppedCounts(t *testing.T) {
	localOnly(t, func(h *fixture) {
		writing := make(chan struct{})
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "whole"))
			close(writing)
			h.expect(s.Append(ctx, mailroom.Step{Name: "slow"}))
			if err := s.Stream(context.WithoutCancel(ctx), "half"); err != nil {
				t.Error(err)
			}
			return context.Cause(ctx)
		}))
		h.wait(time.Second)
		out := h.send("t", "hello")
		p.line.onWrite(nil, func(c *store.Changes) error {
			for _, r := range c.Runs {
				if r.Step == 1 && r.Status == mailroom.StatusRunning {
					h.cancel(out)
					p.bus.Publish(bus.Notice{Thread: "t", Entries: h.entries("t", entry.KindStop)}) // as if the process received it
					<-time.After(time.Second)
				}
			}
			return nil
		})
		<-writing
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCancelled)
		want := []string{
			entry.KindMessage, entry.KindQueued, entry.KindStarted, entry.KindStep, entry.KindMessage,
			entry.KindStop, entry.KindMessage, entry.KindCancelled,
		}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"hello", "whole", "half"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCallsAfterTheEndFailAsLeaseLost(t *testing.T) {
	everywhere(t, func(h *fixture) {
		kept := make(chan mailroom.Session, 1)
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "bye"))
			kept <- s
			return nil
		})
		out := h.send("t", "hello")
		s := <-kept
		h.wait(time.Second)
		before := h.kinds("t")
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for name, ctx := range map[string]context.Context{"live": context.Background(), "cancelled": gone} {
			_, inputErr := s.Input(ctx)
			_, transcriptErr := s.Transcript(ctx, 10)
			_, steeredErr := s.Steered(ctx)
			for call, err := range map[string]error{
				"Input": inputErr, "Transcript": transcriptErr, "Steered": steeredErr,
				"Stream": s.Stream(ctx, "x"), "Append": s.Append(ctx, mailroom.Step{Name: "x"}),
			} {
				if mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
					t.Errorf("%s with a %s context: got %v, want code %s", call, name, err, mailroom.CodeLeaseLost)
				}
			}
		}
		if s.Run().ID != out.Run {
			t.Errorf("got run %s, want %s", s.Run().ID, out.Run)
		}
		if diff := cmp.Diff(before, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInputHasTheRunsMessagesAndTranscriptTheEarlierOnes(t *testing.T) {
	everywhere(t, func(h *fixture) {
		type view struct{ Input, Transcript, Last []string }
		views := map[string]view{}
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			in, err := s.Input(ctx)
			h.expect(err)
			before, err := s.Transcript(ctx, 100)
			h.expect(err)
			last, err := s.Transcript(ctx, 1)
			h.expect(err)
			views[in[0].Text] = view{texts(in), texts(before), texts(last)} // no lock: a thread has one run at a time
			<-time.After(time.Second)
			return s.Stream(ctx, "re: "+in[0].Text)
		})
		h.send("t", "one")
		h.wait(100 * time.Millisecond)
		two := h.send("t", "tow")
		h.send("t", "and", mode(mailroom.ModeCollect))
		h.send("t", "never mind")
		_, err := h.ledger.Edit(context.Background(), "t", two.Message, mailroom.Text("two"))
		h.must(err)
		h.send("t", "last")
		h.wait(10 * time.Second)
		want := map[string]view{
			"one": {Input: []string{"one"}},
			"two": {Input: []string{"two", "and"}, Transcript: []string{"one", "re: one"}, Last: []string{"re: one"}},
			"never mind": {Input: []string{"never mind"}, Transcript: []string{"one", "re: one", "two", "and", "re: two"},
				Last: []string{"re: two"}},
			"last": {
				Input: []string{"last"}, Last: []string{"re: never mind"},
				Transcript: []string{"one", "re: one", "two", "and", "re: two", "never mind", "re: never mind"},
			},
		}
		if diff := cmp.Diff(want, views); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTranscriptIsBoundedByTheRequest(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var got []string
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for limit := range 3 {
				last, err := s.Transcript(ctx, limit)
				h.expect(err)
				got = append(got, fmt.Sprint(texts(last)))
			}
			return nil
		})
		h.wait(time.Second)
		h.send("t", "", func(in *thread.Submit) {
			in.Messages = []thread.NewMessage{{Parts: mailroom.Text("a")}, {Parts: mailroom.Text("b")},
				{Parts: mailroom.Text("c")}}
		})
		h.wait(time.Second)
		got = nil
		h.send("t", "d")
		h.wait(time.Second)
		if diff := cmp.Diff([]string{"[]", "[c]", "[b c]"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStepThatBreaksARuleIsRefusedAndTheRunContinues(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Stream(ctx, "text "))
			err := s.Append(ctx,
				mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "run.completed", Body: json.RawMessage(`{}`)}}})
			if mailroom.CodeOf(err) != mailroom.CodeInvalid {
				t.Errorf("got %v, want code %s", err, mailroom.CodeInvalid)
			}
			h.expect(s.Append(ctx,
				mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: "x.mine", Body: json.RawMessage(`{"a":1}`)}}}))
			return s.Stream(ctx, "more")
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		want := []string{
			entry.KindMessage, entry.KindQueued, entry.KindStarted,
			entry.KindMessage, "x.mine", entry.KindMessage, entry.KindCompleted,
		}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheStateOfAStickyAgentNamesItsServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		sticky  bool
		options engine.Options
		want    map[string]string
	}{
		{"on a shared store", true, engine.Options{Node: "north"}, map[string]string{"a": "north"}},
		{"on the server's own store", true, engine.Options{Node: "north", Local: true}, nil},
		{"in a remote worker", true, engine.Options{}, nil},
		{"of another agent", false, engine.Options{Node: "north"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			localOnly(t, func(h *fixture) {
				c.options.Agents = map[string]engine.Agent{"a": {Sticky: c.sticky,
					Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
						return s.Append(ctx, mailroom.Step{State: json.RawMessage(`{"session":"s"}`)})
					})}}
				h.start(c.options)
				out := h.send("t", "hello")
				h.wait(time.Second)
				h.status(out.Run, mailroom.StatusCompleted)
				rows := query(h, func(r store.Reader) ([]*mailroom.Thread, error) { return r.Threads(store.ThreadQuery{}) })
				if !maps.Equal(rows[0].Nodes, c.want) {
					t.Errorf("server of the session is %v, want %v", rows[0].Nodes, c.want)
				}
			})
		})
	}
}
