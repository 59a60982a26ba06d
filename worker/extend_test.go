package worker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/thread"
	"mailroom/worker"
)

// olderServer answers as a server that does not know the field extend of a step. steps counts the steps that it takes.
func olderServer(t *testing.T, steps *int) *httptest.Server {
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			w.Header().Set("Content-Type", api.ProblemType)
		}
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/claims", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.Claims{Worker: "w", LeaseMS: 15000, Contract: 1, Claims: []api.Claim{}})
	})
	mux.HandleFunc("POST /v1/claims/{claim}/entries", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Step map[string]json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if _, asks := body.Step["extend"]; asks {
			answer(w, http.StatusUnprocessableEntity, api.Problem{Code: mailroom.CodeInvalid,
				Errors: []api.ProblemField{{Location: "body.step.extend", Message: "unknown field"}}})
			return
		}
		*steps++
		answer(w, http.StatusOK, api.Appended{Seq: 7})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestAStepThatAsksForTimeIsCommittedByAnOlderServer(t *testing.T) {
	var steps int
	s := olderServer(t, &steps)
	l, err := worker.Dial(t.Context(), client.New(s.URL, "secret"), bus.New(), worker.LedgerOptions{Agents: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	in := thread.StepCommit{Claim: mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}, Number: 1}
	in.Step = mailroom.Step{Name: "half", Extend: time.Hour}
	if out, err := l.Append(t.Context(), in); err != nil || out != (thread.Appended{Seq: 7}) || steps != 1 {
		t.Errorf("got %+v, %v after %d steps, want the step without more time", out, err, steps)
	}
	in.Step.Extend = 10000 * time.Hour // a wrong value is no question of the version
	if _, err := l.Append(t.Context(), in); err == nil || !strings.Contains(err.Error(), "8760h") || steps != 1 {
		t.Errorf("got %v after %d steps, want a refusal", err, steps)
	}
}
