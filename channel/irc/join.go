package irc

import (
	"fmt"
	"strings"
	"time"

	"mailroom/channel"
)

// maxJoinDelay bounds the delay between two JOINs of a channel. It is also the delay after a
// permanent refusal.
const maxJoinDelay = time.Hour

// stableMembership is the time in a channel after which a KICK starts a new series of refusals.
const stableMembership = 10 * time.Minute

// membership is the state of a channel that the bot should be in. Refusals of one channel do not
// affect the others.
type membership struct {
	name, key string

	// Owned by the connection's mu.
	refusals int       // consecutive JOINs after which the bot did not stay
	nextJoin time.Time // earliest time of the next JOIN
	joinedAt time.Time // start of the membership
	reason   string    // reason the bot is not in the channel, for the status; "" if unknown
}

// joinDelay returns the delay after a number of consecutive refusals: first, doubled each time, at
// most an hour. A forward (470) and an invalid name (403, 476, 479) wait an hour at once. For the
// numerics see RFC 2812, section 5.2, and https://modern.ircdocs.horse/#numerics; for 470
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

// isJoinRefusal reports whether a numeric refuses a JOIN.
func isJoinRefusal(numeric string) bool {
	switch numeric {
	case "403", "405", "437", "470", "471", "473", "474", "475", "476", "477", "479", "489", "520":
		return true
	}
	return false
}

// joinChannels sends a JOIN for each missing channel whose delay has passed. A JOIN without a reply
// counts as refused.
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

// membership returns the state of a channel, or nil if it is not configured. The caller holds mu.
func (c *connection) membership(channel string) *membership {
	for _, m := range c.channels {
		if c.fold(m.name) == c.fold(channel) {
			return m
		}
	}
	return nil
}

// onJoined records that the bot is in a channel. The caller holds mu. The bot leaves a channel that
// is not configured, such as the target of a forward.
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

// onLeft records that the bot is no longer in a channel. The caller holds mu.
func (c *connection) onLeft(channel, reason string, now time.Time) {
	delete(c.joined, c.fold(channel))
	m := c.membership(channel)
	if m == nil {
		return // the channel is not configured
	}
	if now.Sub(m.joinedAt) >= stableMembership {
		m.refusals = 1
	}
	m.nextJoin = now.Add(joinDelay(c.options.Fresh/2, m.refusals, ""))
	m.reason = "removed: " + reason
	c.host.ReportError(fmt.Errorf("the bot was removed from %s: %s", channel, reason))
	c.reportMemberships()
}

// onJoinRefused records a refused JOIN. The caller holds mu.
func (c *connection) onJoinRefused(m *message, now time.Time) {
	of := c.membership(m.param(1))
	if of == nil || c.joined[c.fold(of.name)] {
		return
	}
	of.nextJoin = now.Add(joinDelay(c.options.Fresh/2, of.refusals, m.Command))
	reason := fmt.Sprintf("%s (%s)", reasonText(m), m.Command)
	if m.Command == "470" {
		reason = fmt.Sprintf("forwards to %s (470), which is not in join", plainText(m.param(2)))
	}
	if of.reason != reason { // report a repeated refusal once
		c.host.ReportError(fmt.Errorf("channel %s refused the bot (%s): %s", of.name, m.Command, reason))
	}
	of.reason = reason
	c.reportMemberships()
}

// reportMemberships reports the channels that the bot is not in, with reasons. The caller holds mu.
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
