package operate

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/thread"
)

// The dashboard and the alert rules of the folder deploy are checked with this list of what a server exposes: a line
// for each metric, with its type and labels.
func TestTheListOfMetricsIsTrue(t *testing.T) {
	m := NewMetrics()
	m.Channels([]string{"connected"}, func() []ChannelMetrics {
		return []ChannelMetrics{{Name: "c", State: "connected", LastSuccess: time.Now()}}
	})
	m.Operation("submit", nil, time.Millisecond)
	m.AttemptEnded(thread.AttemptEnd{Agent: "a"})
	m.AttemptUsed(thread.AttemptUse{Agent: "a", UnknownEffects: 1, Usage: mailroom.Usage{InputTokens: 1, CostUSD: 1}})
	m.Ended(&mailroom.Run{Agent: "a"})
	m.Renewal(nil)
	m.present(map[mailroom.Status]int{mailroom.StatusQueued: 1}, 1, 1)
	m.uses(map[auth.Quota]quotaLevel{auth.QuotaThreads: {}})
	m.waiting([]waitingAlerts{{Target: "t"}})
	m.budgets.set([]budget.Pool{{Scope: budget.Scope{Kind: budget.Agent, Name: "a"}, Period: budget.Day,
		Budget: mailroom.Budget{Amounts: mailroom.Dollars(1)}}})
	m.backlog.levels.Store(&backlogLevels{queue: map[queueKey]int{{"a", thread.CauseRun}: 1},
		tickets: map[mailroom.TicketKind]ticketLevel{mailroom.TicketInput: {}}})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		line := fmt.Sprintln(f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "))
		lines[strings.TrimSpace(line)] = true
	}
	want := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
	const file = "../../deploy/prometheus/metrics.txt"
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s (%v) must be:\n%s", file, err, want)
	}
}
