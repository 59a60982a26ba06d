package irc

import (
	"fmt"
	"strings"
	"time"

	"mailroom/channel"
)

// longestJoinPause bounds the pause between two JOINs of one channel, and is the pause
// after an answer that does not change by itself.
const longestJoinPause = time.Hour

// settled is how long the bot must have been in a channel for a KICK not to count as one
// more refusal.
const settled = 10 * time.Minute

// membership is a channel that the bot is to be in, and how far that got. A channel that
// lets the bot out or not in concerns no other one.
type membership struct {
	name, key string

	// Owned by the connection's mu.
	refusals int       // JOINs in a row after which the bot did not stay
	next     time.Time // no JOIN before
	joined   time.Time // when it came in
	why      string    // it is not in, as the status shows it; "" if it is, or nothing is known
}

// joinPause is how long to wait after so many refusals in a row: first, doubled each
// time, up to an hour. A forward (470) and a name that the server never takes (403, 476,
// 479) wait an hour at once. Meanings of numerics: RFC 2812, section 5.2, and
// https://modern.ircdocs.horse/#numerics; of 470, which is not in them,
// https://defs.ircdocs.horse/defs/numerics.
func joinPause(first time.Duration, refusals int, numeric string) time.Duration {
	switch numeric {
	case "403", "470", "476", "479":
		return longestJoinPause
	}
	pause := first
	for n := 1; n < refusals && pause < longestJoinPause; n++ {
		pause *= 2
	}
	return min(pause, longestJoinPause)
}

// joinRefusal reports whether a numeric says that a channel does not let the bot in.
func joinRefusal(numeric string) bool {
	switch numeric {
	case "403", "405", "437", "470", "471", "473", "474", "475", "476", "477", "479", "489", "520":
		return true
	}
	return false
}

// join asks for the channels that the bot is not in and may be asked for now. A JOIN
// without an answer counts as refused.
func (c *connection) join(now time.Time) error {
	c.mu.Lock()
	var lines []string
	for _, m := range c.channels {
		if !c.in[c.fold(m.name)] && !now.Before(m.next) {
			lines = append(lines, strings.TrimSpace("JOIN "+m.name+" "+m.key))
			m.refusals++
			m.next = now.Add(joinPause(c.options.Fresh/2, m.refusals, ""))
		}
	}
	c.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	return c.wire.write(lines...)
}

// membership is that of a channel; nil if the bot is not to be there. Within mu.
func (c *connection) membership(channel string) *membership {
	for _, m := range c.channels {
		if c.fold(m.name) == c.fold(channel) {
			return m
		}
	}
	return nil
}

// came notes that the bot is in a channel; within mu. One that no one has asked for is
// where another channel forwards to: the bot leaves it, because the configuration says
// in which channels it listens.
func (c *connection) came(channel string, now time.Time) error {
	m := c.membership(channel)
	if m == nil {
		return c.wire.write("PART " + channel)
	}
	c.in[c.fold(channel)] = true
	m.joined, m.why = now, ""
	c.tellMemberships()
	return nil
}

// left notes that the bot is not in a channel any more; within mu.
func (c *connection) left(channel, why string, now time.Time) {
	delete(c.in, c.fold(channel))
	m := c.membership(channel)
	if m == nil {
		return // it was never to be there
	}
	if now.Sub(m.joined) >= settled {
		m.refusals = 1
	}
	m.next = now.Add(joinPause(c.options.Fresh/2, m.refusals, ""))
	m.why = "was put out: " + why
	c.link.ReportError(fmt.Errorf("the bot was put out of %s: %s", channel, why))
	c.tellMemberships()
}

// notLetIn notes that a channel does not let the bot in; within mu.
func (c *connection) notLetIn(m *message, now time.Time) {
	of := c.membership(m.param(1))
	if of == nil || c.in[c.fold(of.name)] {
		return
	}
	of.next = now.Add(joinPause(c.options.Fresh/2, of.refusals, m.Command))
	why := fmt.Sprintf("%s (%s)", words(m), m.Command)
	if m.Command == "470" {
		why = fmt.Sprintf("forwards to %s (470), which join does not name", plain(m.param(2)))
	}
	if of.why != why { // the same refusal again is no news
		c.link.ReportError(fmt.Errorf("the channel %s does not let the bot in (%s): %s", of.name, m.Command, why))
	}
	of.why = why
	c.tellMemberships()
}

// tellMemberships shows which channels the bot is not in, and why; within mu.
func (c *connection) tellMemberships() {
	var out []string
	for _, m := range c.channels {
		if m.why != "" && !c.in[c.fold(m.name)] {
			out = append(out, m.name+": "+m.why)
		}
	}
	held := ""
	if len(out) > 0 {
		held = "the bot is not in " + strings.Join(out, "; ")
	}
	c.link.ReportProgress(channel.Progress{Blocked: held})
}
