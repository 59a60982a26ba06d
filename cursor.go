package mailroom

import (
	"encoding/json"
	"time"
)

// Cursor is the row of how far a channel has read its platform. It moves in the
// transaction of the submits it covers, so that what was read is in a thread or
// is read again.
type Cursor struct {
	Channel  string          // its name
	Identity string          // whose messages it reads there: a cursor is of no use to another
	Position json.RawMessage // the channel's own, at most MaxPosition bytes
	MovedAt  time.Time       // set when it is written
}

// Check refuses a Cursor that breaks a rule by itself.
func (c *Cursor) Check() error {
	if c.Channel == "" || !cleanText(c.Channel+c.Identity) {
		return invalid("cursor", "needs the name of a channel, and text without NUL", c.Channel)
	}
	return checkJSON("position", c.Position, MaxPosition)
}
