package channel

import (
	"time"
	"unicode/utf8"
)

// Condition is what is known about a channel.
type Condition string

const (
	ConditionStarting  Condition = "starting"  // it was never heard, and has not failed yet
	ConditionConnected Condition = "connected" // its last evidence is fresh
	ConditionSilent    Condition = "silent"    // nothing failed, but its evidence was not fresh any more; it reconnects
	ConditionQueued    Condition = "queued"    // it failed and is tried again
	ConditionParked    Condition = "parked"    // many attempts in a row failed; it retries every Pace.Probe
	ConditionGaveUp    Condition = "gave_up"   // Pace.GiveUpAfter attempts in a row failed; no retry
	ConditionFailed    Condition = "failed"    // a retry does not help; after a panic of the supervisor it retries all the same
)

// Conditions returns all conditions.
func Conditions() []Condition {
	var all []Condition
	for _, d := range Descriptions() {
		all = append(all, d.Condition)
	}
	return all
}

// Alive reports whether the channel is connected or may be again by itself.
func (c Condition) Alive() bool { return c != ConditionGaveUp && c != ConditionFailed }

// State is what there is to say about a channel. Zero times: never.
type State struct {
	Name      string
	Kind      string
	Condition Condition
	Since     time.Time // of the condition
	Reason    string    // why it is not connected, or what keeps it; "" if nothing does

	Adapter    int // how many were made
	Stranded   int // that were told to end and have not
	Attempts   int // failed tries in a row
	NextTry    time.Time
	Reconnects int

	ConnectedSince time.Time
	Downtime       time.Duration // in all, since the process began

	LastSuccess  time.Time // evidence
	LastError    string
	LastErrorAt  time.Time
	LastInbound  time.Time
	LastOutbound time.Time // the platform took something
	Progress
}

// Progress is how far an adapter is, as it says.
type Progress struct {
	Cursor  string // as people read it
	Lag     *int   // arrivals that the platform has and were not read; nil: it does not say
	Unacked int    // arrivals that the platform was not told to be done
	Blocked string // what keeps a connected one from reading on; "" if nothing does
}

// Change is a change of a channel's condition. Its JSON is the body of the entry
// that tells of it.
type Change struct {
	Channel  string     `json:"channel"`
	State    Condition  `json:"state"`
	Was      Condition  `json:"was,omitempty"` // "" when its process began
	Reason   string     `json:"reason,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	NextTry  *time.Time `json:"next_try,omitempty"`
	Adapter  int        `json:"adapter,omitempty"` // how many were made
	At       time.Time  `json:"at"`
}

// truncateError bounds what is kept of an error.
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
