package mailroom

import (
	"encoding/json"
	"time"
)

// Thread is the row of a thread. It is the unit of locking and scheduling.
type Thread struct {
	Key      int64 // set by the store; 0 until written
	Revision int64 // number of transactions that changed the thread
	ID       string
	Agent    string // agent of the next submit
	Owner    string // name of the token that created it
	Parent   string // thread whose run created it, or ""
	Metadata json.RawMessage
	// State is the agents' state of the conversation, one JSON object per agent. It is written only
	// under a claim, in the transaction of the run's entries.
	State map[string]json.RawMessage
	// Nodes has, by agent, the server that keeps the session which the agent's State names. The
	// agent's runs start only there. No entry: on any server.
	Nodes map[string]string
	// DeliverTo is the thread that receives this thread's messages and tickets, and the ends of
	// runs that failed or had no reply, in the same transaction. "" means none.
	DeliverTo string

	Current string // id of the run that has started and not finished, or ""
	Worker  string // worker that holds the claim of Current; "" unless Current is running
	Round   int64  // claim round of Worker

	Due    Due       // next work, set by schedule only
	HeldAt time.Time // earliest NotBefore of the scheduled runs; zero: none

	FirstSeq  int64 // first entry that is kept; 1 until a purge
	LastSeq   int64 // last entry; 0: none
	NextPlace int64 // place of the next submit, from 1
	Bytes     int64 // size of the JSON of the kept entries, and what blobs count

	// Of a project: the number of inboxes, and the number of unread notifications by the name of
	// the sending token, one per inbox. Notifications up to the seq Lapsed have expired and are in
	// no inbox.
	Inboxes int64
	Unread  map[string]int64
	Lapsed  int64

	CreatedAt time.Time
	UpdatedAt time.Time
	// BlobBytes has, by agent, what its blobs count, with the uploads of the current attempt. It is part of Bytes.
	BlobBytes map[string]int64
	// Uploads are the uploads of the current attempt that no step has written as a blob yet. Their Name is an id, and
	// Digest is "" until the last piece is stored.
	Uploads []Blob
	// Meters are the keys of the meters that count the claim of Worker as a running run, because something bounded
	// their number when it began. A claim without bounds has none.
	Meters []string
	// Gate is the gate of a concurrency key, see thread.KeyGate: the thread waits at it, or has a place Kept for it. It
	// is "" while a worker has the thread.
	Gate string
	Kept bool // a place of Gate is free for the thread: it is due for workers
	// Paced says that the key has a rate, and one of its starts is Kept for the thread: Due.At may be the time of that
	// start.
	Paced bool
	// Budgets are what its runs may use, at most one for each period. The list is replaced and never changed.
	Budgets []ThreadBudget

	// DeletedAt is when the thread was deleted, zero if it was not. A deleted thread is in no list
	// and never changes; its rows are dropped in steps.
	DeletedAt time.Time

	Newer string `json:"-"` // see Run
}

// Due holds the scheduling columns of a thread. If At is zero, nothing is due and the other fields
// are zero. While Worker has a claim, only At is set: when the ledger ends the claim, see thread.
type Due struct {
	At          time.Time
	Agent       string // with the server that must start the run, if one must; see thread
	Priority    int
	LastAttempt bool // see Run.OnLastAttempt
}

// Claim is a worker's exclusive right to one attempt of a run. Every write of the run carries it,
// and fails with CodeLeaseLost once the claim was taken away.
type Claim struct {
	Thread  string
	Run     string
	Attempt int
}
