package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestParseSlotsAreBounded(t *testing.T) {
	turns, held := make(parseSlots, 1), parseSlot{}
	if err := turns.acquire(t.Context(), &held); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var second parseSlot
	if err := turns.acquire(gone, &second); !errors.Is(err, context.Canceled) {
		t.Errorf("a second request entered: %v", err)
	}
	second.release() // has nothing to release
	held.release()
	held.release()
	if err := turns.acquire(t.Context(), &second); err != nil || len(turns) != 1 {
		t.Errorf("after the release: %v, %d slots used, want 1", err, len(turns))
	}
}

func TestABodyReaderDropsItsBytesAfterACopy(t *testing.T) {
	b, out := newBodyReader([]byte("hello")), &strings.Builder{}
	if n, err := io.Copy(out, b); n != 5 || err != nil || out.String() != "hello" {
		t.Fatalf("copied %d bytes, %q, %v", n, out, err)
	}
	if b.Size() != 0 {
		t.Errorf("%d bytes after the copy", b.Size())
	}
}
