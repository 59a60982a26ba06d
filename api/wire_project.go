package api

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Reservation is a lease on a name in a project.
type Reservation struct {
	ID        string    `json:"id"`
	Project   string    `json:"project"`
	Name      string    `json:"name" doc:"A glob: ? is any character but a slash, * any number of those, ** any number of any."`
	Holder    string    `json:"holder" doc:"The agent, by the name it gives itself."`
	Owner     string    `json:"owner" doc:"Name of the token that it was made with."`
	Shared    bool      `json:"shared"`
	Advisory  bool      `json:"advisory"`
	Reason    string    `json:"reason"`
	Fence     int64     `json:"fence" doc:"Grows with each reservation of the project. What is written under a reservation carries it."`
	TakenAt   time.Time `json:"taken_at"`
	ExpiresAt time.Time `json:"expires_at" doc:"It ends by itself then."`
}

// Reserve asks for names, all of them or none. Who holds one already under the same
// holder and token renews it.
type Reserve struct {
	Project  string   `json:"project,omitempty" doc:"Default: default."`
	Names    []string `json:"names" minItems:"1" doc:"Globs, of at most 16 KiB together; at most 50 of them, of 4 KiB together, have * or ?. They conflict with those that have a name in common with them."`
	Holder   string   `json:"holder" doc:"The name of the agent."`
	Shared   bool     `json:"shared,omitempty" doc:"Goes with others that are shared."`
	Advisory bool     `json:"advisory,omitempty" doc:"Refuses nobody and is not refused: the answer tells the conflicts."`
	Reason   string   `json:"reason,omitempty"`
	TTL      string   `json:"ttl,omitempty" example:"30m" doc:"1s to 168h. Default: 1h."`
}

// Reserved is the answer to a Reserve.
type Reserved struct {
	Granted   []Reservation `json:"granted" doc:"One for each name, in their order."`
	Conflicts []Reservation `json:"conflicts" doc:"Of others. One side of each conflict is advisory."`
}

// ReservationRenewal asks a reservation to last longer.
type ReservationRenewal struct {
	TTL string `json:"ttl,omitempty" example:"30m" doc:"From now on. 1s to 168h. Default: 1h."`
}

// ReleaseNames asks to end what an agent holds under these very names.
type ReleaseNames struct {
	Project string   `json:"project,omitempty" doc:"Default: default."`
	Holder  string   `json:"holder"`
	Names   []string `json:"names" doc:"As they were reserved. What is not held is no error."`
}

// Released is the answer to a ReleaseNames.
type Released struct {
	Released []Reservation `json:"released"`
}

// Notify tells the other agents of a project something.
type Notify struct {
	Project string          `json:"project,omitempty" doc:"Default: default."`
	From    string          `json:"from" doc:"The name of the agent."`
	To      []string        `json:"to,omitempty" doc:"These agents. Default: all that the project knows, but the sender."`
	Event   string          `json:"event"`
	Data    json.RawMessage `json:"data,omitempty" doc:"Any JSON."`
	Key     string          `json:"key,omitempty" doc:"The same notification under the same key is told once. The header Idempotency-Key means the same."`
}

// Notified is the answer to a Notify.
type Notified struct {
	Project string   `json:"project"`
	Seq     int64    `json:"seq" doc:"Its entry in the log of the thread project:NAME."`
	To      []string `json:"to" doc:"The agents whose inbox has it."`
}

// Notification is one in an agent's inbox.
type Notification struct {
	Seq   int64           `json:"seq"`
	At    time.Time       `json:"at"`
	From  string          `json:"from"`
	To    []string        `json:"to" doc:"Empty: everybody."`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// Take asks for what an agent has not read, which counts as read then.
type Take struct {
	Project string `json:"project,omitempty" doc:"Default: default."`
	Agent   string `json:"agent"`
	Limit   int    `json:"limit,omitempty" minimum:"1" maximum:"500" doc:"Default: 50."`
}

// Acknowledge says which notifications an agent has read.
type Acknowledge struct {
	Project string  `json:"project,omitempty" doc:"Default: default."`
	Agent   string  `json:"agent"`
	Seqs    []int64 `json:"seqs" minItems:"1" maxItems:"500"`
}

// NewReservation is the wire object of a reservation.
func NewReservation(r mailroom.Reservation) Reservation {
	project, _ := mailroom.ProjectOf(r.Thread)
	return Reservation{
		ID: r.ID, Project: project, Name: r.Name, Holder: r.Holder, Owner: r.Owner, Shared: r.Shared, Advisory: r.Advisory,
		Reason: r.Reason, Fence: r.Fence, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt,
	}
}

// row is the reservation as the rules know it.
func (r Reservation) row() mailroom.Reservation {
	thread, err := mailroom.ProjectThread(r.Project)
	if err != nil {
		thread = r.Project // of another server; it is only shown
	}
	return mailroom.Reservation{
		ID: r.ID, Thread: thread, Name: r.Name, Holder: r.Holder, Owner: r.Owner, Shared: r.Shared, Advisory: r.Advisory,
		Reason: r.Reason, Fence: r.Fence, TakenAt: r.TakenAt, ExpiresAt: r.ExpiresAt,
	}
}
