// Package alert tells people what happens on a server, wherever they are, and lets them decide.
//
// A [Rule] says what is told to whom. A [Follower] reads the log of all threads behind the commits and
// compares it with the rules. What a rule tells becomes a run in the thread of a target, whose agent
// ([Agent]) sends it: retries, order and dead letters of alerts are those of any run, and there is no
// second queue. The runs and the follower's position commit together, so each event is told once.
//
// What is sent contains links ([Link]) that decide one ticket. They are signed, not stored.
package alert

import (
	"encoding/json"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/reserved"
)

// Kind says what an alert is about.
type Kind string

const (
	KindTicket  Kind = "ticket"  // an agent asks for an approval or an answer
	KindFailed  Kind = "failed"  // a run failed for good
	KindChannel Kind = "channel" // a channel is not connected, or is again
	KindPaused  Kind = "paused"  // an agent was paused
	KindOutage  Kind = "outage"  // runs of an agent wait because what it needs is unavailable, or do not any more
	KindDigest  Kind = "digest"  // what happened since the last digest

	// Not in rules.
	KindReply Kind = "reply" // of a thread that delivers to a target, or the end of its run
	KindTest  Kind = "test"  // an operator tests a target
)

// Kinds returns the kinds of rules.
func Kinds() []Kind {
	return []Kind{KindTicket, KindFailed, KindChannel, KindPaused, KindOutage, KindDigest}
}

// Text says how much of what agents and users wrote leaves the server.
type Text string

const (
	TextNone  Text = "none"  // only that something happened, and where
	TextTitle Text = "title" // the first line
	TextFull  Text = "full"  // all that a target can show
)

// Texts returns the values of Text.
func Texts() []Text { return []Text{TextNone, TextTitle, TextFull} }

// Alert is what a run in the thread of a target tells. It is the data of the run's message. What may
// change until it is sent, such as whether a ticket is open, is read then.
type Alert struct {
	Kind Kind   `json:"kind"`
	Rule string `json:"rule,omitempty"`
	// Then are the targets that take over, one after the other, when this one is down.
	Then []string  `json:"then,omitempty"`
	Text Text      `json:"text"`
	At   time.Time `json:"at"` // of the event, or of the first one; the start of the period of a digest
	// Until is the end of the period of a digest, exclusive. Zero: an older version made it.
	Until time.Time `json:"until,omitzero"`
	// Count is the number of events that are told together.
	Count int `json:"count"`
	// Zone is the time zone of the person, as in the IANA database.
	Zone string `json:"zone,omitempty"`

	Agent  string `json:"agent,omitempty"`
	Thread string `json:"thread,omitempty"`
	Run    string `json:"run,omitempty"`
	Ticket string `json:"ticket,omitempty"` // with Count 1
	// Tickets are those that are told together. Nil: there is one, or more than maxListed.
	Tickets []string `json:"tickets,omitempty"`
	Channel string   `json:"channel,omitempty"`
	Ended   bool     `json:"ended,omitempty"` // of KindChannel: it is connected again; of KindOutage: it is over
	// Repeated says that another target may have told it.
	Repeated bool `json:"repeated,omitempty"`
	// Words are the error, the reason or the reply, cut to MaxWords bytes.
	Words string `json:"words,omitempty"`
	// Owner is the owner of the threads of events that are told together; "": of any.
	Owner string `json:"owner,omitempty"`
	// RuleOf is the owner of Rule if it is stored. "": it is of the configuration, or an older version made the alert.
	RuleOf string `json:"rule_of,omitempty"`
	// Delivery is the run that tells the event by itself, because its thread delivers to the target. The alert is
	// sent only if that run did not.
	Delivery string `json:"delivery,omitempty"`
}

// MaxWords bounds Alert.Words, in bytes.
const MaxWords = 2000

// AgentName returns the name of the agent that sends the alerts of a target. A configuration cannot
// define an agent with this name.
func AgentName(target string) string { return prefix + target }

const (
	prefix    = reserved.Alert
	originVia = "alert" // of runs that the server submits; a client cannot set it
)

// IsAgent reports whether an agent sends alerts.
func IsAgent(agent string) bool { return strings.HasPrefix(agent, prefix) }

// ThreadID returns the thread of a target.
func ThreadID(target string) string { return AgentName(target) }

// SubscriberID returns the thread that delivers replies of a token's threads to a target. It belongs to the token,
// because a run sends to threads of its owner only, and names the row of the token, see [Rights.Place].
func SubscriberID(target, owner, row string) string { return reserved.AlertPlaceID(target, owner, row) }

// Parts returns the message of an alert's run.
func (a Alert) Parts() []mailroom.Part {
	data, err := json.Marshal(a)
	if err != nil {
		panic("encode an alert: " + err.Error()) // it has texts, numbers and times only: a bug
	}
	return []mailroom.Part{{Type: "data", Data: data}}
}
