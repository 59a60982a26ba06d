package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
)

// KindMatrix is an account of Matrix.
const KindMatrix = matrix.Kind

// Matrix is an account.
type Matrix struct {
	Homeserver string
	Poll       time.Duration
	Gap        time.Duration
	EditGap    time.Duration
}

func newMatrix() *Matrix {
	return &Matrix{Poll: matrix.DefaultPoll, Gap: matrix.DefaultGap, EditGap: matrix.DefaultEditGap}
}

func (x *Matrix) settings() []setting {
	return []setting{
		{"homeserver", "Address of the homeserver of the bot's account.", serviceURL(&x.Homeserver)},
		{"poll", "How long the homeserver is to wait with its answer for something to happen. An answer is evidence for that long and up to 15s more.", duration(&x.Poll, time.Second, 50*time.Second)},
		{"gap", "Least time between two messages to one room.", duration(&x.Gap, 10*time.Millisecond, time.Minute)},
		{"edit_gap", "Least time between two edits of the message that shows what is being written.", duration(&x.EditGap, 10*time.Millisecond, 10*time.Minute)},
	}
}

func (x *Matrix) missing(c *Channel) string {
	if x.Homeserver == "" {
		return `it needs a homeserver, such as homeserver = "https://matrix.example.org"`
	}
	if _, err := matrix.CheckHomeserver(x.Homeserver); err != nil {
		return "homeserver: " + err.Error()
	}
	return missingToken(c)
}

// Dial implements [ChatPlatform].
func (x *Matrix) Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o := matrix.Options{Homeserver: x.Homeserver, Token: c.Token.Get, Poll: x.Poll, Gap: x.Gap, EditGap: x.EditGap}
	return o.Dial, o.ReconnectPolicy()
}
