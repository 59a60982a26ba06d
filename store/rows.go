package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// Cursor is the row that records how far a channel has read its platform. It moves in the
// transaction of the submits it covers, so a platform message is either in a thread or read again.
type Cursor struct {
	Channel  string          // name of the channel
	Identity string          // account on the platform; a cursor is valid for this account only
	Position json.RawMessage // format of the channel, at most MaxPosition bytes
	MovedAt  time.Time       // set by the transaction that writes it
}

// Reservation is the row of a lease on a name in a project. Agents that respect it leave the named
// resource alone until it ends. It ends at ExpiresAt without a further write; the row of an ended
// reservation has no effect.
type Reservation struct {
	ID       string `json:"id"`
	Thread   string `json:"thread"` // thread of the project
	Name     string `json:"name"`   // a glob, see Overlap
	Holder   string `json:"holder"` // name of the agent
	Owner    string `json:"owner"`  // name of the token that made it
	Shared   bool   `json:"shared"` // compatible with other shared reservations
	Advisory bool   `json:"advisory"`
	Reason   string `json:"reason"`
	// Fence is a fencing token: the seq of the entry that records the reservation, so it grows with
	// each reservation of the project. Writes made under the reservation carry it, and a receiver
	// can refuse those whose reservation has ended.
	Fence     int64     `json:"fence"`
	TakenAt   time.Time `json:"taken_at"`
	ExpiresAt time.Time `json:"expires_at"`

	Newer string `json:"-"` // see mailroom.Run
}

// ReservationEnd is the body of the entry that records the end of a reservation. By is the token
// that ended it, "" if it expired.
type ReservationEnd struct {
	Reservation string `json:"reservation"`
	Name        string `json:"name"`
	Holder      string `json:"holder"`
	Fence       int64  `json:"fence"`
	By          string `json:"by,omitempty"`
}

// Live reports whether the reservation is active at now.
func (r *Reservation) Live(now time.Time) bool { return r.ExpiresAt.After(now) }

// Submitted is the result of a Submit. Message is the id of its last message and Seq the entry of
// that message.
//
// The type is in this package because a submit returns it to its caller, and the store also keeps it under the
// idempotency key.
type Submitted struct {
	Message     string          `json:"message" doc:"Id of the last message of the submit; empty: it had only decisions."`
	Run         string          `json:"run" doc:"Id of the run that takes the messages."`
	Thread      string          `json:"thread" doc:"Id of the thread, also of a new one."`
	Seq         int64           `json:"seq" doc:"Entry of that message in the log; 0: no message."`
	Place       int64           `json:"place" doc:"Position of the messages in the queue of the thread; a steered one has its own."`
	Status      mailroom.Status `json:"status" doc:"Status of the run at the time of the answer."`
	Disposition Disposition     `json:"disposition" doc:"A new run is queued; else steered or collected into a run, resumed, or duplicate."`
	Superseded  []string        `json:"superseded" doc:"Ids of the unstarted runs that the mode interrupt or latest cancelled; empty: none."`
	// Lent is the part of the budget of the run that sent the messages that the new run got. It is not stored.
	Lent     mailroom.Amounts `json:"-"`
	Stopping *string          `json:"stopping" doc:"With interrupt: id of the running run that was asked to stop; else null."`
}

// Disposition says what the server did with the messages of a submit.
type Disposition string

const (
	DispositionQueued    Disposition = "queued"
	DispositionSteered   Disposition = "steered"
	DispositionCollected Disposition = "collected"
	DispositionResumed   Disposition = "resumed"
	DispositionDuplicate Disposition = "duplicate"
	DispositionNotified  Disposition = "told" // a notification; it has no run
)

// SubmitKey is the row of an idempotency key, one per (thread, key). It is kept as long as the run
// it names.
type SubmitKey struct {
	Thread string
	Key    string
	Digest string // digest of the content of the first submit with this key
	Result Submitted
	// JoinedSeq is the LastSeq of the thread when the key was written, 0 with DispositionQueued. Write
	// stores the LastSeq of the written thread in place of 0.
	JoinedSeq int64
}

