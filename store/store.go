// Package store is the seam between the ledger and a database: transactions, queries and the rows
// that only stores and the ledger know. A store persists rows and decides nothing.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom"
	"mailroom/auth"
)

// ErrClosed is the cause of a CodeUnavailable error after which the store accepts no write until it
// is reopened.
var ErrClosed = errors.New("the store is closed")

// Store persists the rows. It decides nothing: the rules are in the transitions. Times are UTC with
// microsecond precision. The caller owns the values that it receives and those that it passes; a
// store must copy what it keeps.
//
// Several handles, also in several processes, may write the same rows at the same time.
type Store interface {
	// Update runs f in one transaction. When Update returns nil, the changes must have reached
	// stable storage. When f fails, nothing is written and f's error is returned unchanged. An
	// Error of CodeUnavailable means that the outcome is unknown. A handle runs one Update at a
	// time.
	//
	// If the transaction meets a conflict with another handle, Update calls f again with a new Tx
	// and discards what the earlier call did, whatever it returned. So f may run several times and
	// must have no effect but on its Tx and on values that it resets. Conflicts are a lock that is
	// not granted, a deadlock, and a row that another handle created at the same time. After
	// MaxTries calls Update returns CodeUnavailable, with nothing written.
	//
	// A first Load that waits too long for threads fails the Update with a *[LockedError].
	Update(ctx context.Context, f func(Tx) error) error
	// View runs f on one consistent snapshot. It must not wait for Update. f does no network I/O
	// and reads a page at a time.
	View(ctx context.Context, f func(Reader) error) error
	// Epoch identifies the connection that Update uses. When it changes, commits may have been
	// lost or missed, so rows that were read before must not be used again, even if the stored
	// row has the same Revision. The epoch does not change while f runs.
	Epoch() int64
	Close() error
}

// LockedError reports that another handle holds these threads for long, perhaps because its process
// is paused. Nothing was written. The caller runs the rest without them, and retries them with
// Need.NoWait.
type LockedError struct{ Threads []string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("%d threads are locked by another server", len(e.Threads))
}

// MaxTries is how often Update calls its function in case of conflicts.
const MaxTries = 10

// Tx is a read-write transaction. A call that fails ends it: the caller must return the error.
//
// archtest: the queries of a Reader, and three methods that lock and write.
type Tx interface {
	Reader
	// Load locks the rows that n names and returns them with what their next transitions read. A
	// store in another process answers it in one round trip.
	//
	// Load may be called again, also after Due, for rows that turn out to be needed. A row that the
	// transaction has locked already is returned with the transaction's changes. Such a call is out
	// of order: it must not wait for another transaction, but end this one with a conflict.
	Load(n Need) (*Loaded, error)
	// Due locks and returns threads that are due at now, with what their next transitions read. It
	// never waits: it skips rows that another transaction has locked, and those that this one has
	// loaded or written, or received from Due. The threads of each want are
	// ordered by (Due.Priority, Due.At, Key), at most Slots of them. next is the earliest later due
	// time among the wants that Slots did not cut off, or zero.
	Due(now time.Time, wants []Capacity, known Known) (due *Loaded, next time.Time, err error)
	// Write inserts the rows whose Key is 0 and sets their Key, and updates all fields of the
	// others. Rows of one Changes may refer to each other. Keys are unique among the rows of a kind
	// and, within a thread, grow in the order of the commits.
	//
	// A store may defer a Write: its error is returned by Update at the latest, and the Keys are
	// set when Update returns. Later reads of the transaction see the written rows.
	Write(c *Changes) error
}

// Capacity requests due threads of one agent, or, with Agent "", threads whose claim is overdue.
type Capacity struct {
	Agent       string // Due.Agent of the threads
	Slots       int    // maximum number of threads, at least 1
	LastAttempt bool   // Due.LastAttempt of the threads
	// Share bounds the threads per owner; nil means no bound. Its cost must grow with the number of
	// owners, not with their threads. Later due times are not searched: the want counts as cut off.
	Share *Share
}

// Share limits the threads per owner: Most, less those in Held.
type Share struct {
	Most int
	Held map[string]int // by owner
}

// Left returns how many more threads the owner may get, 0 or less if none.
func (s *Share) Left(owner string) int { return s.Most - s.Held[owner] }

