package operate

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/thread"
)

func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			got[name] = value
		}
	}
	return got
}

func TestReportedEventsAreCounted(t *testing.T) {
	m := NewMetrics()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m.Operation("submit", nil, time.Millisecond)
	m.Operation("submit", mailroom.Errorf(mailroom.CodeBusy, "busy"), time.Millisecond)
	m.Operation("claim", context.Canceled, 0)
	m.Operation("end_lease", nil, time.Millisecond) // which was bury
	m.Commit(3, time.Millisecond)
	m.AttemptStarted(thread.AttemptStart{Agent: "echo", Attempt: 1, Created: at, Due: at.Add(time.Second),
		At: at.Add(4 * time.Second)})
	m.AttemptStarted(thread.AttemptStart{Agent: "echo", Attempt: 2, Created: at, Due: at, At: at.Add(-time.Second)})
	m.Entered(at.Add(2*time.Second), at.Add(4*time.Second))
	m.Entered(at, at.Add(-time.Second))
	m.AttemptEnded(thread.AttemptEnd{Agent: "echo", Outcome: thread.OutcomeComplete})
	m.AttemptEnded(thread.AttemptEnd{Agent: "echo", Outcome: thread.OutcomeFail, Class: mailroom.ClassUnavailable})
	m.AttemptUsed(thread.AttemptUse{Agent: "echo", UnknownEffects: 1, Usage: mailroom.Usage{
		InputTokens: 100, OutputTokens: 20, CostUSD: 0.5, CacheReadTokens: 30, CacheWriteTokens: 4, ReasoningTokens: 5}})
	m.AttemptUsed(thread.AttemptUse{Agent: "echo", Usage: mailroom.Usage{InputTokens: -1, CostUSD: math.Inf(1)}})
	m.AttemptUsed(thread.AttemptUse{Agent: "echo", Usage: mailroom.Usage{OutputTokens: -1, CostUSD: math.NaN()}})
	m.Renewal(nil)
	m.Renewal(mailroom.Errorf(mailroom.CodeLeaseLost, "gone"))
	m.Ended(&mailroom.Run{Agent: "echo", Status: mailroom.StatusCompleted, CreatedAt: at, StartedAt: at.Add(time.Second),
		FinishedAt: at.Add(4 * time.Second)})
	m.Ended(&mailroom.Run{Agent: "echo", Status: mailroom.StatusCancelled, CreatedAt: at, FinishedAt: at.Add(time.Second)})
	m.present(map[mailroom.Status]int{mailroom.StatusQueued: 7}, 2, 4096)

	m.uses(map[auth.Quota]quotaLevel{auth.QuotaThreads: {Used: 12, Fullest: 0.5}})

	got := scrape(t, m)
	for name, want := range map[string]string{
		`mailroom_operations_total{operation="submit",result="ok"}`:                "1",
		`mailroom_operations_total{operation="submit",result="busy"}`:              "1",
		`mailroom_operations_total{operation="claim",result="withdrawn"}`:          "1",
		`mailroom_operations_total{operation="end_lease",result="ok"}`:             "1",
		`mailroom_operations_total{operation="bury",result="ok"}`:                  "1",
		`mailroom_operation_seconds_count{operation="bury"}`:                       "1",
		`mailroom_operation_seconds_count{operation="submit"}`:                     "2",
		`mailroom_operation_seconds_count{operation="claim"}`:                      "", // unchanged
		`mailroom_commit_batch_size_sum`:                                           "3",
		`mailroom_commit_seconds_count`:                                            "1",
		`mailroom_enqueue_to_start_seconds_sum`:                                    "4",
		`mailroom_enqueue_to_start_seconds_count`:                                  "1",
		`mailroom_due_to_start_seconds_sum`:                                        "3",
		`mailroom_due_to_start_seconds_count`:                                      "2",
		`mailroom_claim_to_start_seconds_sum`:                                      "2",
		`mailroom_enqueue_to_done_seconds_sum`:                                     "4",
		`mailroom_run_seconds_sum`:                                                 "3",
		`mailroom_run_seconds_count`:                                               "1",
		`mailroom_runs_total{agent="echo",status="completed"}`:                     "1",
		`mailroom_runs_total{agent="echo",status="cancelled"}`:                     "1",
		`mailroom_attempts_total{agent="echo",class="",outcome="complete"}`:        "1",
		`mailroom_attempts_total{agent="echo",class="unavailable",outcome="fail"}`: "1",
		`mailroom_lease_renewals_total{result="ok"}`:                               "1",
		`mailroom_lease_renewals_total{result="lease_lost"}`:                       "1",
		`mailroom_runs{status="queued"}`:                                           "7",
		`mailroom_quota_used{quota="threads"}`:                                     "12",
		`mailroom_quota_fullest_ratio{quota="threads"}`:                            "0.5",
		`mailroom_stream_unread_bytes`:                                             "4096",
		`mailroom_stream_subscribers`:                                              "2",
		`mailroom_cost_usd_total{agent="echo"}`:                                    "0.5",
		`mailroom_tokens_total{agent="echo",kind="input"}`:                         "100",
		`mailroom_tokens_total{agent="echo",kind="output"}`:                        "20",
		`mailroom_tokens_total{agent="echo",kind="cache_read"}`:                    "30",
		`mailroom_tokens_total{agent="echo",kind="cache_write"}`:                   "4",
		`mailroom_tokens_total{agent="echo",kind="reasoning"}`:                     "5",
		`mailroom_effects_unknown_total{agent="echo"}`:                             "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestConcurrentNewLabelsLoseNoCount(t *testing.T) {
	m := NewMetrics()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				m.AttemptEnded(thread.AttemptEnd{Agent: fmt.Sprintf("agent-%d", (i+j)%20), Outcome: thread.OutcomeComplete})
			}
		})
	}
	all.Wait()
	got := scrape(t, m)
	for i := range 20 {
		name := fmt.Sprintf(`mailroom_attempts_total{agent="agent-%d",class="",outcome="complete"}`, i)
		if got[name] != "80" {
			t.Errorf("%s is %q, want 80", name, got[name])
		}
	}
}

