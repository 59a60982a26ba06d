package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// flushed joins the flushed text of the message that a run is writing.
func (h *fixture) flushed(run string) string {
	h.t.Helper()
	text := ""
	for _, p := range query(h, func(r store.Reader) ([]store.Partial, error) { return r.Partials(run) }) {
		if p.Offset != len(text) {
			h.t.Errorf("partial at offset %d follows %d bytes", p.Offset, len(text))
		}
		text += p.Text
	}
	return text
}

func TestStreamedTextIsStoredAboutOnceASecond(t *testing.T) {
	localOnly(t, func(h *fixture) {
		writes, size := 0, 0
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			for range 100 {
				h.expect(s.Stream(ctx, "0123456789"))
				<-time.After(100 * time.Millisecond)
			}
			return nil
		}))
		h.wait(time.Second)
		p.line.onWrite(nil, func(c *store.Changes) error {
			writes += len(c.Partials)
			for _, p := range c.Partials {
				size += len(p.Text)
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		for range 6 {
			h.wait(time.Second)
			live := int(time.Since(h.run(out.Run).StartedAt).Milliseconds()) / 10
			if kept := len(h.flushed(out.Run)); kept < live-120 || kept > live+20 {
				t.Errorf("%d of about %d bytes flushed, want all but those of the last second", kept, live)
			}
		}
		h.wait(5 * time.Second)
		if writes < 9 || writes > 11 {
			t.Errorf("got %d flushes in 10 s, want about one a second", writes)
		}
		if size > 1000 {
			t.Errorf("got %d bytes written, want each of the 1000 once at most", size)
		}
		if got := h.flushed(out.Run); got != "" {
			t.Errorf("partials after the end: %d bytes", len(got))
		}
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Reply == nil || *r.Reply != strings.Repeat("0123456789", 100) {
			t.Errorf("got reply %v", r.Reply)
		}
	})
}

func TestFlushComesAtOnceWhenAReaderAsks(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			<-time.After(300 * time.Millisecond)
			h.expect(s.Stream(ctx, "so far"))
			return work(10*time.Second)(ctx, s)
		})
		out := h.send("t", "hello")
		h.wait(400 * time.Millisecond)
		if got := h.flushed(out.Run); got != "" {
			t.Errorf("flushed text %q, want none within the first second", got)
		}
		sub := h.bus.Subscribe("t", 10)
		defer sub.Close()
		for range 2 { // also without new text
			h.bus.RequestFlush("t")
			asked := time.Now()
			n := <-sub.C
			if took := time.Since(asked); took > 10*time.Millisecond {
				t.Errorf("the flush took %v", took)
			}
			if n.Flushed == nil || n.Flushed.Upto != len("so far") || n.Flushed.Run != out.Run {
				t.Errorf("got %+v, want a notice of 6 flushed bytes", n.Flushed)
			}
		}
		if got := h.flushed(out.Run); got != "so far" {
			t.Errorf("got %q", got)
		}
	})
}

