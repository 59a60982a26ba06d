package tracker

import (
	"slices"
	"time"
)

// Status is the state of an issue. A file may contain other values; they are kept and count as not
// open.
type Status string

// The statuses that commands set.
const (
	StatusOpen       Status = "open"
	StatusInProgress Status = "in_progress"
	StatusBlocked    Status = "blocked"
	StatusClosed     Status = "closed"
	StatusDeferred   Status = "deferred" // postponed
	StatusPinned     Status = "pinned"   // stays open for reference
	StatusHooked     Status = "hooked"   // work in progress, set by other programs for an agent's hook
	// StatusTombstone marks a deleted issue. The line stays so that a merge with an older copy does
	// not restore the issue.
	StatusTombstone Status = "tombstone"
)

// Known reports whether a command may set the status.
func (s Status) Known() bool {
	return slices.Contains([]Status{StatusOpen, StatusInProgress, StatusBlocked, StatusDeferred, StatusPinned,
		StatusHooked, StatusClosed, StatusTombstone}, s)
}

// Priorities, the most urgent first.
const (
	PriorityCritical = 0
	PriorityNormal   = 2 // the default
	PriorityBacklog  = 4
)

// Issue is one item of the tracker. Unknown members of its line are preserved.
type Issue struct {
	ID, Title, Description    string
	Design, Acceptance, Notes string
	Status                    Status
	Priority                  int    // PriorityCritical … PriorityBacklog
	Type                      string // bug, feature, task, epic, chore, or any other word
	Assignee                  string
	EstimatedMinutes          *int
	CreatedAt, UpdatedAt      time.Time
	CreatedBy                 string
	ClosedAt                  time.Time // zero unless closed
	CloseReason               string
	ExternalRef               string
	DueAt                     time.Time
	DeferUntil                time.Time // time before which the issue is not ready
	DeletedAt                 time.Time // set on a tombstone, with DeletedBy, DeleteReason and OriginalType
	DeletedBy, DeleteReason   string
	OriginalType              string
	Labels                    []string
	Dependencies              []Dependency
	Comments                  []Comment

	line      string // line as it was read; "" for a new issue
	number    int    // number of the line in the file, from 1; 0 for a new line
	cr        bool   // the line ends with a carriage return
	unchanged bool   // the issue was not changed since the line was read
	lazy      bool   // only the id of the line was read
	foreign   bool   // the line has members that are not listed here
	malformed bool   // some members could not be read
	index     int    // position among all issues, for [Tracker.CountDependents]
}

// Dependency links an issue to another one.
type Dependency struct {
	On        string // the other issue
	Type      string // blocks, related, parent-child, discovered-from, or another
	CreatedAt time.Time
	CreatedBy string

	raw string // dependency as it was read; "" if new
}

// Types of dependencies that the tracker interprets.
const (
	DependencyBlocks      = "blocks"       // the issue is not ready until the other is closed
	DependencyParentChild = "parent-child" // the other issue is the parent
)

// Blocks reports whether the issue is not ready until the other one is closed. Other programs write further types for
// this: "waits-for" and "conditional-blocks" of beads also say when the other issue counts as done, which only its
// program knows; so the safe reading is that the issue waits. A dependency without a type blocks too.
func (d Dependency) Blocks() bool {
	return slices.Contains([]string{DependencyBlocks, "", "blocked-by", "depends-on", "waits-for", "conditional-blocks"},
		d.Type)
}

// Comment is a remark on an issue.
type Comment struct {
	ID        int64
	TextID    string // the id of a program that does not number comments; ID is 0 then
	Author    string
	Text      string
	CreatedAt time.Time

	raw string // comment as it was read; "" if new
}
