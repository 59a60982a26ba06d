package inbound

import (
	"time"

	"mailroom/channel/chat"
)

// join says how long messages wait for more of their user: the lines of one thought, a comment and what it forwards,
// the pieces of a text that the client cut.
//
// Files need one thing more. Public bug reports describe albums whose pieces took 5 and 11 s to
// download: an agent got the first one. What counts is the arrival, not the download: the backlog
// of a conversation, which is durable, downloads the files of all messages that belong together,
// waits as long for a further one, and then submits them one right after the other.
//
// The mention of the bot is in one piece of an album only. That it addressed the bot is stored with
// the conversation, for the pieces after it; the pieces before it are in memory, because nothing of
// a group that is not for the bot is stored.
type join struct {
	usual time.Duration // [chat.AccessPolicy].Join
	caps  chat.Capabilities
}

// belongs reports whether a message that waits for its files belongs to the one before it: they are pieces of an album,
// or came at the pace of a burst.
func (j join) belongs(before, next *waitingEvent) bool {
	a, b := &before.event, &next.event
	if a.User.ID != b.User.ID || a.Room != b.Room {
		return false
	}
	return a.Album != "" && a.Album == b.Album || j.usual > 0 && next.arrived.Sub(before.arrived) <= j.usual
}

// writtenSlack is by how much the clock of a platform may be ahead.
const writtenSlack = time.Second

// believed returns the time at which a message was written, or zero if that time is in the future and so cannot be
// true: on Matrix and some IRC networks, servers of strangers set it. With zero, the time at which the message is
// read counts. A time in the past may be true, after an outage, and a wrong one only separates messages of its own
// author.
func believed(written, now time.Time) time.Time {
	if written.Year() < 2000 || written.After(now.Add(writtenSlack)) {
		return time.Time{}
	}
	return written.UTC()
}

// cutJoin is how long a text waits that the client has probably cut: the cut part takes longer than
// the next line of a burst, because it is as long.
const cutJoin = 3 * time.Second

// of returns how long a message with a text waits. A piece of an album waits for the others even if nothing else waits.
// The client has probably cut a text that is nearly as long as a message of the platform can be: clients cut before the
// last word. The limit is the one for the bot's messages, which is at most the one for people's messages. To wait in
// vain costs two seconds.
func (j join) of(e *event, text string) time.Duration {
	if e.Album != "" {
		return max(j.usual, chat.DefaultJoin)
	}
	most := j.caps.MaxUnits
	if j.usual == 0 || most == 0 || j.caps.Units(text) < most-most/16 {
		return j.usual
	}
	return max(j.usual, cutJoin)
}