// Reader has the queries. A list without matches is empty, not an error.
//
// archtest: one query for each kind of row, and the time.
type Reader interface {
	// Now returns the time by the clock that all handles share, in UTC and whole microseconds. It
	// does not change within a transaction or snapshot. In a Tx it is read after the first Load or
	// Due has its locks, so that the times of a thread's transactions grow with their order as long
	// as the clock does not step back.
	Now() time.Time
	Threads(q ThreadQuery) ([]*mailroom.Thread, error)
	Runs(q RunQuery) ([]*mailroom.Run, error)
	// Count sums up rows. Without a Thread, its cost must grow at most with the number of owners
	// and agents, not with threads and runs.
	Count(q CountQuery) (Counts, error)
	Entries(q EntryQuery) ([]mailroom.Entry, error)
	Keys(q KeyQuery) ([]SubmitKey, error)
	// Partials returns the pieces of the unfinished messages of runs, the pieces of each run
	// together and by Offset.
	Partials(runs ...string) ([]Partial, error)
	// Workers returns the worker rows with these ids, as far as they exist, or all without an id, ordered by ID.
	Workers(ids ...string) ([]*Worker, error)
	Tickets(q TicketQuery) ([]*mailroom.Ticket, error)
	// Tokens returns the token rows with these names, or all, ordered by Name. Names are unique.
	Tokens(names ...string) ([]*auth.Token, error)
	Agents() (AgentRows, error)
	Cursors(q CursorQuery) ([]Cursor, error)
	Reservations(q ReservationQuery) ([]Reservation, error)
}

// Prefix is the part of a thread's log below Seq.
type Prefix struct {
	Thread string
	Seq    int64
}

// UseChange says how much a transaction adds to the use of a token, see [auth.Token].
type UseChange struct {
	Token string // name
	Add   auth.Use
}

// Changes are the rows that one transaction writes.
//
// Entries of one thread are consecutive and become one row. Threads contains each thread whose
// entries, keys or new runs are written. These fields never change after the insert: ID, Thread,
// Agent and FirstSeq of a run, which is at most the thread's LastSeq then, and ID, Thread and Run
// of a ticket. No two tokens have the same Name.
//
// A store drops rows before it writes others. The cost of a drop must grow with the dropped rows,
// not with the remaining ones.
type Changes struct {
	// Rows with a key: inserted if it is 0, else updated in all fields that may change.

	Threads []*mailroom.Thread // Owner never changes after the insert
	Runs    []*mailroom.Run
	Tickets []*mailroom.Ticket // their runs exist or are in Runs
	Tokens  []*auth.Token      // an insert writes all fields, an update all but Used, which only Use changes

	// Insertions. No row with the same name exists, except that a definition may exist already.

	Entries     [][]mailroom.Entry // one slice per thread
	BlobPieces  []BlobPiece        // by Thread, Upload and Number; their threads exist or are in Threads
	Keys        []SubmitKey
	Definitions []Definition // an existing Agent and Version is not changed

	// Replacements of the row with the same name, if there is one.

	Partials     []Partial     // by Run and Offset
	Workers      []*Worker     // by ID
	Pauses       []Pause       // by Agent
	Cursors      []Cursor      // by Channel and Identity
	Reservations []Reservation // by ID; their threads exist or are in Threads
	Blobs        []Blob        // by Thread, Agent and Name; their threads exist or are in Threads
	Meters       []Meter       // by Key

	// Sums. They are added to what a row has, so additions of several handles commute and lock
	// nothing.

	Use       []UseChange // to the Used of tokens, after Tokens are written; a name without a token is skipped
	Summaries []Summary   // to the rows with the same keys

	Index *Indexing // of messages; nil: no change

	// Drops, which come before all of the above.

	DropThreads []string // ids, with everything that belongs to them
	// DropEntries drops the entries below Seq, and the runs whose FirstSeq is below it with their
	// tickets, partials and submit keys. A key whose Result is not DispositionQueued has no run of
	// its own; it is dropped when its JoinedSeq is below Seq.
	DropEntries      []Prefix
	DropPartials     []string          // run ids
	DropWorkers      []string          // ids
	DropDefinitions  []Definition      // by Agent and Version
	DropPauses       []string          // agents
	DropCursors      []Cursor          // by Channel and Identity
	DropTokens       []string          // names
	DropReservations []string          // ids
	DropMeters       []string          // keys
	DropBlobs        []BlobRef         // without their pieces
	DropUploads      []UploadRef       // the pieces
	DropSummaries    []SummariesBefore // the rows of a step before a time
}

// Empty reports whether c changes no row, so that a transaction with it needs no commit on stable storage.
func (c *Changes) Empty() bool {
	return len(c.Threads)+len(c.Runs)+len(c.Entries)+len(c.Keys)+len(c.Partials)+len(c.Workers)+len(c.Tickets)+
		len(c.Tokens)+len(c.Use)+len(c.Definitions)+len(c.Pauses)+len(c.Cursors)+len(c.Reservations)+
		len(c.Summaries)+len(c.DropPartials)+len(c.DropWorkers)+len(c.DropThreads)+len(c.DropEntries)+
		len(c.DropDefinitions)+len(c.DropPauses)+len(c.DropCursors)+len(c.DropTokens)+len(c.DropReservations)+
		len(c.DropSummaries)+len(c.Blobs)+len(c.BlobPieces)+len(c.DropBlobs)+len(c.DropUploads)+
		len(c.Meters)+len(c.DropMeters) == 0 && c.Index == nil
}

// SummariesBefore selects the rows of the summary with this step whose period begins before At.
type SummariesBefore struct {
	Step time.Duration
	At   time.Time
}
