package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
)

func TestPlainRunLeavesItsEntriesInTheLog(t *testing.T) {
	everywhere(t, func(h *fixture) {
		h.serve(streaming("hi"))
		out := h.send("t", "hello")
		h.wait(time.Second)
		want := []string{entry.KindMessage, entry.KindQueued, entry.KindStarted, entry.KindMessage, entry.KindCompleted}
		if diff := cmp.Diff(want, h.kinds("t")); diff != "" {
			t.Error(diff)
		}
		for _, e := range h.entries("t") {
			if e.Run != out.Run {
				t.Errorf("entry %d %s: got run %q, want %q", e.Seq, e.Kind, e.Run, out.Run)
			}
		}
		r := h.run(out.Run)
		if r.Status != mailroom.StatusCompleted || r.Reply == nil || *r.Reply != "hi" || r.Attempt != 1 {
			t.Errorf("got %+v", r)
		}
	})
}
