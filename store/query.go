package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mailroom"
)

// GatePrefix begins a Due.Agent that is no agent, of threads that no worker asks for: see package thread on gates. No
// agent has a name that comes before AfterGates: a configuration, a token and a worker can have none. A store may use
// other names that do.
const (
	GatePrefix = "#"
	AfterGates = "$" // the smallest text after all that begin with GatePrefix
)

// ThreadQuery selects threads that match all fields that are set. The order is newest first (by
// Key, descending), ascending with Oldest.
type ThreadQuery struct {
	IDs    []string // in any order
	Worker string   // threads whose current run this worker holds
	Agent  string
	Owner  string
	// Deleted selects the threads that are being deleted, which no other query returns; see
	// [mailroom.Thread.DeletedAt].
	Deleted   bool
	DeliverTo string // with this DeliverTo
	// Prefix selects the threads whose ID has this prefix, ordered by ID, after the ID After. It
	// combines with Limit and Bytes only.
	Prefix string
	After  string
	// OnePerAgent selects one thread for each Due.Agent, due now or later, ordered by Due.Agent, but for names that begin
	// with GatePrefix. Its cost must not grow with their number. A store may also return one without a Due.Agent. No
	// other field may be set. It is a field and not a method, although it asks for agents, because a Reader should not
	// get more methods.
	OnePerAgent bool
	From        int64 // only Keys below it, or above it with Oldest; 0: from the start
	Oldest      bool
	Limit       int // 0: no limit
	Bytes       int // see RunQuery
}

// RunQuery selects runs that match all fields that are set. The order is newest first (by Key,
// descending), unless Set has another.
type RunQuery struct {
	IDs    []string // in any order
	Thread string
	Agent  string
	Parent string // runs that descend from this run
	// Statuses selects the runs with one of these statuses. A store may find the running runs through the threads: a
	// running run is the Current run of a thread that has a Worker.
	Statuses []mailroom.Status
	// Owner selects the runs of this owner's threads. Of the other fields only Threads, Group, From, Oldest, Limit
	// and Bytes may be set. A store may also return runs of other owners that are older than its index of owners, so
	// the caller must check the owners of the threads.
	Owner string
	// Threads selects the runs of the threads with these Keys. If Owner is set too, the list also has the runs of the
	// owner's threads. Of the other fields only From, Oldest, Limit and Bytes may be set. The cost must not grow with
	// other threads.
	Threads []int64
	// Group selects the failed runs with this ErrorGroup. Of the other fields only Owner, From, Oldest, Limit
	// and Bytes may be set.
	Group string
	// Prefix selects the runs whose ID has this prefix, ordered by ID, after the ID After. Of the other fields only
	// Limit and Bytes may be set.
	Prefix string
	After  string
	// Overdue selects the open runs that were not asked to stop and whose Deadline is at this time or before, the
	// earliest first. Of the other fields only Limit may be set.
	Overdue time.Time
	Set     RunSet
	From    int64 // only Keys below it, or above it with Oldest; 0: from the start; not with a Set
	Oldest  bool  // oldest first; not with a Set
	Limit   int   // 0: no limit
	// Bytes ends the list with the row that exceeds it, so one page has at most one row more than
	// Bytes, in the size that the store keeps. 0: no limit; not with IDs.
	Bytes int
}

// RunSet is a part of a thread's runs with an order of its own.
type RunSet int

const (
	RunsAll       RunSet = iota
	RunsQueued           // never started and not scheduled, by (Priority, Place)
	RunsScheduled        // never started and scheduled, by (NotBefore, Place)
	// RunsNext has the first run of RunsQueued of each of the Threads, in any order. No other field may be set. A
	// store in another process answers it in one round trip.
	RunsNext
)

// CountQuery selects the rows to count: those that match all fields that are set.
type CountQuery struct {
	Owner    *string // of the thread; "" selects threads without an owner
	Agent    string
	Statuses []mailroom.Status
	Thread   string // counts the runs of this thread, or of its Set
	Set      RunSet // requires Thread
	Most     int    // the count stops at this number, of any runs; requires Thread or Failures; 0: no limit
	// Failures sums up the newest failed runs that have an ErrorGroup, at most Most of them. Of the
	// other fields only Owner or Agent may be set, not both.
	Failures bool
	// ByAgent counts the runs of each agent. Of the other fields only Owner may be set.
	ByAgent bool
	// Summaries reads the summary of ended runs. No other field may be set.
	Summaries *SummaryQuery
	// Meters reads meters, without a lock. No other field may be set. It is a field, although it counts nothing,
	// because a Reader should not get more methods.
	Meters *MeterQuery
}

// SummaryQuery selects rows of the summary of ended runs, in the order of their keys. Rows of minutes
// and hours that are older than KeepSummaries may be missing.
type SummaryQuery struct {
	Step  time.Duration
	From  time.Time  // zero: no limit
	To    time.Time  // exclusive; zero: no limit
	Agent *string    // "" selects the rows that sum up all agents; nil: all rows
	After SummaryKey // rows after this key, whose Step is not used
	Limit int        // 0: no limit
	Keys  bool       // the results have no sums; not with Of
	// Of are distinct agents. It adds up the rows of each agent from From until To. The results of an agent are one
	// without a status, which has all its sums, and one of each of [SummedStatuses] with runs, which has only Runs.
	// Their At is From. A sum beyond the range of an integer is its maximum. Agent, After
	// and Limit must not be set. A store answers it with one statement.
	Of []string
	// Last, with Of, finds the latest row of each agent instead: the results have no status and no sums. It ignores
	// From and To.
	Last bool
}

