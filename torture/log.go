package main

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"mailroom"
)

// threadLog has all entries of a thread that any reader has seen. Every reader must see the same.
type threadLog struct {
	thread  string
	torture *torture

	mu         sync.Mutex
	entries    []mailroom.Entry // owned by mu: entries[0] is seq 1
	seen       []time.Time      // owned by mu: when each was first seen
	state      *threadState     // owned by mu
	incomplete bool             // owned by mu: entries were purged before they were read
}

// log returns the log of a thread, and creates it at the first call.
func (t *torture) log(thread string) *threadLog {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.logs[thread]
	if l == nil {
		l = &threadLog{thread: thread, torture: t, state: newThreadState(thread)}
		t.logs[thread] = l
	}
	return l
}

// strict reports whether an effect with an unknown outcome may be repeated only after a person
// decides so. These are the effects named once of the torture agent and send-1 of the tour agent.
func strict(effect string) bool {
	return strings.HasPrefix(effect, "once") || effect == "send-1"
}

// add adds an entry that a reader has seen. If the entry is known already, add compares it with the known one.
func (l *threadLog) add(e mailroom.Entry, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.incomplete {
		return
	}
	n := int64(len(l.entries))
	switch {
	case e.Seq < 1 || e.Seq > n+1:
		l.torture.violation(l.thread, "%s read entry %d of thread %s, but only %d entries are known", by, e.Seq, l.thread, n)
	case e.Seq <= n:
		if known := l.entries[e.Seq-1]; !same(known, e) {
			l.torture.violation(l.thread, "%s read entry %d of thread %s as %s, but it was %s", by, e.Seq, l.thread,
				e.Raw, known.Raw)
		}
	default:
		l.entries, l.seen = append(l.entries, e), append(l.seen, time.Now())
		for _, what := range l.state.add(e) {
			l.torture.violation(l.thread, "%s", what)
		}
	}
}

func same(a, b mailroom.Entry) bool {
	return a.Seq == b.Seq && a.Kind == b.Kind && a.Run == b.Run && a.Attempt == b.Attempt && a.At.Equal(b.At) &&
		bytes.Equal(a.Body, b.Body)
}

// length returns the number of known entries.
func (l *threadLog) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

// setIncomplete ends the checks of a log from which entries were purged before they were read.
func (l *threadLog) setIncomplete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incomplete = true
}

func (l *threadLog) isIncomplete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.incomplete
}

// inspect calls f with the state of the log. No entry is added while f runs.
func (l *threadLog) inspect(f func(*threadState)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.state)
}

// tail returns the last n entries as lines. The caller may hold the log's lock, so tail reads without the lock if it
// cannot get it.
func (l *threadLog) tail(n int) []string {
	if l.mu.TryLock() {
		defer l.mu.Unlock()
	}
	var lines []string
	for _, e := range l.entries[max(0, len(l.entries)-n):] {
		lines = append(lines, string(e.Raw))
	}
	return lines
}

// busy reports whether a thread has too many waiting runs for more load.
func (t *torture) busy(thread string) bool {
	const many = 25
	return t.waiting(thread) > many
}

// waiting counts the runs of a thread that wait for their start.
func (t *torture) waiting(thread string) (n int) {
	t.log(thread).inspect(func(s *threadState) { n = len(s.queue) })
	return n
}
