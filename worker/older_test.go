package worker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/internal/retry"
	"mailroom/store"
	"mailroom/thread"
	"mailroom/worker"
)

// otherServer is a server of another version: it answers a registration with claims, and refuses unknown fields.
func otherServer(t *testing.T, claims map[string]any, unknown ...string) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if r.Body != http.NoBody {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
		}
		answer := any(claims)
		for name := range body {
			if slices.Contains(unknown, name) {
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(http.StatusUnprocessableEntity)
				answer = api.Problem{Code: mailroom.CodeInvalid, Detail: "body." + name + ": unknown field",
					Errors: []api.ProblemField{{Location: "body." + name, Message: "unknown field"}}}
			}
		}
		if strings.HasSuffix(r.URL.Path, "/log") {
			answer = map[string]any{"items": []any{}, "next": nil, "future": 1}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return client.New(s.URL, "token")
}

// registered is the answer to a registration.
func registered(more map[string]any) map[string]any {
	out := map[string]any{"worker": "w", "round": 0, "lease_until": time.Now().Add(time.Minute), "lease_ms": 60_000,
		"claims": []any{}, "contract": 1}
	for name, v := range more {
		out[name] = v
	}
	return out
}

func dial(t *testing.T, c *client.Client, o worker.LedgerOptions) (*worker.Ledger, error) {
	t.Helper()
	o.Agents = []string{"far"}
	return worker.Dial(context.Background(), c, bus.New(), o)
}

func TestAnOlderServerIsNamedAsTheReasonOfWhatItDoesNotKnow(t *testing.T) {
	const hint = "the server is older than this worker and does not "
	check := func(what string, err error, want string) {
		t.Helper()
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || err.Error() != hint+want+": update the server" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	c := otherServer(t, registered(nil), "retry", "effects")
	_, err := dial(t, c, worker.LedgerOptions{Retry: retry.Policy{Attempts: 3}})
	check("a registration", err, "know body.retry")
	l, err := dial(t, c, worker.LedgerOptions{})
	if err != nil {
		t.Fatal("a worker that needs nothing new is not served:", err)
	}
	if _, err := l.Register(t.Context(), store.Worker{ID: "mine"}); err != nil {
		t.Fatal(err)
	}
	claim := mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}
	_, err = l.Append(t.Context(), thread.StepCommit{Claim: claim, Number: 1,
		Effects: []mailroom.AgentEntry{{Kind: "effect.settled", Body: []byte(`{}`)}}})
	check("a step", err, "know body.effects")
}

func TestAnOlderServerIsTooOldForBlobs(t *testing.T) {
	l, err := dial(t, otherServer(t, registered(map[string]any{"contract": 4})), worker.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := &mailroom.Run{ID: "r", Thread: "t", Attempt: 1}
	_, put := l.Upload(t.Context(), mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}, strings.NewReader("x"))
	_, get := l.ReadBlob(t.Context(), run, "x")
	_, list := l.ListBlobs(t.Context(), run, "", "")
	const want = "the server is too old for blobs; update the server"
	for what, err := range map[string]error{"put": put, "get": get, "list": list} {
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || !strings.HasSuffix(err.Error(), want) ||
			mailroom.AsFailure(err).Class != mailroom.ClassTransient {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestAServerOfALaterContractServesTheWorker(t *testing.T) {
	c := otherServer(t, registered(map[string]any{"contract": api.WorkerContract + 7, "version": "99", "future": 1}))
	l, err := dial(t, c, worker.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.LogOf(t.Context(), &mailroom.Run{ID: "r", Attempt: 1}, mailroom.LogQuery{Limit: 1}); err != nil {
		t.Error("a part of the contract is refused:", err)
	}
	if l.LeaseTime() != time.Minute {
		t.Error("got a lease of", l.LeaseTime())
	}
}

func TestARefusalByAServerOfThisContractIsNotExplained(t *testing.T) {
	c := otherServer(t, registered(map[string]any{"contract": api.WorkerContract}), "effects")
	l, err := dial(t, c, worker.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(t.Context(), thread.StepCommit{Claim: mailroom.Claim{Run: "r", Attempt: 1}, Number: 1,
		Effects: []mailroom.AgentEntry{{Kind: "effect.settled", Body: []byte(`{}`)}}})
	if err == nil || err.Error() != "body.effects: unknown field" {
		t.Error("got", err)
	}
}
