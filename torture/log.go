package main

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/torture/internal/story"
)

// threadLog is everything that was ever seen of a thread's log, by whoever read
// it first. The others must see the same.
type threadLog struct {
	thread string
	home   *torture

	mu      sync.Mutex
	entries []mailroom.Entry // owned by mu: entries[0] is seq 1
	seen    []time.Time      // owned by mu: when each was first seen
	story   *story.Story     // owned by mu
	blind   bool             // owned by mu: a part was purged before anybody saw it
}

// log returns the log of a thread, and begins one.
func (t *torture) log(thread string) *threadLog {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.logs[thread]
	if l == nil {
		l = &threadLog{thread: thread, home: t, story: story.New(thread, strict)}
		t.logs[thread] = l
	}
	return l
}

// strict are the effects that only a decision repeats: the agent's "once", and
// the postcard of the tour.
func strict(effect string) bool {
	return strings.HasPrefix(effect, "once") || effect == "send-1"
}

// add takes an entry that somebody read: the next one, or one that is known.
func (l *threadLog) add(e mailroom.Entry, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blind {
		return
	}
	n := int64(len(l.entries))
	switch {
	case e.Seq < 1 || e.Seq > n+1:
		l.home.violation(l.thread, "%s read entry %d of thread %s, of which %d entries are known", by, e.Seq, l.thread, n)
	case e.Seq <= n:
		if known := l.entries[e.Seq-1]; !same(known, e) {
			l.home.violation(l.thread, "%s read entry %d of thread %s as %s, it was %s", by, e.Seq, l.thread, e.JSON(), known.JSON())
		}
	default:
		l.entries, l.seen = append(l.entries, e), append(l.seen, time.Now())
		for _, what := range l.story.Tell(e) {
			l.home.violation(l.thread, "%s", what)
		}
	}
}

func same(a, b mailroom.Entry) bool {
	return a.Seq == b.Seq && a.Kind == b.Kind && a.Run == b.Run && a.Attempt == b.Attempt && a.At.Equal(b.At) &&
		bytes.Equal(a.Body, b.Body)
}

// length is how many entries are known.
func (l *threadLog) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

// lose gives up on a log of which nobody saw a part.
func (l *threadLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blind = true
}

func (l *threadLog) isBlind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blind
}

// look calls f with the story, while nothing is added to it.
func (l *threadLog) look(f func(*story.Story)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.story)
}

// tail returns the last n entries as lines. Its caller may hold the lock of the
// log, so it takes what it can get.
func (l *threadLog) tail(n int) []string {
	if l.mu.TryLock() {
		defer l.mu.Unlock()
	}
	var lines []string
	for _, e := range l.entries[max(0, len(l.entries)-n):] {
		lines = append(lines, string(e.JSON()))
	}
	return lines
}

// busy reports whether so much waits in a thread that it should be let alone.
func (t *torture) busy(thread string) bool {
	const many = 25
	return t.waiting(thread) > many
}

// waiting counts the runs of a thread that wait for their start.
func (t *torture) waiting(thread string) (n int) {
	t.log(thread).look(func(s *story.Story) { n = s.Waiting() })
	return n
}
