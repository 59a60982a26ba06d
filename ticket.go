package mailroom

import (
	"encoding/json"
	"time"
)

// TicketKind is the kind of a ticket: what its run waits for.
type TicketKind string

// TicketState is the state of a ticket.
type TicketState string

// Verdict is a decision on a ticket.
type Verdict string

// Ticket is the row of a decision or event that a run needs before it continues.
type Ticket struct {
	Key       int64           `json:"-"` // set by the store; 0 until written
	ID        string          `json:"id"`
	Thread    string          `json:"thread"`
	Run       string          `json:"run"`
	Agent     string          `json:"-"`    // of its run, set by the store; a ticket's row does not have it
	Name      string          `json:"name"` // unique in the run
	Kind      TicketKind      `json:"kind"`
	Prompt    string          `json:"prompt"`
	Action    string          `json:"action"`
	Arguments json.RawMessage `json:"arguments"`
	// Digest is the SHA-256, in hex, of the request as shown.
	Digest    string          `json:"digest"`
	State     TicketState     `json:"state"`
	OpenedAt  time.Time       `json:"-"` // time of the entry that opened it; zero: opened by an older version
	ExpiresAt *time.Time      `json:"expires_at"`
	Decision  Verdict         `json:"decision"`
	Answer    json.RawMessage `json:"answer"`
	Reason    string          `json:"reason"`
	DecidedBy string          `json:"decided_by"`
	DecidedAt *time.Time      `json:"decided_at"`
	// Answers allows data as the answer to an approval.
	Answers bool `json:"answers,omitempty"`
	// Holds keeps messages in the queue while the ticket is open, as an approval does.
	Holds bool `json:"holds,omitempty"`

	Newer string `json:"-"` // see Run
}

// Ask is a request for a ticket. Repeating it under the same name returns the existing ticket; a
// different request under the same name is a conflict.
type Ask struct {
	Name      string
	Kind      TicketKind
	Prompt    string
	Action    string
	Arguments json.RawMessage
	Expires   time.Time     // when the ticket expires or the timer fires; zero: never
	After     time.Duration // alternative to Expires, relative to the first request
	Answers   bool          // for TicketApproval: data is accepted as an answer
	// Holds, for TicketEvent, keeps messages in the queue while it is open. A message resumes a run that
	// waits for nothing else; but a run that is read by tool calls waits for its reader, and the next
	// message is the next run's.
	Holds bool
}

// Wait names the tickets a parked run waits for: all of them, or any.
type Wait struct {
	Any   bool     `json:"any,omitempty"`
	Names []string `json:"names"`
}

// Ended reports whether the wait has ended, given which of its tickets are open.
func (w *Wait) Ended(open func(name string) bool) bool {
	left := 0
	for _, name := range w.Names {
		if open(name) {
			left++
		}
	}
	return left == 0 || w.Any && left < len(w.Names)
}

// StateAt returns the ticket's state at now. An open ticket whose time has passed counts as
// expired, even if no transition has recorded it yet.
func (k *Ticket) StateAt(now time.Time) TicketState {
	if k.State == TicketOpen && k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
		return TicketExpired
	}
	return k.State
}
