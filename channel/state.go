package channel

import (
	"time"
	"unicode/utf8"
)

// Condition is the connection state of a channel.
type Condition string

const (
	ConditionStarting  Condition = "starting"  // the channel had no success and no failure yet
	ConditionConnected Condition = "connected" // the last success of the channel is fresh
	ConditionSilent    Condition = "silent"    // no error, but no success within IdleTimeout; reconnecting
	ConditionQueued    Condition = "queued"    // failed; a retry is scheduled
	// many attempts in a row failed; retries every ReconnectPolicy.ProbeInterval
	ConditionParked Condition = "parked"
	ConditionGaveUp Condition = "gave_up" // ReconnectPolicy.GiveUpAfter attempts in a row failed; no retry
	// refused for good as far as known, such as for a bad token; retries every ReconnectPolicy.ProbeInterval
	ConditionFailed  Condition = "failed"
	ConditionStandby Condition = "standby" // another server runs the channel
)

// Conditions returns all conditions.
func Conditions() []Condition {
	var all []Condition
	for _, d := range Descriptions() {
		all = append(all, d.Condition)
	}
	return all
}

// Alive reports whether the channel is connected, is expected to connect by itself, or is left to another server.
func (c Condition) Alive() bool { return c != ConditionGaveUp && c != ConditionFailed }

// State is a snapshot of a channel. A zero time means never.
type State struct {
	Name      string
	Kind      string
	Condition Condition
	Since     time.Time // start of the condition
	Reason    string    // why it is not connected, or what blocks a connected channel

	Adapter    int // number of adapters created
	Stranded   int // abandoned adapters that still run
	Attempts   int // failed attempts in a row
	NextTry    time.Time
	Reconnects int

	ConnectedSince time.Time
	Downtime       time.Duration // total since the process started

	LastSuccess  time.Time // last proof that the channel receives
	LastError    string
	LastErrorAt  time.Time
	LastInbound  time.Time
	LastOutbound time.Time // last message that the platform accepted
	Progress
}

// Progress is an adapter's own report of its progress.
type Progress struct {
	Cursor  string // cursor in a readable form
	Lag     *int   // unread messages at the platform; nil: unknown
	Unacked int    // read messages that are not acknowledged
	Blocked string // why a connected adapter has stopped reading; "" if it reads
}

// Change is a change of a channel's condition. Its JSON is the body of the log entry.
type Change struct {
	Channel  string     `json:"channel"`
	State    Condition  `json:"state"`
	Was      Condition  `json:"was,omitempty"` // condition before; "" at the start of the process
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	NextTry  *time.Time `json:"next_try,omitempty"`
	Adapter  int        `json:"adapter,omitempty"` // number of adapters created
	At       time.Time  `json:"at"`
}

// truncateError bounds the text of an error.
func truncateError(err error) string {
	const most = 500
	text := err.Error()
	if len(text) <= most {
		return text
	}
	cut := most
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
