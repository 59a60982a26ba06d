package server_test

import (
	"runtime"
	"strings"
	"testing"
)

func TestEachLargeBodyGivesItsTurnBack(t *testing.T) {
	f := start(t)
	large := strings.Repeat("x", 200<<10)
	for i, body := range []string{
		`{"text":"` + large + `"}`,                  // taken
		`{"text":"` + large + `","mode":"nothing"}`, // refused by the handler
		`{"text":"` + large + `","priority":"x"}`,   // refused by its schema
		`{"text":"` + large + `","text":""}`,        // refused by the gate
		`{"text":"` + large + `"}`,
	} {
		for range 2 * runtime.GOMAXPROCS(0) { // more than there are turns
			got := f.call("POST /v1/messages", body)
			if want := []int{202, 422, 422, 422, 202}[i]; got.status != want {
				t.Fatalf("body %d: %d, want %d", i, got.status, want)
			}
		}
	}
}