func TestFlushWhoseResponseWasLostLosesAndDoublesNothing(t *testing.T) {
	everywhere(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			for i := range 50 {
				h.expect(s.Stream(ctx, fmt.Sprintf("%d ", i)))
				<-time.After(100 * time.Millisecond)
			}
			return work(time.Hour)(ctx, s)
		}))
		h.wait(time.Second)
		n := 0
		p.line.onWrite(nil, func(c *store.Changes) error {
			if n += len(c.Partials); len(c.Partials) > 0 && n%2 == 1 {
				return unknown()
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(10 * time.Second)
		want := ""
		for i := range 50 {
			want += fmt.Sprintf("%d ", i)
		}
		if diff := cmp.Diff(want, h.flushed(out.Run)); diff != "" {
			t.Error(diff)
		}
		p.line.onWrite(nil, nil)
		p.kill()
		h.must(h.ledger.Workers().Deregister(context.Background(), thread.Leave{Worker: h.onlyWorker().ID}))
		h.serve(streaming("whole"))
		h.wait(5 * time.Second)
		if diff := cmp.Diff([]string{"hello", want, "whole"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTextIsCutAtTheLimitAndMarked(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			chunk := strings.Repeat("é", 50_000) // two bytes each
			for range 12 {
				if err := s.Stream(ctx, chunk); err != nil {
					return err
				}
			}
			h.expect(s.Append(ctx, mailroom.Step{}))
			return s.Stream(ctx, "short")
		})
		out := h.send("t", "hello")
		h.wait(5 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		said := h.entries("t", entry.KindMessage)
		if len(said) != 3 {
			t.Fatalf("got %d messages, want 3", len(said))
		}
		long, short := body[mailroom.Message](h, said[1]), body[mailroom.Message](h, said[2])
		if len(long.Text) != mailroom.MaxText || !long.Truncated || strings.Trim(long.Text, "é") != "" {
			t.Errorf("got %d bytes, truncated %v, want %d whole characters, marked", len(long.Text), long.Truncated,
				mailroom.MaxText)
		}
		if short.Text != "short" || short.Truncated {
			t.Errorf("next message %q, truncated %v; want it complete", short.Text, short.Truncated)
		}
	})
}

func TestDeltasCarryTheirOffset(t *testing.T) {
	localOnly(t, func(h *fixture) {
		sub := h.bus.Subscribe("t", 100)
		defer sub.Close()
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			n := s.Run().Attempt
			h.expect(s.Stream(ctx, "grüße"))
			h.expect(s.Stream(ctx, ", world"))
			if n == 1 {
				return fmt.Errorf("once")
			}
			h.expect(s.Append(ctx, mailroom.Step{})) // ends the message
			h.expect(s.Stream(ctx, ""))
			h.expect(s.Append(ctx, mailroom.Step{Name: "without a message"}))
			return s.Stream(ctx, "next")
		})
		run := h.send("t", "hello").Run
		h.wait(2 * time.Second)
		var got []entry.Delta
		for len(sub.C) > 0 {
			if n := <-sub.C; n.Delta != nil {
				got = append(got, *n.Delta)
			}
		}
		delta := func(attempt, message, offset int, text string) entry.Delta {
			return entry.Delta{
				Run: run, Attempt: attempt, Message: fmt.Sprintf("%s.%d-%d", run, attempt, message),
				Offset: offset, Channel: "text", Text: text,
			}
		}
		want := []entry.Delta{
			delta(1, 1, 0, "grüße"), delta(1, 1, 7, ", world"),
			delta(2, 1, 0, "grüße"), delta(2, 1, 7, ", world"), delta(2, 2, 0, "next"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		var ids []string
		for _, e := range h.entries("t", entry.KindMessage)[1:] {
			m := body[mailroom.Message](h, e)
			ids = append(ids, fmt.Sprint(m.ID, " ", m.Text, " ", m.Partial))
		}
		wantIDs := []string{
			run + ".1-1 grüße, world true", run + ".2-1 grüße, world false", run + ".2-2 next false",
		}
		if diff := cmp.Diff(wantIDs, ids); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPartialTextOfADeadWorkerIsKept(t *testing.T) {
	everywhere(t, func(h *fixture) {
		p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
			for i := 0; ; i++ {
				if err := s.Stream(ctx, fmt.Sprint(i%10)); err != nil {
					return err
				}
				<-time.After(100 * time.Millisecond)
			}
		}))
		out := h.send("t", "hello")
		h.wait(3200 * time.Millisecond)
		p.kill()
		h.must(h.ledger.Workers().Deregister(context.Background(), thread.Leave{Worker: h.onlyWorker().ID}))
		h.serve(streaming("whole"))
		h.wait(3 * time.Second)
		r := h.status(out.Run, mailroom.StatusCompleted)
		if r.Attempt != 2 {
			t.Errorf("got attempt %d, want 2", r.Attempt)
		}
		m := body[mailroom.Message](h, h.entries("t", entry.KindMessage)[1])
		if !m.Partial || len(m.Text) < 20 || !strings.HasPrefix("0123456789012345678901234567890123456789", m.Text) {
			t.Errorf("got %q, partial %v, want the text up to the last flush", m.Text, m.Partial)
		}
	})
}

func TestTextIsKeptWhenTheEndOfItsAttemptIsRefused(t *testing.T) {
	for _, refusals := range []int{1, 2} {
		localOnly(t, func(h *fixture) {
			p := h.elsewhere(serving(func(ctx context.Context, s mailroom.Session) error {
				if s.Run().Attempt > 1 {
					return s.Stream(ctx, "whole")
				}
				h.expect(s.Stream(ctx, "half a "))
				<-time.After(1500 * time.Millisecond)
				return s.Stream(ctx, "thought")
			}))
			h.wait(time.Second)
			left := 2 * refusals // an operation that fails in a batch is retried alone
			p.line.onWrite(func(c *store.Changes) error {
				if isAgentMessage(c) && left > 0 {
					left--
					return mailroom.Errorf(mailroom.CodeInvalid, "refused by the test")
				}
				return nil
			}, nil)
			out := h.send("t", "hello")
			h.wait(5 * time.Second)
			if r := h.status(out.Run, mailroom.StatusCompleted); r.Reply == nil || *r.Reply != "whole" {
				t.Errorf("reply %v, want the text of the second attempt only", r.Reply)
			}
			kept := "half a thought"
			if refusals == 2 {
				kept = "half a " // the flushed part
			}
			if diff := cmp.Diff([]string{"hello", kept, "whole"}, h.texts("t")); diff != "" {
				t.Errorf("refused %d times: %s", refusals, diff)
			}
			m := body[mailroom.Message](h, h.entries("t", entry.KindMessage)[1])
			if !m.Partial {
				t.Errorf("%q is not marked partial", m.Text)
			}
		})
	}
}

// isAgentMessage reports whether the changes contain an agent's message.
func isAgentMessage(c *store.Changes) bool {
	return slices.ContainsFunc(slices.Concat(c.Entries...), func(e mailroom.Entry) bool {
		return e.Kind == entry.KindMessage && e.Attempt > 0
	})
}

func TestSlowReaderNeverSlowsARun(t *testing.T) {
	everywhere(t, func(h *fixture) {
		stuck := h.bus.Subscribe("t", 1) // nothing reads it
		defer stuck.Close()
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for range 10_000 {
				if err := s.Stream(ctx, "word "); err != nil {
					return err
				}
			}
			return nil
		})
		begin := time.Now()
		out := h.send("t", "hello")
		h.wait(time.Millisecond)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.FinishedAt.Sub(begin) > time.Millisecond {
			t.Errorf("duration %v", r.FinishedAt.Sub(begin))
		}
		if !stuck.Lost() {
			t.Error("the blocked reader lost nothing")
		}
	})
}

