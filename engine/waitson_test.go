package engine_test

import (
	"context"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
)

func TestReadersSeeWhatASilentAgentWaitsFor(t *testing.T) {
	everywhere(t, func(h *fixture) {
		next := make(chan struct{})
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			h.expect(s.Show(ctx, mailroom.Live{WaitsOn: "tool call:\n cargo test"}))
			<-next
			h.expect(s.Append(ctx, mailroom.Step{Name: "tested"}))
			h.expect(s.Show(ctx, mailroom.Live{WaitsOn: "review"}))
			<-next
			h.expect(s.Stream(ctx, "done"))
			<-next
			return s.Show(ctx, mailroom.Live{WaitsOn: "its end"})
		})
		sub := h.bus.Subscribe("t", 1000)
		defer sub.Close()
		begin := time.Now()
		out := h.send("t", "hello")
		waits := func(want string) {
			t.Helper()
			if r := h.run(out.Run); r.WaitsOn != want || r.WaitsSince.IsZero() != (want == "") {
				t.Errorf("it waits on %q since %s, want %q", r.WaitsOn, r.WaitsSince, want)
			}
		}
		h.wait(6 * time.Second) // a renewal
		waits("tool call: cargo test")
		if since := h.run(out.Run).WaitsSince.Sub(begin); since > 6*time.Second {
			t.Errorf("it waits since %v", since)
		}
		seq := len(h.entries("t"))
		h.wait(20 * time.Second)
		if r := h.run(out.Run); r.WaitsSince.Sub(begin) > 6*time.Second || len(h.entries("t")) != seq {
			t.Errorf("it waits since %s, with %d entries more", r.WaitsSince, len(h.entries("t"))-seq)
		}
		next <- struct{}{}
		h.wait(time.Millisecond)
		waits("")
		h.wait(6 * time.Second)
		waits("review")
		next <- struct{}{}
		h.wait(6 * time.Second)
		waits("")
		next <- struct{}{}
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
		waits("")
		var live []string
		for len(sub.C) > 0 {
			if n := <-sub.C; n.Delta != nil && n.Delta.Channel == entry.ChannelWaits {
				live = append(live, n.Delta.Text)
			}
		}
		if len(live) < 2 || live[0] != "tool call: cargo test" || live[1] != "review" {
			t.Errorf("live: %q", live)
		}
	})
}

func TestWhatAnAgentWaitsForIsShownAlone(t *testing.T) {
	localOnly(t, func(h *fixture) {
		h.serve(func(ctx context.Context, s mailroom.Session) error {
			for _, l := range []mailroom.Live{{WaitsOn: "x", Text: "y"}, {WaitsOn: "x", Call: "c"}, {WaitsOn: "\xff"}} {
				if err := s.Show(ctx, l); mailroom.CodeOf(err) != mailroom.CodeInvalid {
					t.Errorf("%+v: %v", l, err)
				}
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusCompleted)
	})
}
