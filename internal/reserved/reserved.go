// Package reserved says which ids of threads have a meaning for the server, and what it is. The rules do not
// depend on the configuration: a target or a channel that is added later finds its ids free, and what was said
// in them was said by the server.
package reserved

import (
	"net/url"
	"strings"
)

// Prefixes of ids with a meaning.
const (
	Alert    = "alert:"   // alerts of a target, and of a token or a subscriber to it
	Channel  = "channel:" // state changes of a channel, and the name of the agent that delivers for it
	Delivery = "out:"     // deliveries to a chat of a channel
	Project  = "project:" // reservations and notifications of a project
	Issue    = "issue:"   // an issue of the tracker
)

// prefixes returns all prefixes.
func prefixes() []string { return []string{Alert, Channel, Delivery, Project, Issue} }

// Prefix returns the prefix that gives a normalized id a meaning, "" if it has none. Ids differ by case, so
// "Alert:x" has none.
func Prefix(id string) string {
	for _, p := range prefixes() {
		if strings.HasPrefix(id, p) {
			return p
		}
	}
	return ""
}

// ForServer reports whether only the server creates the thread. An admin may create the other threads whose ids have a
// meaning.
func ForServer(id string) bool {
	switch Prefix(id) {
	case Alert, Channel, Delivery:
		return true
	}
	return false
}

// operator is the owner of the server's threads, see [mailroom/auth.Operator].
const operator = "admin"

// Owner returns the owner that the server gives a thread that [ForServer] is true for. A thread of this id with
// another owner is not the server's: an older version let a token create it.
func Owner(id string) string {
	_, owner, _ := AlertPlace(id)
	return owner
}

// rowMark stands before the row of a token in the id of its thread. No name of a token has it.
const rowMark = "~"

// AlertPlace returns the parts of the id of a thread of alerts: its target, the owner, and the row of the owner's
// token, "" if the id names none. Ids of other threads have no target and are the operator's.
func AlertPlace(id string) (target, owner, row string) {
	words := strings.Split(id, ":") // no name of a target or a token has a colon
	switch {
	case words[0]+":" != Alert || len(words) < 2:
		return "", operator, ""
	case len(words) != 3: // of the target itself, or of a subscriber
		return words[1], operator, ""
	}
	owner, row, _ = strings.Cut(words[2], rowMark)
	return words[1], owner, row
}

// IsSubscriber reports whether an id names the thread of one subscriber to a target, such as a
// browser.
func IsSubscriber(id string) bool {
	target, _, _ := AlertPlace(id)
	return target != "" && strings.Count(id, ":") > 2 // a target and a name have none
}

// AlertPlaceID returns the id that AlertPlace reads.
func AlertPlaceID(target, owner, row string) string {
	return Alert + target + ":" + owner + rowMark + row
}

// Agent returns the agent that alone runs in a thread, "" if any may. A message to such a thread reaches no other
// agent, also if the thread was created with one.
func Agent(id string) string {
	words := strings.Split(id, ":")
	if len(words) < 2 {
		return ""
	}
	switch words[0] + ":" {
	case Alert:
		return Alert + words[1]
	case Delivery:
		name, err := url.QueryUnescape(words[1]) // see channel.ThreadID
		if err != nil {
			return ""
		}
		return Channel + name
	}
	return ""
}

// IsAgent reports whether an agent is a part of the server. A configuration and a worker cannot have an agent
// with such a name.
func IsAgent(agent string) bool {
	return strings.HasPrefix(agent, Alert) || strings.HasPrefix(agent, Channel)
}

// IsVia reports whether a name says how the server itself, or a protocol that it speaks or may speak, created a run,
// see mailroom.Origin. A token cannot label its runs so: rules depend on some of these names, and people on all.
func IsVia(name string) bool {
	switch name {
	case "user", "run", "wake", "alert", "channel", "mcp", "agentmail",
		"a2a", "acp", "admin", "ag-ui", "agui", "ai-sdk", "api", "console", "issue", "mailroom", "responses", "server", "session", "socket", "system", "webhook", "worker":
		return true
	}
	return false
}
