// Package reserved says which ids of threads have a meaning for the server, and what it is. The rules do not depend
// on the configuration. So the ids of a target or a channel that is added later are free, and only the server can
// have written to such threads.
package reserved

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// Prefixes of ids with a meaning.
const (
	Alert    = "alert:"    // alerts of a target, and of a token or a subscriber to it
	Channel  = "channel:"  // state changes of a channel, and the name of the agent that delivers for it
	Delivery = "out:"      // deliveries to a chat of a channel
	Project  = "project:"  // reservations and notifications of a project
	Issue    = "issue:"    // an issue of the tracker
	Audit    = "audit:"    // the audit log
	Schedule = "schedule:" // a schedule of a token
	Budget   = "budget:"   // warnings and questions about a budget of a day or a month
	Pulls    = "pulls:"    // the pull request of a thread's branch
)

// Scheduler is the name of the agent of schedules. It has a colon, so no configuration and no worker can serve it, and
// no token has the name.
const Scheduler = Schedule + "clock"

// Asker is the name of the agent that asks whether to raise a budget, and ViaBudget the Via of its runs.
const (
	Asker     = Budget + "asker"
	ViaBudget = "budget"
)

// Puller is the name of the agent that opens pull requests which the end of a run could not open, and follows them.
const Puller = Pulls + "keeper"

// ViaSchedule is the Via of the server's commands to schedules.
const ViaSchedule = "schedule"

// SilentWord is the key of a run's metadata with the word that is not delivered as a reply.
const SilentWord = "silent_word"

// AuditLog is the id of the thread whose log is the audit log. It has no owner, so no caller sees, writes or deletes
// it.
const AuditLog = Audit + "log"

// prefixes returns all prefixes.
func prefixes() []string {
	return []string{Alert, Channel, Delivery, Project, Issue, Audit, Schedule, Budget, Pulls}
}

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
	case Alert, Channel, Delivery, Audit, Schedule, Budget, Pulls:
		return true
	}
	return false
}

// operator is the owner of the server's threads, as in package auth.
const operator = "admin"

// Owner returns the owner that the server gives a thread that [ForServer] is true for. If a thread with this id has
// another owner, it is not the server's: a token created it at an older version, which allowed that.
func Owner(id string) string {
	if Prefix(id) == Audit {
		return ""
	}
	if owner, name := SchedulePlace(id); name != "" {
		return owner
	}
	if owner := pullsOwner(id); owner != "" {
		return owner
	}
	_, owner, _ := AlertPlace(id)
	return owner
}

// rowMark stands before the id of a token's row in the id of the thread of its alerts. The name of a token cannot
// contain it.
const rowMark = "~"

// AlertPlace returns the parts of the id of a thread of alerts: its target, its owner, and the row of the owner's
// token, or "" if the id names no row. For any other id, the target is "" and the owner is the operator.
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

// AlertPlaceID returns the id of a thread of alerts with these parts; see [AlertPlace].
func AlertPlaceID(target, owner, row string) string {
	return Alert + target + ":" + owner + rowMark + row
}

// ScheduleID returns the id of the thread of a schedule.
func ScheduleID(owner, name string) string { return Schedule + owner + ":" + name }

// SchedulePlace returns the owner and the name of the schedule whose thread has this id. The name is "" for the id of
// another thread, and for an id that is no schedule's.
func SchedulePlace(id string) (owner, name string) {
	rest, ok := strings.CutPrefix(id, Schedule)
	if owner, name, found := strings.Cut(rest, ":"); ok && found && owner != "" {
		return owner, name
	}
	return operator, ""
}

// ownMark begins the names of what the schedules of one thread have. No request can choose such a name.
const ownMark = "of."

// BookID returns the id of the thread that keeps the schedules of a thread, with which the thread's own runs and the
// users of its chat send messages to it later.
func BookID(owner, thread string) string {
	sum := sha256.Sum256([]byte(thread)) // an id may have characters that no name of a schedule has
	return ScheduleID(owner, ownMark+hex.EncodeToString(sum[:8]))
}

// IsBook reports whether an id is one of [BookID].
func IsBook(id string) bool {
	_, name := SchedulePlace(id)
	rest, ok := strings.CutPrefix(name, ownMark)
	return ok && !strings.Contains(rest, ".")
}

// OwnScheduleID returns the id of the schedule with a number in a book.
func OwnScheduleID(book string, number int) string { return book + "." + strconv.Itoa(number) }

// IsOwnName reports whether a name belongs to a book or to a schedule in it.
func IsOwnName(name string) bool { return strings.HasPrefix(name, ownMark) }

// PullsID returns the id of the thread that follows the pull request of a thread's branch.
func PullsID(owner, thread string) string {
	sum := sha256.Sum256([]byte(thread))
	return Pulls + owner + ":" + hex.EncodeToString(sum[:8])
}

// pullsOwner returns the owner in an id of [PullsID], "" for any other id.
func pullsOwner(id string) string {
	rest, ok := strings.CutPrefix(id, Pulls)
	if owner, digest, found := strings.Cut(rest, ":"); ok && found && digest != "" {
		return owner
	}
	return ""
}

// IsPulls reports whether an id is the one of [PullsID] for a thread and some owner.
func IsPulls(id, thread string) bool {
	owner := pullsOwner(id)
	return owner != "" && id == PullsID(owner, thread)
}

// MayOpen reports whether a run in the thread from may create the thread id: the book of its own thread, from there the
// schedules in it, and the thread of its pull request. owner is the owner of both.
func MayOpen(from, owner, id string) bool {
	return id == BookID(owner, from) || id == PullsID(owner, from) ||
		IsBook(from) && strings.HasPrefix(id, from+".") && Owner(from) == owner
}

// Agent returns the only agent that may run in a thread, or "" if any agent may. A message to such a thread reaches
// no other agent, even if the thread was created with another one.
func Agent(id string) string {
	words := strings.Split(id, ":")
	if len(words) < 2 {
		return ""
	}
	switch words[0] + ":" {
	case Alert:
		return Alert + words[1]
	case Schedule:
		return Scheduler
	case Budget:
		return Asker
	case Pulls:
		return Puller
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
	return strings.HasPrefix(agent, Alert) || strings.HasPrefix(agent, Channel) || IsKeeper(agent)
}

// IsKeeper reports whether an agent of the server keeps threads that are no conversations: lists of agents leave it
// out.
func IsKeeper(agent string) bool { return agent == Scheduler || agent == Asker || agent == Puller }

// IsVia reports whether a name says how the server itself, or a protocol that it speaks or may speak, created a run,
// see mailroom.Origin. A token cannot label its runs with such a name, because rules depend on some of these names,
// and people rely on all.
func IsVia(name string) bool {
	switch name {
	case "user", "run", "wake", "alert", "channel", "mcp", "agentmail", ViaSchedule, ViaBudget,
		"a2a", "acp", "admin", "ag-ui", "agui", "ai-sdk", "api", "console", "issue", "mailroom", "responses", "server", "session", "socket", "system", "webhook", "worker":
		return true
	}
	return false
}
