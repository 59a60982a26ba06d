package mailroom

import (
	"context"
	"errors"
	"time"
)

// ErrStoreClosed is the cause of an Unavailable error after which the store
// takes no further write until it is opened again.
var ErrStoreClosed = errors.New("the store is closed")

// Store keeps the rows. It decides nothing: rules live in the transitions.
// Times are UTC and whole microseconds. Values returned belong to the caller,
// values given belong to the caller too: a store must copy what it keeps.
type Store interface {
	// Update runs f in one transaction. When it returns nil the changes must
	// have reached stable storage; when f fails nothing is written and f's
	// error is returned as it is. An Error of code Unavailable means that
	// the outcome is unknown. Only one Update of a handle runs at a time.
	Update(ctx context.Context, f func(Tx) error) error
	// View runs f on one consistent snapshot. It must not wait for Update.
	// f does no network I/O and reads a page at a time.
	View(ctx context.Context, f func(Reader) error) error
	Close() error
}

// Tx is a transaction that may write.
type Tx interface {
	Reader
	// Now is the transaction's one time.
	Now() time.Time
	// Lock locks worker rows, then thread rows, each in id order, and returns
	// them in the order asked. A worker that does not exist comes back nil. A
	// thread that does not exist comes back with its ID and Key 0; it must
	// not exist for anybody unless it is written. Lock is called once,
	// before any other call that locks.
	Lock(workers, threads []string) ([]*Worker, []*Thread, error)
	// Due locks and returns threads that are due at now, never waiting: a
	// row that somebody else holds is skipped. Per want they come by
	// (Due.Priority, Due.At, Key), at most Slots of them. next is the
	// earliest later due time among the wants that were not cut off by
	// their Slots, zero if there is none.
	Due(now time.Time, wants []Want) (due []*Thread, next time.Time, err error)
	// Write inserts the rows whose Key is 0, giving them one, and updates
	// the others, all fields. Rows of one Changes may refer to each other.
	Write(c *Changes) error
}

// Want asks for due threads of one agent.
type Want struct {
	Agent string
	Slots int  // threads wanted, at least 1
	Alone bool // true: threads with Due.Alone; false: those without
}

// Reader has the queries. Lists that match nothing are empty, not errors.
type Reader interface {
	Threads(q ThreadQuery) ([]*Thread, error)
	Runs(q RunQuery) ([]*Run, error)
	// CountRuns counts what Runs would return without Limit and From.
	CountRuns(q RunQuery) (int, error)
	Entries(q EntryQuery) ([]Entry, error)
	Keys(thread string, keys []string) ([]SubmitKey, error)
	// Partials returns the pieces of a run's unfinished message, by Offset.
	Partials(run string) ([]Partial, error)
	// Workers returns all worker rows by ID.
	Workers() ([]*Worker, error)
	// DueAgents returns the names in Due.Agent of all due or later due threads.
	DueAgents() ([]string, error)
}

// ThreadQuery selects threads: all fields that are set must hold. The order is
// newest first (by Key, descending), ascending with Oldest.
type ThreadQuery struct {
	IDs    []string // these; in no promised order
	Worker string   // claimed by this worker
	Agent  string
	From   int64 // only Keys below it, or above it with Oldest; 0: from the start
	Oldest bool
	Limit  int // 0: all
}

// RunQuery selects runs: all fields that are set must hold. The order is newest
// first (by Key, descending), unless Set names another.
type RunQuery struct {
	IDs      []string // these; in no promised order
	Thread   string
	Agent    string
	Statuses []Status
	Set      RunSet
	From     int64 // only Keys below it; 0: from the newest; not with a Set
	Limit    int   // 0: all
}

// RunSet names a part of a thread's runs that has an order of its own.
type RunSet int

const (
	AnyRuns   RunSet = iota
	QueueRuns        // never started and not held, by (Priority, Place)
	HeldRuns         // never started and held, by (NotBefore, Place)
)

// EntryQuery selects a slice of one thread's log, in order of Seq, or in
// descending order with Backward. Kinds and Run filter what is in it.
type EntryQuery struct {
	Thread   string
	After    int64 // exclusive; 0: from the first
	Before   int64 // exclusive; 0: to the last
	Backward bool
	Kinds    []string
	Run      string
	Limit    int // 0: all
}

// Changes are the rows that one transaction writes. Entries of one thread are
// consecutive and become one row. A thread whose entries, keys or new runs are
// written is among Threads.
type Changes struct {
	Threads  []*Thread
	Runs     []*Run
	Entries  [][]Entry // one slice per thread
	Keys     []SubmitKey
	Partials []Partial // one at the Offset of an older one replaces it
	Workers  []*Worker

	DropPartials []string // run ids, dropped before Partials are appended
	DropWorkers  []string
	DropThreads  []string // with all that belongs to them, before anything is written
}
