package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/api"
)

func TestNodesSumUpTheWorkersOfEachServer(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	got := nodesOf([]api.Worker{
		{ID: "1", Node: "b", Host: "two", PID: 7, Version: "v2", Running: 1, LeaseUntil: at.Add(time.Second), Duties: []string{"maintenance"}},
		{ID: "2", Host: "laptop", PID: 9, Running: 5, LeaseUntil: at},
		{ID: "3", Node: "a", Host: "one", PID: 8, Version: "v1", LeaseUntil: at},
		{ID: "4", Node: "b", Host: "two", PID: 7, Version: "v2", Running: 2, LeaseUntil: at, Duties: []string{"channel/x"}},
	})
	want := []node{
		{ID: "a", Host: "one", PID: 8, Version: "v1", LeaseUntil: at, Duties: []string{}},
		{ID: "b", Host: "two", PID: 7, Version: "v2", Running: 3, LeaseUntil: at, Duties: []string{"channel/x", "maintenance"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