// A worker may serve agents of any names, which must not make any number of metrics.
func TestMetricsNameABoundedNumberOfAgents(t *testing.T) {
	m := NewMetrics()
	for i := range maxAgentLabels + 7 {
		m.AttemptEnded(thread.AttemptEnd{Agent: fmt.Sprintf("agent-%d", i), Outcome: thread.OutcomeComplete})
	}
	m.AttemptEnded(thread.AttemptEnd{Agent: "agent-0", Outcome: thread.OutcomeComplete})
	got := scrape(t, m)
	for agent, want := range map[string]string{"agent-0": "2", "agent-499": "1", "agent-500": "", otherAgents: "7"} {
		if n := got[`mailroom_attempts_total{agent="`+agent+`",class="",outcome="complete"}`]; n != want {
			t.Errorf("agent %s has %q attempts, want %q", agent, n, want)
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := NewMetrics()
	m.Operation("submit", nil, time.Millisecond) // the first of its label copies the map
	if n := testing.AllocsPerRun(100, func() {
		m.Operation("submit", nil, time.Millisecond)
		m.Commit(3, time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations for one operation and its commit, want none", n)
	}
}

// Dashboards that were made for the version before go on: each operation that has two words now had another name then.
func TestRenamedOperationsCountUnderBothNames(t *testing.T) {
	m := NewMetrics()
	names := []string{
		"end_lease", "adopt_unclaimed", "expire_notifications", "append_entry", "release_sticky", "drop_definitions",
		"end_workers", "check_clock", "create_token", "set_quotas", "tokens_used", "sign_in", "sign_out", "end_replaced",
		"end_probe", "drop_summaries",
	}
	for _, name := range names {
		if formerName(name) == "" {
			t.Errorf("%s has no former name", name)
		}
		m.Operation(name, nil, time.Millisecond)
	}
	got := scrape(t, m)
	if n := got[`mailroom_operations_total{operation="forget",result="ok"}`]; n != "2" {
		t.Errorf("forget counts %s, want both operations that it named", n)
	}
	if n := got[`mailroom_operations_total{operation="sign_in",result="ok"}`]; n != "1" {
		t.Errorf("sign_in counts %s", n)
	}
}
