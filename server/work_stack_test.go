package server_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mailroom/api"
)

// A stack is as large as the power of two above it, so each frame of a thousand workers that wait counts.
func TestAWaitingClaimHasNoFramesOfItsHandlerOnTheStack(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0).Worker
	served := make(chan response, 1)
	go func() {
		served <- f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":1,"wait":"60s"}`, worker))
	}()
	waiting := ""
	for waiting == "" {
		stacks := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "ledger.Workers.Claim(") && strings.Contains(stack, "[select]") {
				waiting = stack
			}
		}
		runtime.Gosched()
	}
	for _, frame := range []string{"danielgtaylor/huma", "net/http.(*ServeMux)", ".(*Operations).Claim("} {
		if strings.Contains(waiting, frame) {
			t.Errorf("the stack has a frame of %s:\n%s", frame, waiting)
		}
	}
	f.submitRemote("t", "hello")
	var out api.Claims
	if got := <-served; json.Unmarshal([]byte(got.body), &out) != nil || len(out.Claims) != 1 {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}
