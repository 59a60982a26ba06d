package main

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"mailroom"
	"mailroom/entry"
)

// account records what one reader receives of one thread, and the errors in it.
type account struct {
	who string

	mu      sync.Mutex
	entries []mailroom.Entry  // owned by mu
	texts   map[string][]byte // owned by mu: streamed text of messages without an entry, by offset
	over    map[string]bool   // owned by mu: messages whose entry was received
	cursor  string            // owned by mu: behind the last event
	deltas  int               // owned by mu
	checked int               // owned by mu: messages whose streamed text was compared
	wrong   []string          // owned by mu
	changed chan struct{}     // owned by mu; closed by the next change
}

func newAccount(who string) *account {
	return &account{who: who, texts: map[string][]byte{}, over: map[string]bool{}, cursor: "0",
		changed: make(chan struct{})}
}

// bad records an error. The caller holds mu.
func (a *account) bad(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf("%s, after %s: %s", a.who, a.cursor, fmt.Sprintf(format, args...)))
	a.change()
}

// change wakes all waiters. The caller holds mu.
func (a *account) change() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *account) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bad(format, args...)
}

func (a *account) at() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cursor
}

// entry adds the next entry. Streamed text must be a prefix of its message; it may be longer than
// the kept part of an interrupted message.
func (a *account) entry(e mailroom.Entry, cursor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if want := int64(len(a.entries)) + 1; e.Seq != want || cursor != fmt.Sprint(e.Seq) {
		a.bad("entry %d came as %q, want entry %d", e.Seq, cursor, want)
	}
	a.entries, a.cursor = append(a.entries, e), cursor
	a.change()
	var m mailroom.Message
	if e.Kind != entry.KindMessage || e.Attempt == 0 {
		return
	}
	if err := e.Decode(&m); err != nil {
		a.bad("%v", err)
		return
	}
	a.over[m.ID] = true
	got, streamed := a.texts[m.ID]
	if !streamed {
		return
	}
	delete(a.texts, m.ID)
	a.checked++
	both := min(len(m.Text), len(got))
	if m.Text[:both] != string(got[:both]) || len(got) > len(m.Text) && !m.Partial {
		a.bad("message %s was streamed as %.60q but written as %.60q", m.ID, got, m.Text)
	}
}

// delta adds streamed text, which must continue the known text without a gap.
func (a *account) delta(d entry.Delta, cursor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deltas++
	got := a.texts[d.Message]
	if want := fmt.Sprintf("%d:%d", len(a.entries), d.Offset+len(d.Text)); cursor != want {
		a.bad("text up to byte %d came as %q, want %q", d.Offset+len(d.Text), cursor, want)
	}
	switch {
	case a.over[d.Message]:
		a.bad("text of message %s, which was already written", d.Message)
	case d.Offset > len(got):
		a.bad("text of message %s at byte %d, but %d bytes are known", d.Message, d.Offset, len(got))
	case !bytes.HasPrefix([]byte(d.Text), got[d.Offset:]) && !bytes.HasPrefix(got[d.Offset:], []byte(d.Text)):
		a.bad("text of message %s at byte %d is %q, but was %q", d.Message, d.Offset, d.Text, got[d.Offset:])
	case d.Offset+len(d.Text) > len(got):
		a.texts[d.Message] = append(got[:d.Offset:d.Offset], d.Text...)
	}
	a.cursor = cursor
}

// reached waits until the reader has n entries or an error. It reports false if done is closed
// first.
func (a *account) reached(n int, done <-chan struct{}) bool {
	for {
		a.mu.Lock()
		have, changed, wrong := len(a.entries), a.changed, len(a.wrong) > 0
		a.mu.Unlock()
		if have >= n || wrong {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// compare compares what the reader received with the log.
func (a *account) compare(t *testing.T, log []mailroom.Entry) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, what := range a.wrong {
		t.Error(what)
	}
	if len(a.entries) != len(log) {
		t.Errorf("%s has %d entries, the log %d", a.who, len(a.entries), len(log))
		return
	}
	for i := range log {
		if !same(a.entries[i], log[i]) {
			t.Errorf("%s has %s, the log %s", a.who, a.entries[i].Raw, log[i].Raw)
			return
		}
	}
}
