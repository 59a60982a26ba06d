package conformance

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
)

// TestTheJudgeFindsEachViolation shows that each check of the judge finds its violation.
func TestTheJudgeFindsEachViolation(t *testing.T) {
	log := func(kinds ...string) (all []mailroom.Entry) {
		for i, text := range kinds {
			kind, attempt, _ := strings.Cut(text, " ")
			e := mailroom.Entry{Seq: int64(i + 1), Kind: kind, Run: "r", Attempt: 1, Body: json.RawMessage(`{}`)}
			if attempt != "" {
				e.Attempt, e.Body = int(attempt[0]-'0'), json.RawMessage(`{"attempt":1}`)
			}
			all = append(all, e)
		}
		return all
	}
	gap := log("run.started", "run.completed")
	gap[1].Seq = 3
	reply, one := "yes", 1
	once := &want{Notes: map[string]count{"effect a": {1, 1}}}
	for name, err := range map[string]error{
		"two ends":             checkOrder(log("run.started", "run.completed", "run.failed"), "r"),
		"no end":               checkOrder(log("run.started"), "r"),
		"a gap":                checkOrder(gap, "r"),
		"an attempt twice":     checkOrder(log("run.started", "run.started", "run.completed"), "r"),
		"a lost claim's step":  checkOrder(log("run.started 1", "run.started 2", "step 1", "run.completed 2"), "r"),
		"a step of another":    checkOrder(log("run.started 2", "x.by 2", "run.completed 2"), "r"),
		"an effect twice":      once.checkNotes([]string{"effect a", "effect a"}),
		"an effect never":      once.checkNotes([]string{"effect b"}),
		"an entry is missing":  (&want{Entries: []string{"step"}}).checkLog(log("run.started"), "r"),
		"entries out of order": (&want{Entries: []string{"b", "a"}}).checkLog(log("a", "b"), "r"),
		"an entry too many":    (&want{Without: []string{"step"}}).checkLog(log("step"), "r"),
		"a message is missing": (&want{Messages: []string{"x"}}).checkLog(log("run.started"), "r"),
		"the status":           (&want{}).checkRun(api.Run{Status: mailroom.StatusFailed}),
		"the reply":            (&want{Reply: &reply}).checkRun(api.Run{Status: mailroom.StatusCompleted}),
		"the error":            (&want{Error: "x"}).checkRun(api.Run{Status: mailroom.StatusCompleted}),
		"the attempts":         (&want{Attempt: &count{2, 3}}).checkRun(api.Run{Status: mailroom.StatusCompleted}),
		"the crashes":          (&want{Crashes: &one}).checkRun(api.Run{Status: mailroom.StatusCompleted}),
	} {
		if err == nil {
			t.Errorf("%s: the judge finds nothing", name)
		}
	}
	if err := checkOrder(log("run.queued", "run.started", "effect.intended", "run.completed"), "r"); err != nil {
		t.Error(err)
	}
}

// TestTheProxyChangesAnswers shows what workers get from a newer server, and with a wrong clock.
func TestTheProxyChangesAnswers(t *testing.T) {
	answer := []byte(`{"worker":"w","lease_until":"2026-11-28T12:00:00Z","lease_ms":15000,"note":"2026"}`)
	if got := string(shiftTimes(answer, -time.Hour)); !strings.Contains(got, `"2026-11-28T11:00:00Z"`) {
		t.Errorf("an hour earlier: %s", got)
	}
	got := string(addUnknown(answer))
	if !strings.Contains(got, `"future":`) || !strings.Contains(got, `"lease_ms":15000`) {
		t.Errorf("of a newer server: %s", got)
	}
	log := []byte(`{"items":[{"thread":"t","seq":1,"kind":"message","at":"","run":"r"}],"next":null}`)
	if got := string(addUnknown(log)); !strings.Contains(got, `"future.kind"`) {
		t.Errorf("a log of a newer server: %s", got)
	}
	if got := string(lowerContract([]byte(`{"worker":"w","contract":5}`), 4)); !strings.Contains(got, `"contract":4`) {
		t.Errorf("of an older server: %s", got)
	}
	if got := string(lowerContract([]byte(`{"worker":"w","contract":5}`), 0)); strings.Contains(got, "contract") {
		t.Errorf("of the first server: %s", got)
	}
	for path, want := range map[string]string{
		"/v1/claims {}": "register", `/v1/claims {"worker":"w"}`: "claim", "/v1/claims/r:1/entries {}": "step",
		`/v1/claims/r:1/entries {"effects": [{}]}`: "effect", "/v1/claims/r:1/deltas {}": "text",
		"/v1/workers/w/renew {}": "renew", "/v1/claims/r:1/settle {}": "settle",
	} {
		at, body, _ := strings.Cut(path, " ")
		if got := kindOf("POST", at, []byte(body)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
