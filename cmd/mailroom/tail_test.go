package main

import (
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func TestTailContinuesWhereItWasInterrupted(t *testing.T) {
	h := newFixture(t, "")
	h.process(&process{})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var sender sync.WaitGroup
	sender.Go(func() {
		for ctx.Err() == nil { // the stream may open after some of these
			if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "early", "hello"); code != exitDone {
				t.Errorf("send: exit code %d: %s", code, stderr)
				return
			}
		}
	})
	out := &lineWriter{want: " early message admin: hello\n", found: interrupt} // it may begin with a reply
	code, stderr := h.run(ctx, out, "tail", "--kind", "message", "--kind", "run.failed")
	sender.Wait()
	if code != exitInterrupted || !strings.Contains(out.text.String(), out.want) {
		t.Errorf("tail: exit code %d, want %d and a line with %q: %s%s", code, exitInterrupted, out.want,
			out.text.String(), stderr)
	}
	again := regexp.MustCompile(`\n  mailroom tail --after (\S+)\n`).FindStringSubmatch(stderr)
	if again == nil {
		t.Fatalf("tail does not say how to continue: %s", stderr)
	}
	if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "later", "a\nb"); code != exitDone {
		t.Fatalf("send: exit code %d: %s", code, stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := &lineWriter{want: " later message admin: a b\n", found: stop}
	if code, stderr := h.run(ctx, seen, "tail", "--after", again[1]); code != exitInterrupted {
		t.Errorf("tail --after: exit code %d, want %d: %s", code, exitInterrupted, stderr)
	}
	if strings.Count(seen.text.String(), seen.want) != 1 {
		t.Errorf("tail --after printed %q, want the message sent in between once", seen.text.String())
	}
}

// lineWriter is a Stdout that calls found when its text contains want.
type lineWriter struct {
	text  strings.Builder
	want  string
	found func()
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.text.Write(b)
	if strings.Contains(w.text.String(), w.want) {
		w.found()
	}
	return len(b), nil
}
