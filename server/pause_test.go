package server_test

import (
	"errors"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

// agent returns what the list of agents says about one.
func (f *fixture) agent(name string) (found api.Agent) {
	f.t.Helper()
	for _, a := range mustCall[api.Page[api.Agent]](f, "GET /v1/agents", "").Items {
		if a.Name == name {
			found = a
		}
	}
	return found
}

func TestAnAgentIsPausedAndResumed(t *testing.T) {
	f := start(t)
	f.submit("a", "hello")
	running := f.claim()
	pause := mustCall[api.Pause](f, "POST /v1/agents/echo/pause", `{"reason":"costs"}`)
	if pause.By != "admin" || pause.Reason != "costs" || pause.At.IsZero() {
		t.Errorf("got %+v", pause)
	}
	f.submit("b", "hello")
	if got := f.agent("echo"); got.Paused == nil || *got.Paused != pause || got.Queued != 1 || got.Running != 1 {
		t.Errorf("got %+v, want a paused agent with a queued and a running run", got)
	}
	if got := f.agent("codex"); got.Paused != nil {
		t.Errorf("another agent is paused: %+v", got.Paused)
	}
	f.settleRun(running, thread.OutcomeComplete, "bye")
	for route, want := range map[string]int{
		"POST /v1/agents/nosuch/pause": 404, "POST /v1/agents/codex/resume": 409, "POST /v1/agents/echo/resume": 204,
	} {
		if got := f.call(route, ""); got.status != want {
			t.Errorf("%s: status %d, want %d: %s", route, got.status, want, got.body)
		}
	}
	if got := f.agent("echo"); got.Paused != nil {
		t.Errorf("still paused: %+v", got.Paused)
	}
	if w := f.claim(); w.Claim.Thread != "b" {
		t.Errorf("claimed a run of %s, want b", w.Claim.Thread)
	}
}

// TestAPausedTargetIsNotListedAsAnAgent pauses a target of alerts: it is shown with the targets only.
func TestAPausedTargetIsNotListedAsAnAgent(t *testing.T) {
	f := start(t, withTargets)
	mustCall[api.Pause](f, "POST /v1/agents/alert:phone/pause", `{"reason":"holidays"}`)
	if got := f.agent("alert:phone"); got.Name != "" {
		t.Errorf("listed as an agent: %+v", got)
	}
	if got := mustCall[api.Alerts](f, "GET /v1/alerts", "").Targets; !got[0].Paused || got[1].Paused {
		t.Errorf("targets: %+v", got)
	}
	if got := f.call("POST /v1/agents/alert:phone/resume", ""); got.status != 204 {
		t.Errorf("resume: %d %s", got.status, got.body)
	}
}

// A worker whose machine has no login: the list names it while another worker serves the agent, and a resume by hand
// ends its pause.
func TestAnAgentThatOneWorkerCannotRunIsListedWithIt(t *testing.T) {
	f := start(t)
	_, err := f.ledger.Workers().Register(t.Context(), store.Worker{ID: "v", Host: "desk", Agents: []string{"echo"}})
	if err != nil {
		t.Fatal(err)
	}
	f.submit("a", "hello")
	w := f.claim()
	if _, err := f.ledger.Workers().Settle(t.Context(), thread.Settle{
		Claim: w.Claim, Number: 1, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: mailroom.ClassPermanent, Agent: true, Err: errors.New("not logged in")},
	}); err != nil {
		t.Fatal(err)
	}
	got := f.agent("echo")
	if got.Paused != nil || len(got.PausedOn) != 1 || got.PausedOn[0].Worker != "w" || got.PausedOn[0].Probe == nil ||
		got.PausedOn[0].Reason != "not logged in" {
		t.Errorf("listed as %+v on %+v", got, got.PausedOn)
	}
	if got := f.call("POST /v1/agents/echo/resume", ""); got.status != 204 {
		t.Errorf("resume: %d %s", got.status, got.body)
	}
	if got := f.agent("echo"); len(got.PausedOn) != 0 {
		t.Errorf("still listed: %+v", got.PausedOn)
	}
}
