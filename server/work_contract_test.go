package server_test

import (
	"testing"

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
