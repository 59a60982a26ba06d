package turn

import (
	"encoding/json"
	"time"

	"mailroom"
)

// Turn is what one run says and does. Its fields are derived from entries only.
type Turn struct {
	Run      string
	Agent    string   // name of the agent; "" if the start of the turn was not applied
	Messages []string // ids of the messages that the run was queued with
	Status   Status
	Attempt  int
	Stopping bool // the turn was asked to stop, and has not ended
	// Begun reports that the turn has its beginning. A turn whose older entries are not kept, or were not read, begins
	// with its first entry that was applied.
	Begun       bool
	First, Last int64     // seqs of its first and last entry that were applied
	Until       time.Time // of a retry: when it starts; of a wait: when it ends at the latest; zero: not known
	Usage       mailroom.Usage
	Reason      mailroom.Reason    // why a cancelled turn was cancelled
	Error       *mailroom.RunError // error of a failed turn

	Parts   []*Part // parts in the order of the log
	Dropped int     // parts beyond MaxParts or MaxTurnBytes, the oldest ones

	assumed bool             // only live text has shown the turn, no entry
	said    string           // id of its last message
	counted int              // the attempt whose start, and every later entry, was applied
	written int              // number of messages of the counted attempt in the log
	calls   map[string]*Part // the newest part of each tool call
	keys    map[string]int   // how many parts have had a key
	tickets map[string]*Part // questions, and children that are waited for
	awaited []awaited
	bytes   int
}

// Status is the status of a turn.
type Status string

// Values of a turn's Status.
const (
	StatusQueued    Status = "queued"
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting"  // waits for answers to its questions, for its children, or until a time
	StatusRetrying  Status = "retrying" // an attempt failed or was lost, and another one follows
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
	StatusLost      Status = "lost" // the turn has ended, and the entry that says how is no longer kept
)

// Finished reports whether a turn with this status has ended. A failed or cancelled turn may be retried later.
func (s Status) Finished() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled || s == StatusLost
}

// Kind is the kind of a part.
type Kind string

// Values of a part's Kind.
const (
	KindText      Kind = "text"
	KindReasoning Kind = "reasoning"
	KindTool      Kind = "tool"
	KindQuestion  Kind = "question"
	KindChild     Kind = "child"
	KindStep      Kind = "step"
	KindData      Kind = "data"
	KindFile      Kind = "file"
	KindError     Kind = "error"
)

// Progress is how far a part is.
type Progress string

// Values of a part's Progress.
const (
	ProgressLive    Progress = "live"    // being written, not in the log yet
	ProgressOpen    Progress = "open"    // a tool or a child works, a question waits
	ProgressDone    Progress = "done"    // complete, or decided
	ProgressFailed  Progress = "failed"  // the tool or the child failed
	ProgressExpired Progress = "expired" // the question was not decided in time
	ProgressVoid    Progress = "void"    // the turn ended before the part, or the call began again
)

// Part is a part of a turn. The fields below Cut are set as the kind says.
type Part struct {
	Key      string // unique in the turn, the same live and in the log
	Kind     Kind
	Progress Progress
	Attempt  int
	Seq      int64 // seq of the part's first entry; 0: only live text has shown it
	// Superseded marks the text, and what stands beside it, of an attempt that broke off and was repeated.
	Superseded bool
	Cut        bool // a value was larger than MaxPartBytes: a text is cut, any other value is left out

	// Text, reasoning, data and files.
	Message  string // id of their message
	Text     string // a live tool call has its arguments so far here, and a question its prompt
	From     int    // bytes of the text that are missing before Text: the reader began within the text
	Internal bool   // the text is not a reply, such as a remark before a tool call
	Partial  bool   // the attempt broke off before the text was complete
	Data     json.RawMessage
	URI      string
	MimeType string

	Name  string         // name of a tool, question, step or file
	Usage mailroom.Usage // usage of a step

	Tool     *Tool
	Question *Question
	Child    *Child
	Failure  *Failure
}

// Tool is a tool call. An agent writes its fields, so they have any content.
type Tool struct {
	Call    string
	Input   json.RawMessage // arguments of the call; nil: not complete, or not known
	Summary string
	Output  json.RawMessage // result of the call; nil: only Summary is known
}

// Question is a ticket, of any kind but children.
type Question struct {
	Ticket    string
	Kind      mailroom.TicketKind
	Action    string
	Arguments json.RawMessage
	Digest    string // digest of the question, to be sent back with a decision
	ExpiresAt *time.Time
	Answers   bool // an approval that takes data as well
	Holds     bool // see [mailroom.Ticket]

	Decision  mailroom.Verdict
	Answer    json.RawMessage
	Reason    string
	DecidedBy string
}

// ForPerson reports whether a person decides the question: an approval, an input, or an event that a program does not
// keep for itself.
func (q *Question) ForPerson() bool {
	return q.Kind == mailroom.TicketApproval || q.Kind == mailroom.TicketInput ||
		q.Kind == mailroom.TicketEvent && !q.Holds
}

// Child is a message to another thread. It stays open until its run has ended if the turn waits for that.
type Child struct {
	Thread  string
	Message string
	Run     string
	Ticket  string             // ticket of the wait; "" if the turn does not wait for the run
	Status  mailroom.Status    // how the run ended
	Reply   *string            // nil also if the reply is too long for an answer: read it from the run
	Error   *mailroom.RunError // error of a failed run
}

// Failure is an attempt that failed or was lost, or the failure of the turn.
type Failure struct {
	Class   mailroom.Class // class of the failure; "" if the worker was lost
	Message string
	Reason  string // why the attempt was rescheduled: retry or lease_lost
	Again   bool   // another attempt follows
	Until   time.Time
}
