package channel

import (
	"sync"
	"time"
	"unicode/utf8"
)

// record collects the evidence about one channel.
type record struct {
	fresh time.Duration // how long a success is evidence; set by newRecord

	// Owned by mu.
	mu     sync.Mutex
	state  State  // Condition is Starting, Queued or Failed; the others are derived
	held   string // what keeps a connected one from reading on
	heards int    // times it was heard
}

func newRecord(name, kind string, fresh time.Duration) *record {
	return &record{fresh: fresh, state: State{Name: name, Kind: kind, Condition: Starting}}
}

// at is the state at a moment.
func (r *record) at(now time.Time) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if s.Condition != Starting || s.LastSuccess.IsZero() {
		return s
	}
	s.Condition, s.Reason = Connected, r.held
	if silence := now.Sub(s.LastSuccess); silence > r.fresh {
		s.Condition, s.ConnectedSince = Silent, time.Time{}
		s.Reason = "nothing was heard for " + silence.Round(time.Second).String()
	}
	return s
}

// heard notes that the platform answered. It reports whether that is news.
func (r *record) heard(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	stale := now.Sub(s.LastSuccess) > r.fresh
	news := s.Condition != Starting || s.LastSuccess.IsZero()
	if news || stale {
		s.ConnectedSince = now
	}
	s.Condition, s.Reason, s.NextTry, s.Failures = Starting, "", time.Time{}, 0
	s.LastSuccess = now
	r.heards++
	return news
}

// failed notes an error after which the channel is tried again at next, or with
// zero never.
func (r *record) failed(err error, now, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	s.Failures++
	s.Condition, s.Reason, s.NextTry, s.ConnectedSince = Queued, short(err), next, time.Time{}
	if next.IsZero() {
		s.Condition = Failed
	}
	s.LastError, s.LastErrorAt = s.Reason, now
}

// successes counts how often the platform was heard.
func (r *record) successes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heards
}

func (r *record) trouble(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.LastError, r.state.LastErrorAt = short(err), now
}

func (r *record) inbound(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.LastInbound = now
}

func (r *record) outbound(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.LastOutbound = now
}

func (r *record) progress(cursor string, unhandled int, held string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Cursor, r.state.Unhandled, r.held = cursor, unhandled, held
}

// short bounds what is kept of an error.
func short(err error) string {
	const most = 500
	text := err.Error()
	if len(text) <= most {
		return text
	}
	cut := most
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
