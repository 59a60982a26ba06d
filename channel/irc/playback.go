package irc

import (
	"slices"
	"strconv"
	"time"

	"mailroom/internal/digest"
)

// playback recognizes what a bouncer repeats from its buffers when the bot connects: lines in a batch of the
// history, and lines that are older than the connection. The reader owns it.
//
// A line in a batch of the history is left out, because bouncers repeat a whole buffer. An old line outside one is
// compared with what the channel has stored: it counts only if it is newer than the last message that the channel
// has handled, and its key is new. Without a stored position there is nothing to compare with, and it counts.
type playback struct {
	since   time.Time       // time of the last message handled before this connection; zero: no such message
	latest  time.Time       // time of the last message so far
	offset  time.Duration   // offset of the server's clock from ours
	synced  bool            // offset is known
	batches map[string]bool // open batches by reference: whether they are history

	// Of the lines with the latest time: how often each occurred, so that two equal ones are two messages, also
	// when they are played back.
	tagged string
	counts map[string]int
}

const (
	maxClockSkew = 2 * time.Minute
	maxBatches   = 100
)

// syncClock takes the server's clock from a line that no buffer repeats.
func (p *playback) syncClock(m *message, now time.Time) {
	if t, ok := taggedTime(m); ok && !p.synced && m.Command != "PRIVMSG" && m.Command != "NOTICE" && m.tag("batch") == "" {
		p.offset, p.synced = t.Sub(now), true
	}
}

// onBatch handles the start or the end of a batch. A batch within a batch of the history is one too.
func (p *playback) onBatch(m *message) {
	ref := m.param(0)
	if len(ref) < 2 {
		return
	}
	if ref[0] == '-' {
		delete(p.batches, ref[1:])
		return
	}
	if len(p.batches) >= maxBatches { // the server begins batches and ends none of them
		clear(p.batches)
	}
	if p.batches == nil {
		p.batches = map[string]bool{}
	}
	p.batches[ref[1:]] = slices.Contains([]string{"chathistory", "draft/chathistory", "znc.in/playback"}, m.param(1)) ||
		p.batches[m.tag("batch")]
}

// isRepeated reports whether a message was played back and is not new.
func (p *playback) isRepeated(m *message, connectedAt time.Time) bool {
	if p.batches[m.tag("batch")] {
		return true
	}
	t, ok := taggedTime(m)
	return ok && p.isOld(t, connectedAt) && !p.since.IsZero() && !t.After(p.since)
}

func (p *playback) isOld(t, connectedAt time.Time) bool {
	return t.Before(connectedAt.Add(p.offset - maxClockSkew))
}

// position returns the time up to which messages are handled once a message of time t is. A message from before the
// connection moves that time only if no position is stored, because the buffers of several rooms are repeated one
// after the other.
func (p *playback) position(t, connectedAt time.Time) string {
	if t.After(p.latest) && (p.since.IsZero() || !p.isOld(t, connectedAt)) {
		p.latest = t
	}
	return p.latest.UTC().Format(time.RFC3339Nano)
}

// resume sets the position from which the connection continues.
func (p *playback) resume(position string) {
	if t, err := time.Parse(time.RFC3339Nano, position); err == nil {
		p.since, p.latest = t, t
	}
}

// taggedKey returns the key of a message by its time, its author, its target and its text, which are the same when
// it is played back.
func (p *playback) taggedKey(m *message, t time.Time, author, target string) string {
	at := t.UTC().Format(time.RFC3339Nano)
	if p.tagged != at {
		p.tagged, p.counts = at, map[string]int{}
	}
	line := digest.ID("irc", "time", at, author, target, m.trailing())
	p.counts[line]++
	if n := p.counts[line]; n > 1 {
		return digest.ID("irc", line, strconv.Itoa(n))
	}
	return line
}

// taggedTime returns the server's time of a message. It reports false without one.
func taggedTime(m *message) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, m.tag("time"))
	return t, err == nil
}
