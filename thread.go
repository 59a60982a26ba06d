package mailroom

import (
	"encoding/json"
	"time"
)

// Thread is the row of a thread: what is locked and what is scheduled.
type Thread struct {
	Key      int64 // the store's own key; 0 until the row is written
	Revision int64 // transactions that wrote the row, or anything that belongs to it
	ID       string
	Agent    string // handles its next submit
	Owner    string // name of the token that made it
	Parent   string // thread whose run made it, or ""
	Metadata json.RawMessage
	// State is what belongs to the conversation, one JSON object per agent;
	// written only under a claim, in the transaction of the run's entries.
	State map[string]json.RawMessage
	// DeliverTo is the thread that is sent what this one says and asks, and which
	// run has failed or ended without a word, in the same transaction; "" for none.
	DeliverTo string

	Current string // id of the run that has started and is not finished, or ""
	Worker  string // holds the claim of Current; "" unless Current is running
	Round   int64  // the worker's claim round, as Worker

	Due    Due       // what is to be done next, set by one pure function
	HeldAt time.Time // earliest NotBefore of its held runs; zero: none

	FirstSeq  int64 // of the entries still kept; 1 until something is purged
	LastSeq   int64 // 0: nothing yet
	NextPlace int64 // place of the next submit, from 1
	Bytes     int64 // of the JSON of the entries still kept

	// Of a project. Inboxes is how many it has, and Unread how many notifications that
	// a token sent they hold unread, by the token's name: one counts in each inbox.
	// Those up to the seq Lapsed have lapsed: no inbox holds them any more.
	Inboxes int64
	Unread  map[string]int64
	Lapsed  int64

	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt is when the thread was deleted. From then on no list has it, nothing
	// of it changes, and its rows are dropped piece by piece. Zero: it is there.
	DeletedAt time.Time
}

// Due are the scheduling columns of a thread. With At zero nothing is due and
// the other fields are zero too. While the current run is claimed, Agent is ""
// and At is when the ledger ends that claim, see [ThreadState.EndOverdue].
type Due struct {
	At          time.Time
	Agent       string
	Priority    int
	LastAttempt bool // the run is on its last chance, see Run.OnLastAttempt
}

// SubmitKey is the row that makes a submit repeatable: one per (thread, key),
// kept as long as the run it names.
type SubmitKey struct {
	Thread string
	Key    string
	Digest string // of the content as first submitted
	Result Submitted
}

// Definition is the row of one version of an agent's definition, kept so that
// a run pinned to it can go on after the configuration changed.
type Definition struct {
	Agent   string
	Version string
	Body    json.RawMessage
}

// Worker is the row of one process's lease. Ids are never used twice.
type Worker struct {
	ID         string
	Host       string
	PID        int
	Owner      string   // name of the token that it works with; "" for one of the server's own
	Local      bool     // lives and dies with the process that owns the store
	Agents     []string // names it serves
	StartedAt  time.Time
	LeaseUntil time.Time
	Dead       bool // expired: it cannot be renewed, its claims are being freed
	Uncharged  bool // dead by a crash that no run caused: its claims count as lost, not as crashes
}

// Partial is a flushed piece of the message that a run is writing. Offset is in
// bytes of the message's text. The pieces of a run abut and start at 0.
type Partial struct {
	Thread  string
	Run     string
	Attempt int
	Message string
	Offset  int
	Text    string
}

// Claim is a worker's exclusive right to one run: every write of the run
// carries it, and is refused with LeaseLost once the claim was taken away.
type Claim struct {
	Thread  string
	Run     string
	Attempt int
}
