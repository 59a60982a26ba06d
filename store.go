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
//
// archtest: the queries of a Reader, and four methods that write.
type Tx interface {
	Reader
	// Now is the transaction's one time.
	Now() time.Time
	// Lock locks worker rows, then thread rows, each in id order, and returns
	// them in the order asked. A worker that does not exist comes back nil. A
	// thread that does not exist comes back with its ID and Key 0; it must
	// not exist for anybody unless it is written. It may be called again, also
	// after Due, for what turned out to be needed; a row that the transaction
	// holds already comes as the transaction has left it. Such a late call is
	// out of order: a store with several writers must end a wait in a circle
	// by failing one of the Updates, with nothing written.
	Lock(workers, threads []string) ([]*Worker, []*Thread, error)
	// Due locks and returns threads that are due at now, never waiting: a
	// row that somebody else holds is skipped. Per want they come by
	// (Due.Priority, Due.At, Key), at most Slots of them. next is the
	// earliest later due time among the wants that were not cut off by
	// their Slots, zero if there is none.
	Due(now time.Time, wants []Capacity) (due []*Thread, next time.Time, err error)
	// Write inserts the rows whose Key is 0, giving them one, and updates
	// the others, all fields. Rows of one Changes may refer to each other.
	Write(c *Changes) error
}

// Capacity asks for due threads of one agent, or for those whose claim is over.
type Capacity struct {
	Agent       string // "": threads with Due.Agent ""
	Slots       int    // threads wanted, at least 1
	LastAttempt bool   // true: threads with Due.LastAttempt; false: those without
	// Share bounds the threads of one owner among the wanted; nil: no bound. It
	// must cost by the number of owners, not by their threads. What comes later is
	// not looked for: the want counts as cut off.
	Share *Share
}

// Share is what an owner may get: Most less what Held says that it has.
type Share struct {
	Most int
	Held map[string]int // by owner
}

// Left is what an owner may get, 0 or less if nothing.
func (s *Share) Left(owner string) int { return s.Most - s.Held[owner] }

// Reader has the queries. Lists that match nothing are empty, not errors.
type Reader interface {
	Threads(q ThreadQuery) ([]*Thread, error)
	Runs(q RunQuery) ([]*Run, error)
	// Count adds rows up. Without a Thread it must not cost by the number of
	// threads and runs, but by that of owners and agents at most.
	Count(q CountQuery) (Counts, error)
	Entries(q EntryQuery) ([]Entry, error)
	Keys(thread string, keys []string) ([]SubmitKey, error)
	// Partials returns the pieces of a run's unfinished message, by Offset.
	Partials(run string) ([]Partial, error)
	// Workers returns all worker rows by ID.
	Workers() ([]*Worker, error)
	Tickets(q TicketQuery) ([]*Ticket, error)
	// Tokens returns the token rows of these names, or all, by Name, of which each
	// has one.
	Tokens(names ...string) ([]*Token, error)
	// Definitions returns the kept versions of agents, by Agent and Version.
	Definitions() ([]Definition, error)
	Cursors(q CursorQuery) ([]Cursor, error)
	Reservations(q ReservationQuery) ([]Reservation, error)
}

// ThreadQuery selects threads: all fields that are set must hold. The order is
// newest first (by Key, descending), ascending with Oldest.
type ThreadQuery struct {
	IDs    []string // these; in no promised order
	Worker string   // claimed by this worker
	Agent  string
	// Deleted asks for the threads that are being deleted, which no other query
	// finds; see [Thread.DeletedAt].
	Deleted   bool
	DeliverTo string // delivers to this thread
	// Prefix asks for the threads whose ID begins with it, in the order of their IDs,
	// after the ID After; not with others but Limit and Bytes.
	Prefix      string
	After       string
	OnePerAgent bool  // of each name in Due.Agent one due or later due thread, by that name; not with others
	From        int64 // only Keys below it, or above it with Oldest; 0: from the start
	Oldest      bool
	Limit       int // 0: all
	Bytes       int // see RunQuery
}

// RunQuery selects runs: all fields that are set must hold. The order is newest
// first (by Key, descending), unless Set names another.
type RunQuery struct {
	IDs      []string // these; in no promised order
	Thread   string
	Agent    string
	Parent   string // runs that descend from this run
	Statuses []Status
	Set      RunSet
	From     int64 // only Keys below it, or above it with Oldest; 0: from the start; not with a Set
	Oldest   bool  // oldest first; not with a Set
	Limit    int   // 0: all
	// Bytes ends the list with the row that exceeds it, so that one page is never
	// more than that and a row. Rows count as the store keeps them. 0: any number;
	// not with IDs.
	Bytes int
}

