// Package alert notifies people of what happens on a server, wherever they are, and lets them decide.
//
// A [Rule] names the kinds of events and the targets that get alerts about them. A [Follower] reads the log of all
// threads after each commit and applies the rules to it. An alert is a run in the thread of a target, and the
// target's agent ([Agent]) sends it. So alerts have the retries, the order and the dead letters of runs and need no
// second queue. The runs and the follower's position commit together, so each event causes one alert.
//
// An alert about a ticket contains a link ([Link]) that decides this ticket. Links are signed, not stored.
package alert

import (
	"encoding/json"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/reserved"
)

// Kind names the kind of event that an alert is about.
type Kind string

const (
	KindTicket  Kind = "ticket"  // an agent asks for an approval or an answer
	KindFailed  Kind = "failed"  // a run failed for good
	KindChannel Kind = "channel" // a channel is disconnected, or is connected again
	KindPaused  Kind = "paused"  // an agent was paused
	KindOutage  Kind = "outage"  // runs of an agent wait because what the agent needs is unavailable, or this is over
	KindBudget  Kind = "budget"  // 80 % of the budget of a day, a month or a run are used
	// KindSchedule: a schedule paused itself, because its runs failed or its token ended
	KindSchedule Kind = "schedule"
	KindDigest   Kind = "digest" // what happened since the last digest

	// Kinds that no rule can name.
	KindReply Kind = "reply" // a reply in a thread that delivers to a target, or how the run ended
	KindTest  Kind = "test"  // an operator tests a target
)

// Kinds returns the kinds of rules.
func Kinds() []Kind {
	return []Kind{KindTicket, KindFailed, KindChannel, KindPaused, KindOutage, KindBudget, KindSchedule, KindDigest}
}

// Text says how much of what agents and users wrote leaves the server.
type Text string

const (
	TextNone  Text = "none"  // the alert says only that something happened, and where
	TextTitle Text = "title" // the alert has the first line of the text
	TextFull  Text = "full"  // all that a target can show
)

// Texts returns the values of Text.
func Texts() []Text { return []Text{TextNone, TextTitle, TextFull} }

// Alert is the content of a run in the thread of a target, stored as the data of the run's message. The agent
// reads what may change, such as whether a ticket is open, when it sends the alert.
type Alert struct {
	Kind Kind   `json:"kind"`
	Rule string `json:"rule,omitempty"`
	// Then are the fallback targets, in order, that get the alert if its target is down.
	Then []string  `json:"then,omitempty"`
	Text Text      `json:"text"`
	At   time.Time `json:"at"` // time of the event, or of the first one; for a digest, the start of its period
	// Until is the end of the period of a digest, exclusive. Zero: an older version made it.
	Until time.Time `json:"until,omitzero"`
	// Count is the number of events that the alert combines.
	Count int `json:"count"`
	// Zone is the time zone of the person, as in the IANA database.
	Zone string `json:"zone,omitempty"`

	Agent  string `json:"agent,omitempty"`
	Thread string `json:"thread,omitempty"`
	Run    string `json:"run,omitempty"`
	Ticket string `json:"ticket,omitempty"` // ticket of the alert, if Count is 1
	// Tickets are the tickets that the alert combines. Nil: there is one ticket, or there are more than maxListed.
	Tickets []string `json:"tickets,omitempty"`
	Channel string   `json:"channel,omitempty"`
	Ended   bool     `json:"ended,omitempty"` // of KindChannel: it is connected again; of KindOutage: it is over
	// Repeated says that another target may have sent the alert.
	Repeated bool `json:"repeated,omitempty"`
	// Reminder is how often people were reminded of the questions, with this alert; 0: it is the first one about them.
	Reminder int `json:"reminder,omitempty"`
	// Again is how long after the alert people are reminded of what is still open, not in the hours of Quiet; 0: never.
	Again time.Duration `json:"again,omitempty"`
	Quiet string        `json:"quiet,omitempty"` // as ParseQuiet reads it
	// Words are the error, the reason or the reply, cut to MaxWords bytes.
	Words string `json:"words,omitempty"`
	// Host is the machine of the worker alone for which an agent is paused.
	Host string `json:"host,omitempty"`
	// Owner is the owner of the threads of all events that the alert combines. It is "" if they may have different
	// owners.
	Owner string `json:"owner,omitempty"`
	// RuleOf is the owner of Rule, if the rule is stored. It is "" if the rule is in the configuration, or if an
	// older version made the alert.
	RuleOf string `json:"rule_of,omitempty"`
	// Delivery is the run that delivers the event to the target, because the thread of the event delivers there.
	// The alert is sent only if this run did not complete.
	Delivery string `json:"delivery,omitempty"`
}

// MaxWords bounds Alert.Words, in bytes.
const MaxWords = 2000

// AgentName returns the name of the agent that sends the alerts of a target. A configuration cannot
// define an agent with this name.
func AgentName(target string) string { return prefix + target }

const (
	prefix    = reserved.Alert
	originVia = "alert" // origin of runs that the server submits; a client cannot set it
)

// IsAgent reports whether an agent sends alerts.
func IsAgent(agent string) bool { return strings.HasPrefix(agent, prefix) }

// ThreadID returns the id of a target's thread.
func ThreadID(target string) string { return AgentName(target) }

// SubscriberID returns the id of the thread that delivers the replies of a token's threads to a target. The thread
// belongs to the token, because a run may send only to threads of its owner. The id names the row of the token, see
// [Rights.Place].
func SubscriberID(target, owner, row string) string { return reserved.AlertPlaceID(target, owner, row) }

// Parts returns the message of an alert's run.
func (a Alert) Parts() []mailroom.Part {
	data, err := json.Marshal(a)
	if err != nil {
		panic("encode an alert: " + err.Error()) // cannot fail: an alert has texts, numbers and times only
	}
	return []mailroom.Part{{Type: "data", Data: data}}
}
