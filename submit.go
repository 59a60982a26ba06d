package mailroom

import (
	"encoding/json"
	"time"
)

// Submit is one message, or several, for a thread.
type Submit struct {
	Thread   string // trimmed by the caller of the transition; see CheckThreadID
	Run      string // id of the run that may be made
	Messages []Draft
	Sender   string // identity of the submitter
	Owner    string // owns the thread if this submit makes it
	Origin   Origin

	Agent        string // resolved: never ""
	AgentVersion string
	SetAgent     bool // Agent was asked for: it becomes the thread's
	Mode         Mode // "" is ModeQueue
	Key          string
	Priority     *int // nil is DefaultPriority
	NotBefore    time.Time
	ExpectRun    string
	MaxAttempts  int // 0 is DefaultAttempts
	Options      json.RawMessage
	Parent       string
	ParentThread string // of the thread this submit makes
	Metadata     map[string]string
}

// Draft is a message to be submitted.
type Draft struct {
	Role       Role // "" is User
	Parts      []Part
	Visibility string // "" is VisibleAll
}

// Submitted is the answer to a Submit. Message is the id of its last message
// and Seq that message's entry.
type Submitted struct {
	Message     string      `json:"message"`
	Run         string      `json:"run"`
	Thread      string      `json:"thread"`
	Seq         int64       `json:"seq"`
	Place       int64       `json:"place"`
	Status      Status      `json:"status"`
	Disposition Disposition `json:"disposition"`
	Superseded  []string    `json:"superseded"`
	Stopping    *string     `json:"stopping"`
}

// Disposition says what became of a submit.
type Disposition string

const (
	WasQueued    Disposition = "queued"
	WasSteered   Disposition = "steered"
	WasCollected Disposition = "collected"
	WasDuplicate Disposition = "duplicate"
)
