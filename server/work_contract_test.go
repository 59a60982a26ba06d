package server_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
)

func TestEachAnswerToAClaimSaysTheVersionAndTheContract(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0)
	again := mustCall[api.Claims](f, "POST /v1/claims", `{"worker":"`+worker.Worker+`","round":1}`)
	for _, got := range []api.Claims{worker, again} {
		if got.Version != "1.2.3" || got.Contract != api.WorkerContract || got.Contract < 1 {
			t.Errorf("got version %q and contract %d", got.Version, got.Contract)
		}
	}
}

func TestAnUnknownWorkerOrClaimSaysWhatToDo(t *testing.T) {
	f := start(t)
	for route, c := range map[string]struct{ body, want string }{
		"POST /v1/claims":                  {`{"worker":"gone","round":1}`, `no worker \"gone\" of this token: register`},
		"POST /v1/workers/gone/renew":      {`{}`, `no worker \"gone\" of this token: register`},
		"POST /v1/claims/r:1/deltas":       {`{"offset":0,"text":""}`, `no claim \"r:1\" of a worker of this token`},
		"GET /v1/claims/r:1/effects":       {"", `no claim \"r:1\" of a worker of this token`},
		"GET /v1/claims/no:such:claim/run": {"", `no claim \"no:such:claim\" of a worker of this token`},
	} {
		a := f.call(route, c.body)
		f.wantCode(route, a, 404, mailroom.CodeNotFound)
		if !strings.Contains(a.body, c.want) {
			t.Errorf("%s: got %s, want %s", route, a.body, c.want)
		}
	}
}

func TestAnAgentOfATokenIsKnownBeforeItsWorkerRegisters(t *testing.T) {
	f := start(t)
	f.submit("mine", "hello")
	for _, route := range []string{"POST /v1/messages", "PATCH /v1/threads/mine"} {
		a := f.call(route, map[bool]string{true: `{"agent":"far"}`, false: `{"text":"a","agent":"far"}`}[route[1] == 'A'])
		if p := a.problem(t); len(p.Errors) != 1 || p.Errors[0].Location != "body.agent" {
			t.Errorf("%s: got %s, want body.agent named", route, a.body)
		}
	}
	f.wantCode("before the token", f.call("POST /v1/threads/t/messages", `{"text":"hi","agent":"far"}`), 422,
		mailroom.CodeUnserved)
	f.createTokenHeader(`{"name":"laptop","scopes":["work"],"agents":["far"]}`)
	f.submitRemote("t", "hi")
	if a := f.call("DELETE /v1/tokens/laptop", ""); a.status != 204 {
		t.Fatalf("revoke: %d %s", a.status, a.body)
	}
	f.wantCode("after it was revoked", f.call("POST /v1/threads/u/messages", `{"text":"hi","agent":"far"}`), 422,
		mailroom.CodeUnserved)
}