// JoinedAt returns the JoinedSeq to store for a key that is written with the row of its thread. ok is
// false for a key with a run of its own.
func (k *SubmitKey) JoinedAt(t *mailroom.Thread) (seq int64, ok bool) {
	switch {
	case k.Result.Disposition == DispositionQueued:
		return 0, false
	case k.JoinedSeq != 0:
		return k.JoinedSeq, true
	}
	return t.LastSeq, true
}

// Definition is the row of one version of an agent's definition. Runs pinned to it can continue
// after the configuration has changed.
type Definition struct {
	Agent   string
	Version string
	Body    json.RawMessage
}

// Pause is the row of a paused agent. Its due runs wait until the row is dropped; runs that have started go on.
//
// The server pauses an agent on one worker alone if another worker may serve it, see [PauseOn]: each machine has a
// login of its own.
type Pause struct {
	Agent  string // or what PauseOn returns; names of agents have no @
	By     string // name of the token that paused it
	Reason string
	At     time.Time
	// Probe is the time at which one run may start, to find out whether the agent works again. Only a pause that the
	// server itself made has a Probe; its By is "".
	Probe time.Time
}

// PauseOn returns the Agent of a pause that holds for one worker of an agent alone.
func PauseOn(agent, worker string) string { return agent + "@" + worker }

// Of returns the agent that p pauses, and the worker if p holds for that worker alone, else "".
func (p Pause) Of() (agent, worker string) {
	agent, worker, _ = strings.Cut(p.Agent, "@")
	return agent, worker
}

// Pauser returns who paused the agent, as a text for people: the name of a token, or "the server".
func (p Pause) Pauser() string {
	if p.By == "" {
		return "the server" // a token cannot have this name
	}
	return p.By
}

// AgentRows are the rows about agents: definitions ordered by Agent and Version, pauses by Agent.
type AgentRows struct {
	Definitions []Definition
	Pauses      []Pause
}

// Worker is the row of one process's lease. Ids are never reused.
type Worker struct {
	ID         string
	Host       string
	PID        int
	Owner      string   // name of its token; "" for a worker of the server itself
	Local      bool     // runs in the process that owns the store
	Agents     []string // agents it serves
	StartedAt  time.Time
	LeaseUntil time.Time
	Dead       bool // the lease has ended: it cannot be renewed, and its claims are being freed
	Uncharged  bool // dead for a reason that no run caused: its claims count as lost, not as crashes
	// Node is the id of the server that the worker belongs to; "" for a remote worker.
	Node string
	// Duties are names of jobs that one server at a time does, and that this worker's server does
	// while the worker is not Dead. No two live workers have the same duty. Sorted.
	Duties []string
	// Version is the version of its program, or "".
	Version string
	// Tables is the version of the tables that its program knows; 0 if it is unknown. Only stores that
	// several servers share keep it.
	Tables int64

	Newer string `json:"-"` // see mailroom.Run
}

// Live reports whether the worker's lease lasts at now.
func (w *Worker) Live(now time.Time) bool { return !w.Dead && now.Before(w.LeaseUntil) }

// InUseError reports that a server uses the store.
type InUseError struct{ Worker Worker } // one of the server's live workers

func (e *InUseError) Error() string {
	return fmt.Sprintf("a server on host %s with process id %d uses the store, at least until %s",
		e.Worker.Host, e.Worker.PID, e.Worker.LeaseUntil.UTC().Format(time.RFC3339))
}

// RefuseServers returns an [*InUseError] if a live worker among the workers of a store belongs to a server.
func RefuseServers(workers []*Worker, now time.Time) error {
	for _, w := range workers {
		if w.Node != "" && w.Live(now) {
			return &InUseError{*w}
		}
	}
	return nil
}

// Partial is a flushed piece of the message that a run is writing. Offset is the position in the
// message's text in bytes. The pieces of a run are contiguous and start at 0.
type Partial struct {
	Thread  string
	Run     string
	Attempt int
	Message string
	Offset  int
	Text    string
}