// Counts is the result of a CountQuery. Threads and Due are set if the query has no field but
// Owner; Failures, Agents, Summaries and Meters if it asks for them, then nothing else is.
type Counts struct {
	Runs     map[mailroom.Status]int // without zero counts
	Threads  int                     // including those being deleted
	Due      time.Time               // earliest due time of a thread with a Due.Agent that is no gate
	Failures []FailureCount          // in any order
	Agents   map[string]map[mailroom.Status]int

	Summaries []Summary
	Meters    []Meter
}

// AddAgent adds runs of an agent to Agents.
func (c *Counts) AddAgent(agent string, status mailroom.Status, n int) {
	if n == 0 {
		return
	}
	if c.Agents == nil {
		c.Agents = map[string]map[mailroom.Status]int{}
	}
	if c.Agents[agent] == nil {
		c.Agents[agent] = map[mailroom.Status]int{}
	}
	c.Agents[agent][status] += n
}

// FailureCount sums up the failed runs of one error group and agent.
type FailureCount struct {
	Group  string
	Agent  string
	Runs   int
	First  time.Time // earliest and latest end
	Last   time.Time
	Newest string // id of the run with the greatest Key
	Key    int64  // its Key
}

// Sum returns the number of runs.
func (c Counts) Sum() (n int) {
	for _, of := range c.Runs {
		n += of
	}
	return n
}

// TicketQuery selects tickets that match all fields that are set. The order is newest first (by
// Key, descending), ascending with Oldest.
type TicketQuery struct {
	IDs    []string // in any order
	Runs   []string // of these runs; in any order
	Thread string
	// Owner and Threads select tickets as they select runs in RunQuery. Of the other fields only States, Kinds, From,
	// Oldest, Limit and Bytes may be set.
	Owner   string
	Threads []int64
	Prefix  string // as in RunQuery
	After   string
	States  []mailroom.TicketState
	Kinds   []mailroom.TicketKind
	From    int64 // only Keys below it, or above it with Oldest; 0: from the start
	Oldest  bool
	Limit   int // 0: no limit
	Bytes   int // see RunQuery; not with IDs or Runs
}

// KeyQuery selects submit keys of one thread. Without All, it selects the Keys that exist, in the order of Keys. With
// All, it selects the keys with a Key after After, ordered by Key.
type KeyQuery struct {
	Thread string
	Keys   []string
	All    bool
	After  string // with All only; "": from the first
	Limit  int    // with All only; 0: no limit
	// Blobs selects blobs of the thread. The query sets the result fields of Blobs and returns no keys. Of the other
	// fields only Thread may be set.
	Blobs *BlobQuery
}

// ReservationQuery selects reservations that match all fields that are set, ordered by Thread,
// Fence and ID.
type ReservationQuery struct {
	ID     string
	Thread string // of this project
}

// CursorQuery selects cursors that match all fields that are set, ordered by Channel and Identity.
type CursorQuery struct {
	Channel    string
	Identities []string  // distinct; requires Channel
	After      CursorRef // only cursors behind it; not with Channel
	Limit      int       // 0: all; not with Identities
}

// CursorRef names a cursor.
type CursorRef struct{ Channel, Identity string }

// EntryRef names an entry by its thread and its position there.
type EntryRef struct {
	Thread string
	Seq    int64
}

// EntryQuery selects a range of one thread's log, ordered by Seq, descending with Backward. Kinds
// and Run filter the range.
type EntryQuery struct {
	Thread   string
	After    int64 // exclusive; 0: from the first
	Before   int64 // exclusive; 0: to the last
	Backward bool
	Kinds    []string
	Run      string
	Limit    int // 0: no limit
	// Bytes ends the list with the entry that exceeds it, counting the entries' JSON. A list with
	// more than Bytes therefore may be incomplete. 0: no limit.
	Bytes int
	// At selects these entries, as far as they exist: each once, in any order. No other field may be set with At. A
	// store in another process answers it in one round trip.
	At []EntryRef
	// All selects the entries of all threads after a position. The query sets the result fields of All. Of the other
	// fields only Limit and Bytes may be set.
	All *AllEntries
	// Search finds messages. The query sets the result fields of Search and returns no entries. No other field may be
	// set.
	Search *Search
}

// EachAt returns the entries that q.At names. It asks r for each range of adjacent entries, so it suits stores whose
// queries need no round trip.
func (q EntryQuery) EachAt(r Reader) ([]mailroom.Entry, error) {
	at := slices.SortedFunc(slices.Values(q.At), func(a, b EntryRef) int {
		return cmp.Or(strings.Compare(a.Thread, b.Thread), cmp.Compare(a.Seq, b.Seq))
	})
	at = slices.Compact(at)
	var all []mailroom.Entry
	for len(at) > 0 {
		first, n := at[0], 1
		for n < len(at) && at[n] == (EntryRef{first.Thread, first.Seq + int64(n)}) {
			n++
		}
		found, err := r.Entries(EntryQuery{
			Thread: first.Thread, After: first.Seq - 1, Before: first.Seq + int64(n), Limit: n,
		})
		if err != nil {
			return nil, err
		}
		all, at = append(all, found...), at[n:]
	}
	return all, nil
}