// Hints are dropped, a stop among them perhaps, when a thread is busier than its session can
// follow; the session then reads the store.
func TestStopIsFoundThoughItsHintWasLost(t *testing.T) {
	localOnly(t, func(h *fixture) {
		p := h.elsewhere(serving(work(time.Hour)))
		h.wait(time.Second + time.Millisecond) // between two sweeps
		p.line.onView(func() error {
			for _, r := range query(h, func(r store.Reader) ([]*mailroom.Run, error) {
				return r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusRunning}})
			}) {
				p.line.onView(nil)
				for range 100 { // more than the buffer holds
					p.bus.Publish(bus.Notice{Thread: r.Thread, Entries: []mailroom.Entry{{}}})
				}
				h.cancel(store.Submitted{Run: r.ID})
			}
			return nil
		})
		out := p.send("t", "hello")
		h.wait(100 * time.Millisecond)
		h.status(out.Run, mailroom.StatusCancelled)
	})
}

func TestThinkingAndArgumentsAreShownLiveAndNeverStored(t *testing.T) {
	localOnly(t, func(h *fixture) {
		sub := h.bus.Subscribe("t", 100)
		defer sub.Close()
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			show := func(call, text string) {
				h.expect(s.Show(ctx, mailroom.Live{Call: call, Text: text}))
			}
			for _, bad := range []mailroom.Live{{Text: "nul \x00"}, {Call: "\xff", Text: "a"},
				{Call: strings.Repeat("c", mailroom.MaxLabel+1), Text: "a"}} {
				if err := s.Show(ctx, bad); mailroom.CodeOf(err) != mailroom.CodeInvalid {
					t.Errorf("%.20q: %v", bad, err)
				}
			}
			show("", "hmm ü")
			h.expect(s.Stream(ctx, "The "))
			show("", ", yes")
			show("c1", `{"path"`)
			show("c2", `{"to"`)
			show("c1", `:"a"}`)
			h.expect(s.Stream(ctx, "reply"))
			h.expect(s.Append(ctx, mailroom.Step{}))
			show("", "more")
			return s.Stream(ctx, "done")
		})
		run := h.send("t", "hello").Run
		h.wait(2 * time.Second)
		var got []string
		for len(sub.C) > 0 {
			if n := <-sub.C; n.Delta != nil {
				_, message, _ := strings.Cut(n.Delta.Message, ".")
				got = append(got, fmt.Sprintf("%s%s %s %d %s", n.Delta.Channel, n.Delta.Call, message, n.Delta.Offset,
					n.Delta.Text))
			}
		}
		want := []string{
			"thinking 1-1 0 hmm ü", "text 1-1 0 The ", "thinking 1-1 6 , yes", `toolc1 1-1 0 {"path"`, `toolc2 1-1 0 {"to"`,
			`toolc1 1-1 7 :"a"}`, "text 1-1 4 reply", "thinking 1-2 0 more",
			"text 1-2 0 done",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		var texts []string
		for _, e := range h.entries("t", entry.KindMessage)[1:] {
			texts = append(texts, body[mailroom.Message](h, e).Text)
		}
		if diff := cmp.Diff([]string{"The reply", "done"}, texts); diff != "" {
			t.Errorf("messages of run %s: %s", run, diff)
		}
	})
}

func TestInvalidTextIsRefused(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for _, bad := range []string{"half \xc3", "nul \x00"} {
				if err := s.Stream(ctx, bad); mailroom.CodeOf(err) != mailroom.CodeInvalid {
					t.Errorf("%q: got %v, want code %s", bad, err, mailroom.CodeInvalid)
				}
			}
			return s.Stream(ctx, "fine")
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); *r.Reply != "fine" {
			t.Errorf("got %q", *r.Reply)
		}
	})
}
