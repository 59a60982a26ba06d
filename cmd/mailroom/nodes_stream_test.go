package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// allThreads reads the stream of all threads, at one server after the other.
type allThreads struct {
	t     *testing.T
	leave func() // ends the reader, and waits for it

	mu     sync.Mutex
	cursor string           // of the last entry
	last   map[string]int64 // seq of the last entry, by thread
	ended  map[string]bool  // threads whose run has ended
	heard  chan struct{}    // one slot: a run has ended
}

var errLeft = errors.New("the reader leaves")

// headerSignal signals when the header of a response has arrived.
type headerSignal struct{ came chan struct{} }

func (s headerSignal) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		select {
		case s.came <- struct{}{}:
		default:
		}
	}
	return resp, err
}

// readAt leaves the server of before and continues at another. When it returns, the reader misses
// nothing that is committed later.
func (r *allThreads) readAt(h *fixture) {
	r.t.Helper()
	if r.leave != nil {
		r.leave()
	}
	at, err := h.dir.Address()
	h.must(err)
	token, err := h.dir.Token()
	h.must(err)
	came := make(chan struct{}, 1)
	c := client.New(at.URL, token, client.WithHTTPClient(&http.Client{Transport: headerSignal{came}}))
	ctx, cancel := context.WithCancelCause(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ev, err := range c.Stream(ctx, r.cursor) {
			switch {
			case errors.Is(err, errLeft):
			case err != nil || ev.Gap != nil:
				r.t.Errorf("the stream of all threads: gap %v, %v", ev.Gap, err)
			case ev.Entry != nil:
				r.note(ev)
			}
		}
	}()
	r.leave = func() {
		cancel(errLeft)
		<-ended
	}
	<-came
}

func (r *allThreads) note(ev client.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := r.last[ev.Thread] + 1; ev.Entry.Seq != want {
		r.t.Errorf("got the entry %d of %s, want %d", ev.Entry.Seq, ev.Thread, want)
	}
	r.last[ev.Thread], r.cursor = ev.Entry.Seq, ev.ID
	if ev.Entry.Kind != entry.KindCompleted {
		return
	}
	r.ended[ev.Thread] = true
	select {
	case r.heard <- struct{}{}:
	default:
	}
}

// waitEnd waits until the reader has the end of a run of each thread.
func (r *allThreads) waitEnd(threads ...string) {
	r.t.Helper()
	late := time.After(5 * time.Minute)
	for {
		r.mu.Lock()
		missing := ""
		for _, thread := range threads {
			if !r.ended[thread] {
				missing = thread
			}
		}
		r.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-r.heard:
		case <-late:
			r.t.Fatalf("the reader has no end of the run of %s", missing)
		}
	}
}

// TestAReaderOfAllThreadsGetsTheCommitsOfAllServers reads at one server what both commit, while the
// connections that carry hints are cut, and at the other server after its own was killed.
func TestAReaderOfAllThreadsGetsTheCommitsOfAllServers(t *testing.T) {
	t.Parallel()
	c := newNodes(newFixture(t, ""), 2)
	for _, n := range c.all {
		n.serve()
	}
	submit := func(server int, threads ...string) {
		t.Helper()
		for _, thread := range threads {
			if _, err := c.all[server].client().Submit(t.Context(), api.Submit{Thread: thread, Text: "hello"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := &allThreads{t: t, last: map[string]int64{}, ended: map[string]bool{}, heard: make(chan struct{}, 1)}
	r.readAt(c.all[1])
	defer func() { r.leave() }()
	submit(0, "a", "b")
	submit(1, "c")
	r.waitEnd("a", "b", "c")
	for _, thread := range []string{"d", "e", "f"} {
		if _, err := c.cluster.Terminate(t.Context(), "mailroom_wire"); err != nil {
			t.Fatal(err)
		}
		submit(0, thread)
		r.waitEnd(thread)
	}

	c.all[1].server.kill()
	submit(0, "g")
	r.readAt(c.all[0])
	submit(0, "h")
	r.waitEnd("g", "h")
	c.all[1].serve()
	submit(1, "i")
	r.readAt(c.all[1])
	submit(0, "j")
	r.waitEnd("i", "j")
}
