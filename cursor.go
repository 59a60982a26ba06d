package mailroom

import (
	"encoding/json"
	"time"
)

// Cursor is the row that records how far a channel has read its platform. It moves in the
// transaction of the submits it covers, so a platform message is either in a thread or read again.
type Cursor struct {
	Channel  string          // name of the channel
	Identity string          // account on the platform; a cursor is valid for this account only
	Position json.RawMessage // format of the channel, at most MaxPosition bytes
	MovedAt  time.Time       // set by the transaction that writes it
}

// CheckCursor validates c.
func CheckCursor(c *Cursor) error {
	if c.Channel == "" || !cleanText(c.Channel+c.Identity) {
		return invalid("cursor", "needs the name of a channel, without NUL", c.Channel)
	}
	return checkJSON("position", c.Position, MaxPosition)
}
