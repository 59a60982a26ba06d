package stream_test

import (
	"context"
	"strings"
	"testing"

	"mailroom"
	"mailroom/store"
	"mailroom/stream"
)

// sizedViewer is a viewer that records the size of the largest page.
type sizedViewer struct {
	stream.Viewer
	most int
}

func (w *sizedViewer) View(ctx context.Context, f func(store.Reader) error) error {
	return w.Viewer.View(ctx, func(r store.Reader) error { return f(sizedReader{r, w}) })
}

type sizedReader struct {
	store.Reader
	on *sizedViewer
}

func (r sizedReader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	got, err := r.Reader.Entries(q)
	size := 0
	for _, e := range got {
		size += len(e.Raw)
	}
	r.on.most = max(r.on.most, size)
	return got, err
}

// A reader buffers what it reads, because no view is open while it emits events. The buffer's size in
// bytes must not depend on the size of entries.
func TestLargeEntriesAreReadAFewAtATime(t *testing.T) {
	d := newFixture(t)
	const large = 100 << 10
	text := strings.Repeat("x", large)
	for range 12 {
		d.submitText(text)
	}
	for range 30 {
		d.submit()
	}
	w := &sizedViewer{Viewer: d.store}
	ctx, stop := context.WithCancelCause(t.Context())
	last := int64(0)
	err := stream.New(w, d.bus).Follow(ctx, stream.Query{Thread: threadID}, func(e stream.Event) error {
		if e.Entry.Seq != last+1 {
			t.Errorf("entry %d follows entry %d", e.Entry.Seq, last)
		}
		if last = e.Entry.Seq; last == d.last() {
			stop(errHangUp)
		}
		return nil
	})
	if err != errHangUp {
		t.Error(err)
	}
	if w.most > 9*large { // of the first page, whose entry sizes are unknown: four messages, as text and as parts
		t.Errorf("largest page %d bytes, want at most %d", w.most, 9*large)
	}
}

// A reader that is behind finds large entries in the store.
func TestLargeEntriesAreNotKeptForReadersThatAreBehind(t *testing.T) {
	d := newFixture(t)
	sub := d.bus.Subscribe(threadID, 100)
	defer sub.Close()
	for range 10 {
		d.submitText(strings.Repeat("x", 100<<10))
	}
	if n := len(sub.C); n != 1 || !sub.Lost() {
		t.Errorf("%d large notices are kept, want 1", n)
	}
	<-sub.C
	d.submit()
	d.submit()
	if n := len(sub.C); n != 2 || sub.Lost() {
		t.Errorf("%d small notices are kept, want 2", n)
	}
}
