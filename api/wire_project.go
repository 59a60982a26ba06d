package api

import (
	"encoding/json"
	"time"

	"mailroom/project"
	"mailroom/store"
)

// Reservation is a lease on a name in a project.
type Reservation struct {
	ID        string    `json:"id" doc:"Unique among all reservations; opaque. A renewal keeps it."`
	Project   string    `json:"project" doc:"Name of the project."`
	Name      string    `json:"name" doc:"A glob: ? matches any character but a slash, * any number of those, ** any number of any characters."`
	Holder    string    `json:"holder" doc:"Name of the agent, as it gives it."`
	Owner     string    `json:"owner" doc:"Name of the token that made the reservation."`
	Shared    bool      `json:"shared" doc:"It is compatible with other shared reservations, not with exclusive ones."`
	Advisory  bool      `json:"advisory" doc:"It blocks no other reservation and is blocked by none."`
	Reason    string    `json:"reason" doc:"Given by the holder, for display; empty: none was given."`
	Fence     int64     `json:"fence" doc:"Fencing token: grows with each reservation of the project. Send it with writes under the reservation."`
	TakenAt   time.Time `json:"taken_at" doc:"When the name was reserved first. A renewal keeps it."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the reservation ends by itself."`
}

// Reserve reserves names, all of them or none. It renews those that the same holder
// has reserved with the same token.
type Reserve struct {
	Project  string   `json:"project,omitempty" doc:"Default: default."`
	Names    []string `json:"names" minItems:"1" doc:"Globs, at most 16 KiB in all; at most 50 of them, 4 KiB in all, may contain * or ?. Two globs conflict if a name matches both."`
	Holder   string   `json:"holder" doc:"The name of the agent."`
	Shared   bool     `json:"shared,omitempty" doc:"Compatible with other shared reservations."`
	Advisory bool     `json:"advisory,omitempty" doc:"Never blocks and is never blocked: the answer lists the conflicts."`
	Reason   string   `json:"reason,omitempty" doc:"For display to other agents."`
	TTL      string   `json:"ttl,omitempty" example:"30m" doc:"1s to 168h. Default: 1h."`
}

// Reserved is the answer to a Reserve.
type Reserved struct {
	Granted   []Reservation `json:"granted" doc:"One for each name, in their order."`
	Conflicts []Reservation `json:"conflicts" doc:"Reservations of others. One side of each conflict is advisory."`
}

// ReservationRenewal extends a reservation.
type ReservationRenewal struct {
	TTL string `json:"ttl,omitempty" example:"30m" doc:"From now on. 1s to 168h. Default: 1h."`
}

// ReleaseNames ends the reservations that an agent holds under exactly these names.
type ReleaseNames struct {
	Project string   `json:"project,omitempty" doc:"Default: default."`
	Holder  string   `json:"holder" doc:"The name of the agent, as in the reservations."`
	Names   []string `json:"names" doc:"As they were reserved. A name that is not reserved is no error."`
}

// Released is the answer to a ReleaseNames.
type Released struct {
	Released []Reservation `json:"released" doc:"The reservations that the request ended; empty: the agent held none of the names."`
}

// Notify sends a notification to other agents of a project.
type Notify struct {
	Project string          `json:"project,omitempty" doc:"Default: default."`
	From    string          `json:"from" doc:"The name of the agent."`
	To      []string        `json:"to,omitempty" doc:"Recipients. Default: all known agents of the project but the sender."`
	Event   string          `json:"event" doc:"Kind of the notification, any text that its readers know."`
	Data    json.RawMessage `json:"data,omitempty" doc:"Any JSON."`
	Key     string          `json:"key,omitempty" doc:"Idempotency key: a repeat sends nothing. The header Idempotency-Key means the same."`
}

// Notified is the answer to a Notify.
type Notified struct {
	Project string   `json:"project" doc:"Name of the project, also if the request named none."`
	Seq     int64    `json:"seq" doc:"Its entry in the log of the thread project:NAME."`
	To      []string `json:"to" doc:"Agents that received it."`
}

