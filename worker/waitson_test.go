package worker_test

import (
	"testing"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
	"mailroom/worker"
)

func TestAnOlderServerRenewsALeaseWithoutWhatAgentsWaitFor(t *testing.T) {
	l, err := dial(t, otherServer(t, registered(nil), "waits_on"), worker.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Register(t.Context(), store.Worker{ID: "mine"}); err != nil {
		t.Fatal(err)
	}
	c := mailroom.Claim{Thread: "t", Run: "r", Attempt: 1}
	if _, err := l.Renew(t.Context(), thread.Renewal{Worker: "mine", Held: []mailroom.Claim{c},
		WaitsOn: map[mailroom.Claim]string{c: "tests"}}); err != nil {
		t.Error("the renewal failed, which ends the worker:", err)
	}
}
