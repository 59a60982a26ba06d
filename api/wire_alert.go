package api

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Alerts are the targets and the rules of a server's alerts.
type Alerts struct {
	Targets []Target    `json:"targets" doc:"Where alerts go, by name."`
	Rules   []AlertRule `json:"rules" doc:"Rules of alerts, by name."`
}

// Target is where alerts go.
type Target struct {
	Name      string     `json:"name" doc:"Unique in the server; rules name it."`
	Kind      string     `json:"kind" doc:"ntfy, email, webhook, push or chat."`
	Decide    bool       `json:"decide" doc:"Links in its alerts decide tickets."`
	Paused    bool       `json:"paused" doc:"Its alerts wait until the agent alert:NAME is resumed."`
	Waiting   int        `json:"waiting" doc:"Alerts that are not sent yet, counted up to 1,000, without those of a later time. An alert counts once for each subscriber that it waits for."`
	Oldest    *time.Time `json:"oldest" doc:"Time of the oldest of them."`
	LastError *string    `json:"last_error" doc:"Why it is not sent yet, or why the last alert was refused for good."`
}

// AlertRule selects events and the targets that get alerts about them.
type AlertRule struct {
	Name    string   `json:"name" example:"night" doc:"1 to 64 letters, digits, dots, dashes and underscores."`
	When    []string `json:"when" example:"ticket" nullable:"false" doc:"ticket, failed, channel, paused, outage, budget, schedule, digest."`
	To      []string `json:"to" example:"phone" nullable:"false" doc:"Targets: alerts go to the first one, the others are its fallbacks."`
	Agents  []string `json:"agents,omitempty" nullable:"false" doc:"Only about these agents; empty: all."`
	Threads []string `json:"threads,omitempty" nullable:"false" doc:"Only about threads whose ids begin with one of these; empty: all."`
	Text    string   `json:"text,omitempty" doc:"How much of what agents and users wrote is sent: none, title (the default) or full."`
	Quiet   string   `json:"quiet,omitempty" doc:"Hours without alerts, such as 22:00-07:00."`
	Digest  string   `json:"digest,omitempty" doc:"Time of the digest of a day, or a period such as 15m. Default: 08:00."`
	Outage  string   `json:"outage,omitempty" example:"" doc:"How long runs of an agent must wait because of an outage before the rule alerts, if when has it. Default: 5m."`
	Remind  string   `json:"remind_after,omitempty" example:"" doc:"After how long an open question is told again. Default: never."`
	Zone    string   `json:"zone,omitempty" doc:"Time zone of quiet and digest. Default: UTC."`
	Fixed   bool     `json:"fixed,omitempty" doc:"It is in the configuration, and cannot be changed here."`
}

// TestAlert makes a target send a test message.
type TestAlert struct {
	Target string `json:"target" minLength:"1" maxLength:"64" example:"phone" doc:"Name of the target."`
}

// TestedAlert names the run that sends a test message. Its end says whether the target took it.
type TestedAlert struct {
	Run string `json:"run" doc:"Id of the run that sends the message."`
}

// QuestionLink is a link of an alert.
type QuestionLink struct {
	Link string `json:"link" minLength:"1" maxLength:"400" doc:"The part behind # in the address of the link."`
}

// QuestionDecision decides the ticket of a link, once.
type QuestionDecision struct {
	Link     string           `json:"link" minLength:"1" maxLength:"400" doc:"The part behind # in the address of the link."`
	Decision mailroom.Verdict `json:"decision" enum:"approve,deny,answer" example:"deny" doc:"approve, deny: an approval; answer: input."`
	Answer   json.RawMessage  `json:"answer,omitempty" doc:"Required with the decision answer."`
	Reason   string           `json:"reason,omitempty" doc:"Shown to the agent and kept in the log."`
}

// Question is a ticket as its link shows it.
type Question struct {
	Ticket        Ticket    `json:"ticket" doc:"What is asked, with its state now."`
	Agent         string    `json:"agent" doc:"The agent that asks."`
	LinkExpiresAt time.Time `json:"link_expires_at" doc:"The link decides nothing from then on."`
}