// Notification is one in an agent's inbox.
type Notification struct {
	Seq   int64           `json:"seq" doc:"Its entry in the log of the thread project:NAME. Acknowledge the notification with this number."`
	At    time.Time       `json:"at" doc:"When it was sent."`
	From  string          `json:"from" doc:"Name of the agent that sent it."`
	To    []string        `json:"to" doc:"Recipients; empty: all agents of the project."`
	Event string          `json:"event" doc:"Kind of the notification, as its sender chose it."`
	Data  json.RawMessage `json:"data" doc:"As the sender gave it; null: it gave none."`
}

// Take fetches the unread notifications of an agent and marks them as read.
type Take struct {
	Project string `json:"project,omitempty" doc:"Default: default."`
	Agent   string `json:"agent" doc:"Agent whose inbox to read. The inbox belongs to the token that reads it first."`
	Limit   int    `json:"limit,omitempty" minimum:"1" maximum:"500" doc:"Default: 50."`
}

// Acknowledge marks notifications of an agent as read.
type Acknowledge struct {
	Project string  `json:"project,omitempty" doc:"Default: default."`
	Agent   string  `json:"agent" doc:"Agent whose inbox it is."`
	Seqs    []int64 `json:"seqs" minItems:"1" maxItems:"500" doc:"The seq of each. One that is read already changes nothing."`
}

// NewReservation converts a reservation to its wire type.
func NewReservation(r store.Reservation) Reservation {
	project, _ := project.NameOf(r.Thread)
	return Reservation{
		ID: r.ID, Project: project, Name: r.Name, Holder: r.Holder, Owner: r.Owner, Shared: r.Shared, Advisory: r.Advisory,
		Reason: r.Reason, Fence: r.Fence, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt,
	}
}

// row converts a reservation to its row.
func (r Reservation) row() store.Reservation {
	thread, err := project.ThreadID(r.Project)
	if err != nil {
		thread = r.Project // the name is from another version of the server, and is only displayed
	}
	return store.Reservation{
		ID: r.ID, Thread: thread, Name: r.Name, Holder: r.Holder, Owner: r.Owner, Shared: r.Shared, Advisory: r.Advisory,
		Reason: r.Reason, Fence: r.Fence, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt,
	}
}

// IssueBoard has the issues of the server's tracker.
type IssueBoard struct {
	Columns []IssueColumn `json:"columns" doc:"in_progress, ready, blocked, later (deferred or pinned) and closed."`
}

// IssueColumn has the first issues of a column: the most urgent ones, or those that were changed or closed
// last.
type IssueColumn struct {
	Name  string  `json:"name" doc:"in_progress, ready, blocked, later or closed."`
	Count int     `json:"count" doc:"Number of its issues."`
	Items []Issue `json:"items" doc:"At most 100 of them."`
}

// Issue is an issue of the tracker. Long texts and lists are cut.
type Issue struct {
	ID        string    `json:"id" doc:"Unique in the tracker, at most 64 characters."`
	Title     string    `json:"title" doc:"At most 200 characters."`
	Status    string    `json:"status" doc:"As the tracker says, such as open, in_progress or closed."`
	Type      string    `json:"type" doc:"As the tracker says, such as bug, feature or task."`
	Priority  int       `json:"priority" doc:"0 to 4, the most urgent first."`
	Assignee  string    `json:"assignee" doc:"Who works on it; empty: unassigned."`
	Labels    []string  `json:"labels" doc:"The first 10; empty: none."`
	BlockedBy []string  `json:"blocked_by" doc:"Ids of issues that must be closed before."`
	UpdatedAt time.Time `json:"updated_at" doc:"Its last change, as the tracker says."`
	Thread    string    `json:"thread" doc:"Id of the thread in which an agent works on it, if one does."`
}
