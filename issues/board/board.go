// Package board assigns the issues of a board outside, such as a repository of GitHub, to agents, as package feed does
// with the issues of a tracker.
//
// The ledger records the claims: the submit key of a run names the issue and its generation, so a repeat is the same
// run. The marks on the board only show a claim. The feed polls a board; a list is a hint, and the feed reads an issue
// again by its id before it submits the issue and before each write. Deliveries write the comments and marks, so their
// retries follow the rules of any run.
package board

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Board is one place with issues. It makes one call of the platform, or a bounded number, for each call of a method,
// and retries nothing: the feed polls again, and the engine repeats a delivery. Its methods are called concurrently.
//
// Each call is bounded in bytes and time. Package httpcall defines the errors: a [mailroom.Failure] in the tree may ask
// for a pause, and a write whose outcome is unknown wraps [mailroom.ErrUnknown]. No error contains a token.
type Board interface {
	// Account returns the name of the account that writes, "" if the platform does not say it. A refused token is a
	// [channel.Fatal] error.
	Account(ctx context.Context) (string, error)
	// Changes returns issues that have changed since a cursor, the oldest change first. An empty cursor lists the open
	// issues. The same issue may come again; no change may be missed.
	Changes(ctx context.Context, cursor string) (Changes, error)
	// Issue reads one issue, with what blocks it. The error wraps [ErrGone] if the issue does not exist here any more.
	Issue(ctx context.Context, id string) (Issue, error)
	// Comment writes a comment, with the hidden key by which FindComment finds it.
	Comment(ctx context.Context, c Comment) error
	// FindComment reports whether the account has written the comment with this key. It is called before Comment is
	// repeated.
	FindComment(ctx context.Context, c Comment) (found bool, err error)
	// Mark shows the state of the work at an issue, and returns the issue afterwards. Repeating it changes nothing. A
	// closed issue stays closed, as a person may close it in the moment of its claim.
	Mark(ctx context.Context, it Issue, m Mark) (Issue, error)
	// Status describes the limits of the platform, such as "4,981 requests left", "" if none are known.
	Status() string
	// Close releases idle connections.
	Close()
}

// ErrGone says that an issue was deleted or moved, or that the token may no longer see it.
var ErrGone = errors.New("the issue was deleted or moved, or the token may not see it")

// Changes is one page of changed issues.
type Changes struct {
	Issues  []Issue
	Next    string // cursor of the next call
	More    bool   // the next call has further changes now
	Invalid int    // rows that are no issue and were left out
}

// Issue is an issue as a board shows it.
type Issue struct {
	ID        string // names it in calls; unique in the board
	Native    string // the platform's id, which stays the same; another one under ID is another issue
	Name      string // as people write it, such as "ann/roof#12"
	Title     string
	Body      string
	URL       string
	Labels    []string // lower case
	Assignees []string
	State     State
	Status    string   // the state as the board names it, such as "Todo"
	Priority  int      // 0, the most urgent, to 4; 2 if the board does not say
	Blocked   []string // names of the open issues that it waits for; only [Board.Issue] sets them
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Bounds of what an issue has, in bytes. Linear bounds a description to 250,000 characters.
const (
	MaxTitle = 1 << 10 // of a title, a label or an address
	MaxBody  = 256 << 10
)

// DefaultPriority is the priority of an issue whose board says none.
const DefaultPriority = 2

// Cut returns the first most bytes of a text, without half of a character.
func Cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// State is the state of an issue as the marks on the board show it.
type State string

const (
	StateOpen    State = "open"    // no mark: an agent may start
	StateWorking State = "working" // some server has claimed it
	StateBlocked State = "blocked" // its run failed or was cancelled; a person decides
	StateDone    State = "done"    // its run completed; a person closes it
	StateClosed  State = "closed"
)

// Mark is what a claim shows on the board.
type Mark string

const (
	MarkWorking Mark = "working" // a run was submitted
	MarkClosed  Mark = "closed"  // its run completed: close the issue
	MarkDone    Mark = "done"    // its run completed: leave the issue open
	MarkBlocked Mark = "blocked" // its run failed or was cancelled
	MarkNone    Mark = "none"    // the claim has ended without a result
)

// maxComment bounds the text of a comment, in bytes. A board may write 4 KiB around it: GitHub takes 65,536 characters.
const maxComment = 60 << 10

// Comment is a comment that is written once.
type Comment struct {
	Issue string // its ID
	Key   string // identifies the comment; letters, digits and "-", ".", "_", ":"
	Text  string // Markdown, at most 60 KiB
	// Since is a time before the first attempt to write it, by the clock of this server.
	Since time.Time
}
