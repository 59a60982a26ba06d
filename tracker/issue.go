package tracker

import (
	"slices"
	"time"
)

// Status is where an issue stands. A file may hold others than these; they are
// kept, and count as not open.
type Status string

// The statuses that commands set.
const (
	StatusOpen       Status = "open"
	StatusInProgress Status = "in_progress"
	StatusBlocked    Status = "blocked"
	StatusClosed     Status = "closed"
	StatusDeferred   Status = "deferred" // not before later
	StatusPinned     Status = "pinned"   // stays open for reference
	StatusHooked     Status = "hooked"   // on the hook of an agent, which other programs set: it is work in progress
	// StatusTombstone is what is left of a deleted issue, so that a copy which still
	// has it does not bring it back.
	StatusTombstone Status = "tombstone"
)

// Known reports whether a status is one that a command may name.
func (s Status) Known() bool {
	return slices.Contains([]Status{StatusOpen, StatusInProgress, StatusBlocked, StatusDeferred, StatusPinned, StatusHooked, StatusClosed, StatusTombstone}, s)
}

// Priorities, the most urgent first.
const (
	PriorityCritical = 0
	PriorityNormal   = 2 // of issues that say nothing
	PriorityBacklog  = 4
)

// Issue is an item of the tracker. Members of its line that are not here are
// kept as they are.
type Issue struct {
	ID, Title, Description    string
	Design, Acceptance, Notes string
	Status                    Status
	Priority                  int    // Critical … Backlog
	Type                      string // bug, feature, task, epic, chore, or anybody's own
	Assignee                  string
	EstimatedMinutes          *int
	CreatedAt, UpdatedAt      time.Time
	CreatedBy                 string
	ClosedAt                  time.Time // zero unless Closed
	CloseReason               string
	ExternalRef               string
	DueAt                     time.Time
	DeferUntil                time.Time // not ready before
	DeletedAt                 time.Time // with DeletedBy, DeleteReason and OriginalType: of a Tombstone
	DeletedBy, DeleteReason   string
	OriginalType              string
	Labels                    []string
	Dependencies              []Dependency
	Comments                  []Comment

	line      string // as it was read; "": it is new
	unchanged bool   // nothing was changed since
	lazy      bool   // only its id was read
	foreign   bool   // its line has members that are not here
	malformed bool   // some of its members could not be read
	index     int    // among all, for [Tracker.CountDependents]
}

// Dependency says that an issue needs another, or has to do with it.
type Dependency struct {
	On        string // the other issue
	Type      string // blocks, related, parent-child, discovered-from, or another
	CreatedAt time.Time
	CreatedBy string

	raw string // as it was read; "": it is new
}

// Types of dependencies that mean something to the tracker.
const (
	DependencyBlocks      = "blocks"       // the issue is not ready before the other is closed
	DependencyParentChild = "parent-child" // the other is the issue's parent
)

// Comment is a remark on an issue.
type Comment struct {
	ID        int64
	Author    string
	Text      string
	CreatedAt time.Time

	raw string // as it was read; "": it is new
}
