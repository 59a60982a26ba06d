package irc

import (
	"fmt"
	"strings"
	"time"

	"mailroom/channel"
)

// maxJoinDelay bounds the pause between two JOINs of one channel, and is the pause
// after an answer that does not change by itself.
const maxJoinDelay = time.Hour

// stableMembership is how long the bot must have been in a channel for a KICK not to count as one
// more refusal.
const stableMembership = 10 * time.Minute

// membership is a channel that the bot is to be in, and how far that got. A channel that
// lets the bot out or not in concerns no other one.
type membership struct {
	name, key string

	// Owned by the connection's mu.
	refusals int       // JOINs in a row after which the bot did not stay
	nextJoin time.Time // no JOIN before
	joinedAt time.Time // when it came in
	reason   string    // it is not in, as the status shows it; "" if it is, or nothing is known
}

// joinDelay is how long to wait after so many refusals in a row: first, doubled each
// time, up to an hour. A forward (470) and a name that the server never takes (403, 476,
// 479) wait an hour at once. Meanings of numerics: RFC 2812, section 5.2, and
// https://modern.ircdocs.horse/#numerics; of 470, which is not in them,
// https://defs.ircdocs.horse/defs/numerics.
func joinDelay(first time.Duration, refusals int, numeric string) time.Duration {
	switch numeric {
	case "403", "470", "476", "479":
		return maxJoinDelay
	}
	pause := first
	for n := 1; n < refusals && pause < maxJoinDelay; n++ {
		pause *= 2
	}
	return min(pause, maxJoinDelay)
}

// isJoinRefusal reports whether a numeric says that a channel does not let the bot in.
func isJoinRefusal(numeric string) bool {
	switch numeric {
	case "403", "405", "437", "470", "471", "473", "474", "475", "476", "477", "479", "489", "520":
		return true
	}
	return false
}

// joinChannels asks for the channels that the bot is not in and may be asked for now. A JOIN
// without an answer counts as refused.
func (c *connection) joinChannels(now time.Time) error {
	c.mu.Lock()
	var lines []string
	for _, m := range c.channels {
		if !c.joined[c.fold(m.name)] && !now.Before(m.nextJoin) {
			lines = append(lines, strings.TrimSpace("JOIN "+m.name+" "+m.key))
			m.refusals++
			m.nextJoin = now.Add(joinDelay(c.options.Fresh/2, m.refusals, ""))
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

// onJoined notes that the bot is in a channel; within mu. One that no one has asked for is
// where another channel forwards to: the bot leaves it, because the configuration says
// in which channels it listens.
func (c *connection) onJoined(channel string, now time.Time) error {
	m := c.membership(channel)
	if m == nil {
		return c.wire.write("PART " + channel)
	}
	c.joined[c.fold(channel)] = true
	m.joinedAt, m.reason = now, ""
	c.reportMemberships()
	return nil
}

// onLeft notes that the bot is not in a channel any more; within mu.
func (c *connection) onLeft(channel, why string, now time.Time) {
	delete(c.joined, c.fold(channel))
	m := c.membership(channel)
	if m == nil {
		return // it was never to be there
	}
	if now.Sub(m.joinedAt) >= stableMembership {
		m.refusals = 1
	}
	m.nextJoin = now.Add(joinDelay(c.options.Fresh/2, m.refusals, ""))
	m.reason = "was put out: " + why
	c.host.ReportError(fmt.Errorf("the bot was put out of %s: %s", channel, why))
	c.reportMemberships()
}

// onJoinRefused notes that a channel does not let the bot in; within mu.
func (c *connection) onJoinRefused(m *message, now time.Time) {
	of := c.membership(m.param(1))
	if of == nil || c.joined[c.fold(of.name)] {
		return
	}
	of.nextJoin = now.Add(joinDelay(c.options.Fresh/2, of.refusals, m.Command))
	why := fmt.Sprintf("%s (%s)", reasonText(m), m.Command)
	if m.Command == "470" {
		why = fmt.Sprintf("forwards to %s (470), which join does not name", plainText(m.param(2)))
	}
	if of.reason != why { // the same refusal again is no news
		c.host.ReportError(fmt.Errorf("the channel %s does not let the bot in (%s): %s", of.name, m.Command, why))
	}
	of.reason = why
	c.reportMemberships()
}

// reportMemberships shows which channels the bot is not in, and why; within mu.
func (c *connection) reportMemberships() {
	var out []string
	for _, m := range c.channels {
		if m.reason != "" && !c.joined[c.fold(m.name)] {
			out = append(out, m.name+": "+m.reason)
		}
	}
	held := ""
	if len(out) > 0 {
		held = "the bot is not in " + strings.Join(out, "; ")
	}
	c.host.ReportProgress(channel.Progress{Blocked: held})
}
