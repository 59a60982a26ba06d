package alert_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// TestAFaultOfAnAgentIsOneAlert lets an agent lose its login for hours, with probes that fail: one alert says so, and
// none of an outage of the runs that wait for it.
func TestAFaultOfAnAgentIsOneAlert(t *testing.T) {
	provider := mailroom.AgentFunc(func(context.Context, mailroom.Session) error {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Agent: true, Err: errors.New("not logged in")}
	})
	more := func(*ledger.Ledger) map[string]mailroom.Agent { return map[string]mailroom.Agent{"provider": provider} }
	inBubbleWith(t, []alert.Rule{rule(alert.KindPaused, alert.KindOutage, alert.KindFailed)}, []string{"phone", "mail"},
		more, func(h *fixture) {
			for n := range 3 {
				_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
					Thread: fmt.Sprint("t", n), Agent: "provider", Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}},
				})
				h.must(err)
			}
			h.after(6 * time.Hour)
			var got []string
			for _, m := range h.targets["phone"].messages() {
				got = append(got, m.Title+"|"+m.Body)
			}
			if len(got) != 1 || !strings.Contains(got[0], "by the server: not logged in") {
				t.Errorf("sent %q, want one alert of the pause", got)
			}
		})
}

// While another worker serves the agent, the alert names the machine that does not.
func TestAFaultOfOneWorkerIsOneAlertThatNamesIt(t *testing.T) {
	provider := mailroom.AgentFunc(func(context.Context, mailroom.Session) error {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Agent: true, Err: errors.New("not logged in")}
	})
	more := func(*ledger.Ledger) map[string]mailroom.Agent { return map[string]mailroom.Agent{"provider": provider} }
	inBubbleWith(t, []alert.Rule{rule(alert.KindPaused)}, []string{"phone", "mail"}, more, func(h *fixture) {
		other := store.Worker{ID: "other", Host: "desk", Agents: []string{"provider"}}
		_, err := h.ledger.Workers().Register(h.t.Context(), other)
		h.must(err)
		for n := range 3 {
			_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
				Thread: fmt.Sprint("t", n), Agent: "provider", Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}},
			})
			h.must(err)
		}
		h.after(10 * time.Second) // the lease of the other worker is longer
		var got []string
		for _, m := range h.targets["phone"].messages() {
			got = append(got, m.Title+"|"+m.Body)
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], "Agent provider is paused on ") ||
			!strings.Contains(got[0], ", and goes on elsewhere|by the server: not logged in") {
			t.Errorf("sent %q, want one alert that names the worker", got)
		}
	})
}

func TestAnOutageOfAnAgentAndItsEndAreAlerts(t *testing.T) {
	var down atomic.Bool
	provider := mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		if down.Load() {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("503 from the provider")}
		}
		return s.Stream(ctx, "here I am")
	})
	more := func(*ledger.Ledger) map[string]mailroom.Agent { return map[string]mailroom.Agent{"provider": provider} }
	inBubbleWith(t, []alert.Rule{rule(alert.KindOutage)}, []string{"phone", "mail"}, more, func(h *fixture) {
		submit := func(n int) (run string) {
			out, err := h.ledger.Submit(h.t.Context(), thread.Submit{
				Thread: fmt.Sprint("t", n), Agent: "provider", Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}},
			})
			h.must(err)
			return out.Run
		}
		want := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, m := range h.targets["phone"].messages() {
				got = append(got, m.Title+"|"+m.Body)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: sent %q, want %q", when, got, want)
			}
		}
		begun, over := "Runs of agent provider wait because of an outage|503 from the provider",
			"No run of agent provider waits because of an outage any more|"
		down.Store(true)
		for n := range 3 {
			submit(n)
		}
		h.after(4 * time.Minute)
		want("after four minutes")
		h.after(2 * time.Hour)
		want("after two hours", begun)
		down.Store(false)
		h.after(10 * time.Minute)
		want("when the provider is back", begun, over)

		down.Store(true)
		run := submit(4)
		h.after(10 * time.Minute)
		want("in the next outage", begun, over, begun)
		_, err := h.ledger.Cancel(h.t.Context(), run, "ann")
		h.must(err)
		h.after(time.Minute)
		want("when its run is cancelled", begun, over, begun, over)

		h.targets["phone"].fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("the service is down")}
		})
		submit(5)
		h.after(time.Hour)
		h.targets["phone"].fail(nil)
		down.Store(false)
		h.after(30 * time.Minute)
		for _, m := range slices.Concat(h.targets["phone"].messages(), h.targets["mail"].messages()) {
			if m.Title != "Runs of agent provider wait because of an outage" &&
				m.Title != "No run of agent provider waits because of an outage any more" {
				t.Errorf("sent %q: a target that is down is no outage of an agent", m.Title)
			}
		}
	})
}
