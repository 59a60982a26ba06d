package server_test

import (
	"runtime"
	"strings"
	"testing"
)

func TestEachLargeBodyReleasesItsParseSlot(t *testing.T) {
	f := start(t)
	large := strings.Repeat("x", 200<<10)
	for i, body := range []string{
		`{"text":"` + large + `"}`,                  // accepted
		`{"text":"` + large + `","mode":"nothing"}`, // refused by the handler
		`{"text":"` + large + `","priority":"x"}`,   // refused by its schema
		`{"text":"` + large + `","text":""}`,        // refused by readBody
		`{"text":"` + large + `"}`,
	} {
		for range 2 * runtime.GOMAXPROCS(0) { // more than there are slots
			got := f.call("POST /v1/messages", body)
			if want := []int{202, 422, 422, 422, 202}[i]; got.status != want {
				t.Fatalf("body %d: %d, want %d", i, got.status, want)
			}
		}
	}
}
