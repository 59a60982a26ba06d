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
		{"poll", "How long the homeserver may hold a sync request open. Without an answer in this time plus 15s the connection counts as broken.", duration(&x.Poll, time.Second, 50*time.Second)},
		{"gap", "Minimum time between two messages to a room.", duration(&x.Gap, 10*time.Millisecond, time.Minute)},
		{"edit_gap", "Minimum time between two edits of a preview.", duration(&x.EditGap, 10*time.Millisecond, 10*time.Minute)},
	}
}

func (x *Matrix) missing(c *Channel) string {
	if x.Homeserver == "" {
		return `missing homeserver; set one such as homeserver = "https://matrix.example.org"`
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
