package inbound

import (
	"time"

	"mailroom/channel/chat"
)

// join says how long messages wait for more of their user: the lines of one thought, a comment and what it forwards,
// the pieces of a text that the client cut.
type join struct {
	usual time.Duration // [chat.AccessPolicy].Join
	caps  chat.Capabilities
}

// cutJoin is how long a text waits that the client has probably cut: the rest takes longer than the next line of a
// burst, because it is as long.
const cutJoin = 3 * time.Second

// of returns how long a message with a text waits. A text is probably cut if it is nearly as long as a message of the
// platform can be; clients cut before the last word. The limit is that of the bot's messages, which is that of people
// or below it: to wait in vain costs two seconds.
func (j join) of(text string) time.Duration {
	most := j.caps.MaxUnits
	if j.usual == 0 || most == 0 || j.caps.Units(text) < most-most/16 {
		return j.usual
	}
	return max(j.usual, cutJoin)
}
