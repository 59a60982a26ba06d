package server_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
)

// A worker that leaves has begun to work on the claim of its first round, and never got the answer to the second one.
func TestAWorkerThatLeavesReleasesTheClaimsThatItHasNotEntered(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		f := startStore(t, open(t), func(ln net.Listener) net.Listener { return ln })
		worker, entered := f.claimRemote()
		for _, thread := range []string{"u", "v"} {
			f.call("POST /v1/threads/"+thread+"/messages", `{"text":"hi","agent":"far","max_crashes":0}`)
		}
		if lost := f.claimRound(worker, 2); len(lost) != 2 {
			t.Fatalf("claimed %+v", lost)
		}
		f.leave(worker, fmt.Sprintf(`{"entered":[%q]}`, entered.Claim))
		if r := f.runOf(entered.Run.ID); r.Status != mailroom.StatusRunning {
			t.Errorf("the run that was entered is %s, want it running until the next sweep", r.Status)
		}
		next := f.registerRemote("far", 0).Worker
		var threads []string
		for _, c := range f.claimRound(next, 1) {
			threads = append(threads, c.Run.Thread)
			if c.Lost != 0 || c.Run.Crashes != 0 || c.Run.Attempt != 2 {
				t.Errorf("claimed %+v", c)
			}
		}
		if want := []string{"u", "v"}; !cmp.Equal(threads, want) {
			t.Errorf("the next worker got %v, want %v at once", threads, want)
		}
		f.wantCode("the worker", f.call("POST /v1/claims", fmt.Sprintf(`{"worker":%q,"round":3}`, worker)), 409,
			mailroom.CodeLeaseLost)
		f.sweep()
		if r := f.runOf(entered.Run.ID); r.Status != mailroom.StatusQueued || r.Crashes != 1 {
			t.Errorf("the run that was entered is %s after %d crashes, want it queued after one", r.Status, r.Crashes)
		}
	})
}

func TestAWorkerThatLeavesWithoutABodyLosesItsClaims(t *testing.T) {
	for _, body := range []string{``, `{}`} {
		f := start(t)
		worker, c := f.claimRemote()
		f.leave(worker, body)
		f.sweep()
		if r := f.runOf(c.Run.ID); r.Status != mailroom.StatusQueued || r.Crashes != 1 {
			t.Errorf("body %q: the run is %s after %d crashes, want it queued after one", body, r.Status, r.Crashes)
		}
	}
}

func (f *fixture) leave(worker, body string) {
	f.t.Helper()
	if a := f.call("POST /v1/workers/"+worker+"/leave", body); a.status != http.StatusNoContent {
		f.t.Fatalf("leave: %d %s", a.status, a.body)
	}
}

func (f *fixture) runOf(id string) api.Run {
	f.t.Helper()
	return mustCall[api.Run](f, "GET /v1/runs/"+id, "")
}

func (f *fixture) sweep() {
	f.t.Helper()
	if err := f.ledger.Workers().Sweep(f.t.Context(), ""); err != nil {
		f.t.Fatal(err)
	}
}
