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
	Open       Status = "open"
	InProgress Status = "in_progress"
	Blocked    Status = "blocked"
	Closed     Status = "closed"
	// Tombstone is what is left of a deleted issue, so that a copy which still
	// has it does not bring it back.
	Tombstone Status = "tombstone"
)

// Known reports whether a status is one that a command may name.
func (s Status) Known() bool {
	return slices.Contains([]Status{Open, InProgress, Blocked, "deferred", "pinned", Closed, Tombstone}, s)
}

// Priorities, the most urgent first.
const (
	Critical = 0
	Normal   = 2 // of issues that say nothing
	Backlog  = 4
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
	ClosedAt                  time.Time // zero unless Closed
	CloseReason               string
	ExternalRef               string
	DeletedAt                 time.Time // with DeletedBy, DeleteReason and OriginalType: of a Tombstone
	DeletedBy, DeleteReason   string
	OriginalType              string
	Labels                    []string
	Dependencies              []Dependency
	Comments                  []Comment

	line string // as it was read; "": it is new
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
	Blocks      = "blocks"       // the issue is not ready before the other is closed
	ParentChild = "parent-child" // the other is the issue's parent
)

// Comment is a remark on an issue.
type Comment struct {
	ID        int64
	Author    string
	Text      string
	CreatedAt time.Time

	raw string // as it was read; "": it is new
}

// member is one of the members of a line that the tracker knows.
type member struct {
	name string
	// read sets it from JSON, or says what it is not.
	read func(it *Issue, raw string) error
	// write returns its JSON, "" if it is left out.
	write func(it *Issue) string
}

// members are all that are known, in the order in which a new line has them.
func members() []member {
	return []member{
		always("id", func(it *Issue) *string { return &it.ID }),
		always("title", func(it *Issue) *string { return &it.Title }),
		always("description", func(it *Issue) *string { return &it.Description }),
		text("design", func(it *Issue) *string { return &it.Design }),
		text("acceptance_criteria", func(it *Issue) *string { return &it.Acceptance }),
		text("notes", func(it *Issue) *string { return &it.Notes }),
		always("status", func(it *Issue) *Status { return &it.Status }),
		{"priority", func(it *Issue, raw string) error { return readNumber(raw, &it.Priority) },
			func(it *Issue) string { return encode(it.Priority) }},
		always("issue_type", func(it *Issue) *string { return &it.Type }),
		text("assignee", func(it *Issue) *string { return &it.Assignee }),
		{"estimated_minutes", func(it *Issue, raw string) error {
			it.EstimatedMinutes = nil
			return readJSON(raw, &it.EstimatedMinutes)
		},
			func(it *Issue) string { return encodeUnless(it.EstimatedMinutes == nil, it.EstimatedMinutes) }},
		moment("created_at", true, func(it *Issue) *time.Time { return &it.CreatedAt }),
		moment("updated_at", true, func(it *Issue) *time.Time { return &it.UpdatedAt }),
		moment("closed_at", false, func(it *Issue) *time.Time { return &it.ClosedAt }),
		text("close_reason", func(it *Issue) *string { return &it.CloseReason }),
		text("external_ref", func(it *Issue) *string { return &it.ExternalRef }),
		moment("deleted_at", false, func(it *Issue) *time.Time { return &it.DeletedAt }),
		text("deleted_by", func(it *Issue) *string { return &it.DeletedBy }),
		text("delete_reason", func(it *Issue) *string { return &it.DeleteReason }),
		text("original_type", func(it *Issue) *string { return &it.OriginalType }),
		{"labels", func(it *Issue, raw string) error {
			it.Labels = nil
			return readTexts(raw, &it.Labels)
		},
			func(it *Issue) string { return encodeUnless(len(it.Labels) == 0, it.Labels) }},
		{"dependencies", readDependencies, writeDependencies},
		{"comments", readComments, writeComments},
	}
}

func always[T ~string](name string, of func(*Issue) *T) member {
	m := text(name, of)
	m.write = func(it *Issue) string { return encode(*of(it)) }
	return m
}

func text[T ~string](name string, of func(*Issue) *T) member {
	return member{name,
		func(it *Issue, raw string) error {
			s, ok := plainString(raw)
			if !ok && raw != "null" {
				return notA("text", raw)
			}
			*of(it) = T(s)
			return nil
		},
		func(it *Issue) string { return encodeUnless(*of(it) == "", *of(it)) },
	}
}

func moment(name string, always bool, of func(*Issue) *time.Time) member {
	return member{name,
		func(it *Issue, raw string) error { return readMoment(raw, of(it)) },
		func(it *Issue) string { return encodeUnless(!always && of(it).IsZero(), *of(it)) },
	}
}

func encodeUnless(absent bool, v any) string {
	if absent {
		return ""
	}
	return encode(v)
}

// encode writes a value as git's eyes want it: without HTML escapes.
func encode(v any) string {
	b, err := marshal(v)
	if err != nil {
		panic(err) // texts, numbers and times between the years 1 and 9999 always encode
	}
	return b
}
