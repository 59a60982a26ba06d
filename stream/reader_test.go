package stream_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream"
)

var errHangUp = errors.New("the reader hangs up")

// reader is a client that records all events and can reconnect.
type reader struct {
	fixture *fixture
	slow    func() // called for each event; may be nil

	have int // bytes of the unfinished message that earlier connections received

	mu     sync.Mutex
	cursor stream.Cursor  // cursor of the last event
	events []stream.Event // events of this connection

	cancel context.CancelCauseFunc
	ended  chan error
}

// follow starts to read; synctest.Wait waits until it has received everything.
func (d *fixture) follow(q stream.Query) *reader {
	r := &reader{fixture: d}
	r.follow(q)
	return r
}

func (r *reader) follow(q stream.Query) {
	q.Thread = threadID
	r.have = 0
	r.mu.Lock()
	r.cursor, r.events = q.After, nil
	r.mu.Unlock()
	if q.After.Seq == r.fixture.last() {
		r.have = q.After.Bytes
	}
	ctx, cancel := context.WithCancelCause(r.fixture.t.Context())
	ended := make(chan error, 1)
	r.cancel, r.ended = cancel, ended
	go func() {
		ended <- r.fixture.streams.Follow(ctx, q, func(e stream.Event) error {
			if r.slow != nil {
				r.slow()
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events, r.cursor = append(r.events, e), e.Cursor
			return nil
		})
	}()
}

// received returns the events so far.
func (r *reader) received() []stream.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// cursorNow returns the cursor of the last event.
func (r *reader) cursorNow() stream.Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cursor
}

// hangUp ends the connection.
func (r *reader) hangUp() {
	r.fixture.t.Helper()
	r.cancel(errHangUp)
	if err := <-r.ended; !errors.Is(err, errHangUp) {
		r.fixture.t.Errorf("Follow returned %v, want the cause of its context", err)
	}
}

// wantEnded checks that Follow has ended by itself.
func (r *reader) wantEnded() {
	r.fixture.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.fixture.t.Errorf("Follow returned %v, want nil", err)
		}
		r.cancel(nil)
	default:
		r.fixture.t.Error("Follow has not returned")
		r.hangUp()
	}
}

// stillFollows checks that Follow has not ended by itself.
func (r *reader) stillFollows() {
	r.fixture.t.Helper()
	select {
	case err := <-r.ended:
		r.fixture.t.Errorf("Follow returned %v, want it to continue", err)
		r.ended <- err
	default:
	}
}

// seqs returns the seqs of the received entries.
func (r *reader) seqs() []int64 {
	var seqs []int64
	for _, e := range r.received() {
		if e.Entry != nil {
			seqs = append(seqs, e.Entry.Seq)
		}
	}
	return seqs
}

// text joins the received deltas of one message.
func (r *reader) text(message string) string {
	text := ""
	for _, e := range r.received() {
		if e.Delta != nil && e.Delta.Message == message {
			text += e.Delta.Text
		}
	}
	return text
}

// kinds returns one word per event.
func (r *reader) kinds() []string {
	var kinds []string
	for _, e := range r.received() {
		switch {
		case e.Entry != nil:
			kinds = append(kinds, e.Entry.Kind)
		case e.Delta != nil:
			kinds = append(kinds, "+"+e.Delta.Text)
		default:
			kinds = append(kinds, "gap")
		}
	}
	return kinds
}

func suffix(log []mailroom.Entry, after int64) []int64 {
	var seqs []int64
	for _, e := range log {
		if e.Seq > after {
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

// wantAll checks that the received entries are exactly those behind after.
func (r *reader) wantAll(run string, after int64) {
	r.fixture.t.Helper()
	if diff := cmp.Diff(suffix(r.fixture.log(run), after), r.seqs()); diff != "" {
		r.fixture.t.Errorf("entries after %d of run %q (-want +got):\n%s", after, run, diff)
	}
}

// check checks every event of the connection: text must be correct, in whole code points, without gap or
// repeat, and at its position in the log.
func (r *reader) check() {
	t := r.fixture.t
	t.Helper()
	var open writer
	have := r.have
	var claim writer // of the last received start
	for i, e := range r.received() {
		if item := e.Entry; item != nil {
			if want := (stream.Cursor{Seq: item.Seq}); e.Cursor != want {
				t.Errorf("event %d: cursor %v, want %v", i, e.Cursor, want)
			}
			w := writer{run: item.Run, attempt: item.Attempt}
			switch item.Kind {
			case entry.KindStarted:
				claim, open, have = w, writer{}, 0
			case entry.KindMessage:
				if r.fixture.ended[open] == item.Seq || open == (writer{}) && item.Attempt > 0 {
					open, have = writer{}, 0
				}
			}
		}
		if e.Delta == nil {
			continue
		}
		d := e.Delta
		w := writer{d.Run, d.Attempt, d.Message}
		if w != open && open != (writer{}) {
			t.Errorf("event %d: text of %v while message %v is open", i, w, open)
		}
		open = w
		truth := r.fixture.written[w]
		start := have
		for start > 0 && start < len(truth) && !utf8.RuneStart(truth[start]) {
			start--
		}
		have = d.Offset + len(d.Text)
		switch {
		case d.Offset != start:
			t.Errorf("event %d: text of %v from %d, want from %d", i, w, d.Offset, start)
		case have > len(truth) || d.Text != truth[d.Offset:have]:
			t.Errorf("event %d: text %q at %d is not in %q", i, d.Text, d.Offset, truth)
		case !utf8.ValidString(d.Text) || d.Text == "" || d.Channel != "text":
			t.Errorf("event %d: text %q on channel %q", i, d.Text, d.Channel)
		case e.Cursor.Bytes != have:
			t.Errorf("event %d: cursor %v, want %d bytes", i, e.Cursor, have)
		case claim != (writer{}) && claim != writer{run: d.Run, attempt: d.Attempt}:
			t.Errorf("event %d: text of %v after %v has started", i, w, claim)
		}
		if seq, over := r.fixture.ended[w]; over && seq <= e.Cursor.Seq {
			t.Errorf("event %d: text of %v after its entry %d, at %v", i, w, seq, e.Cursor)
		}
		if seq := r.fixture.started[writer{run: d.Run, attempt: d.Attempt}]; seq > e.Cursor.Seq {
			t.Errorf("event %d: text of %v before its start %d, at %v", i, w, seq, e.Cursor)
		}
	}
}

// wantEqual compares a test's short list.
func wantEqual[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