// RunSet names a part of a thread's runs that has an order of its own.
type RunSet int

const (
	RunsAll       RunSet = iota
	RunsQueued           // never started and not held, by (Priority, Place)
	RunsScheduled        // never started and held, by (NotBefore, Place)
)

// CountQuery selects what is added up: all fields that are set must hold.
type CountQuery struct {
	Owner    *string // of the thread; "" is of threads that have none
	Agent    string
	Statuses []Status
	Thread   string // reads the runs of this thread, or of its Set
	Set      RunSet // with a Thread only
}

// Counts are what a CountQuery selects. Threads and Due are of queries that have no
// field but Owner.
type Counts struct {
	Runs    map[Status]int // those that are not 0
	Threads int            // also those that are being deleted
	Due     time.Time      // the earliest due time of a thread that is due for an agent
}

// Sum is the number of runs.
func (c Counts) Sum() (n int) {
	for _, of := range c.Runs {
		n += of
	}
	return n
}

// TicketQuery selects tickets: all fields that are set must hold. The order is
// newest first (by Key, descending).
type TicketQuery struct {
	IDs    []string // these; in no promised order
	Runs   []string // of these runs; in no promised order
	Thread string
	States []TicketState
	Kinds  []TicketKind
	From   int64 // only Keys below it; 0: from the newest
	Limit  int   // 0: all
	Bytes  int   // see RunQuery; not with Runs either
}

// ReservationQuery selects reservations: all fields that are set must hold. The
// order is by Thread, Fence and ID.
type ReservationQuery struct {
	ID     string // this one
	Thread string // of this project
}

// CursorQuery selects cursors: all fields that are set must hold. The order is by
// Channel and Identity.
type CursorQuery struct {
	Channel    string
	Identities []string // these, which are different; with a Channel
	Limit      int      // 0: all; not with Identities
}

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
	// Bytes ends the list with the entry that exceeds it, counted in the entries'
	// JSON. So who gets more than Bytes knows that there may be more entries. 0: any
	// number.
	Bytes int
}

// FirstEntries returns the entries at the front of list that have at most so many
// bytes of JSON together, at least one, and whether a query with these Bytes may
// have left entries out.
func FirstEntries(list []Entry, bytes int) (first []Entry, more bool) {
	sum := 0
	for i := range list {
		if sum += len(list[i].JSON()); sum > bytes {
			return list[:max(1, i)], true
		}
	}
	return list, false
}

// Prefix is the part of a thread's log below Seq.
type Prefix struct {
	Thread string
	Seq    int64
}

// Changes are the rows that one transaction writes. Entries of one thread are
// consecutive and become one row. A thread whose entries, keys or new runs are
// written is among Threads. The ID, Thread, Agent and FirstSeq of a run, and the
// ID, Thread and Run of a ticket, stay as they were inserted; FirstSeq is at most
// the thread's LastSeq of then. No two tokens have the same Name. What is dropped is dropped before anything is
// written, and must cost by what it is, not by what stays.
type Changes struct {
	Threads     []*Thread // the Owner of one that is there stays as it is
	Runs        []*Run
	Entries     [][]Entry // one slice per thread
	Keys        []SubmitKey
	Partials    []Partial // one at the Offset of an older one replaces it
	Workers     []*Worker
	Tickets     []*Ticket // of a run of their thread, there or written with them
	Tokens      []*Token
	Definitions []Definition // one of the same Agent and Version stays as it is
	Cursors     []Cursor     // one of the same Channel and Identity is replaced
	// Reservations are of threads that are there or written with them; one of the
	// same ID is replaced.
	Reservations []Reservation

	DropPartials []string // run ids
	DropWorkers  []string
	DropThreads  []string // with all that belongs to them
	// DropEntries drops the entries below Seq, and the runs whose FirstSeq is
	// below it with their tickets, partials and SubmitKeys. A key whose
	// Result is not WasQueued, and so has no run of its own, goes when the
	// LastSeq that its thread was written with is below Seq.
	DropEntries     []Prefix
	DropDefinitions []Definition // by Agent and Version
	DropCursors     []Cursor     // by Channel and Identity
	// DropReservations are ids.
	DropReservations []string
}
