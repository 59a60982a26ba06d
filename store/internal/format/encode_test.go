package format

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/store"
)

// FuzzStoredResult checks that a stored result is decoded to what it was.
func FuzzStoredResult(f *testing.F) {
	for _, s := range []string{"", "plain", "a<b&c>", "ü<", "\"\\\n", "\u2028"} {
		f.Add(s, int64(7), true)
	}
	f.Fuzz(func(t *testing.T, text string, n int64, full bool) {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var valid string // with U+FFFD for invalid bytes
		if err := json.Unmarshal(raw, &valid); err != nil {
			t.Fatal(err)
		}
		in := store.Submitted{Message: valid, Thread: valid, Seq: n}
		if full {
			in.Superseded, in.Stopping, in.Status = []string{valid, "a"}, &valid, "queued"
		}
		var out store.Submitted
		if err := json.Unmarshal([]byte(EncodeSubmitted(&in)), &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Errorf("decoded (-want +got):\n%s", diff)
		}
	})
}

func TestStoredResultsKeepTheirBytes(t *testing.T) {
	stop := "ü<\n"
	s := store.Submitted{Message: "m", Run: "r", Thread: "a<b&c>", Seq: 1, Place: 2, Status: "queued",
		Disposition: "queued", Superseded: []string{`"`, "x"}, Stopping: &stop}
	const want = `{"message":"m","run":"r","thread":"a<b&c>","seq":1,"place":2,"status":"queued","disposition":"queued","superseded":["\"","x"],"stopping":"ü\u003c\n"}`
	if got := EncodeSubmitted(&s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = store.Submitted{}
	const none = `{"message":"","run":"","thread":"","seq":0,"place":0,"status":"","disposition":"","superseded":null}`
	if got := EncodeSubmitted(&s); got != none {
		t.Errorf("got  %s\nwant %s", got, none)
	}
}
