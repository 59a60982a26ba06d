// Package project has what agents coordinate through: reservations of names, and notifications. A
// project is a thread whose log has no runs.
//
// Reservations are transitions as in package thread: their rule runs in a transaction of the
// ledger, beside the thread whose log records them. Notifications have no rows: a notification is
// one entry of the log for all recipients.
package project

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// A project is a thread through which agents coordinate. Its log records reservations and
// notifications; its owner and the namespaces of tokens decide who has access.

const (
	// Prefix is the prefix of the ids of project threads.
	Prefix = reserved.Project
	// Default is the project used when none is named.
	Default = "default"

	MaxProject = 100 // characters of a project's name
	MaxName    = 200 // characters of an agent's name in a project
)

// ThreadID returns the id of a project's thread.
func ThreadID(project string) (string, error) {
	id, err := check.ThreadID(Prefix + project)
	switch {
	case err != nil || id != Prefix+project || project == "" || strings.TrimSpace(project) != project:
		return "", check.Invalid("project", "must be a printable name without slashes or surrounding blanks", project)
	case utf8.RuneCountInString(project) > MaxProject:
		return "", check.Invalid("project", fmt.Sprintf("is longer than %d characters", MaxProject), project)
	}
	return id, nil
}

// NameOf returns the project's name if thread is the thread of a project.
func NameOf(thread string) (name string, ok bool) { return strings.CutPrefix(thread, Prefix) }

// State is a loaded project: its thread and its reservations.
type State struct {
	Thread  *thread.State
	agent   string // agent of the thread, if the thread is created
	held    *Index
	changed map[string]*store.Reservation // reservations to write, by id
	dropped []string                      // ids of reservations to delete
}

// Load returns the project of a thread and takes over its reservations. agent becomes the
// thread's agent if the thread does not exist yet.
func Load(t *thread.State, agent string, held *Index) *State {
	return &State{Thread: t, agent: agent, held: held, changed: map[string]*store.Reservation{}}
}

// Reservations returns the reservations after the transitions. A later transaction may use them if
// it finds the thread at the same revision.
func (p *State) Reservations() *Index { return p.held }

// Collect adds the changed reservations to c. The rows of the thread are added by its own Collect.
func (p *State) Collect(c *store.Changes) {
	for _, id := range slices.Sorted(maps.Keys(p.changed)) {
		c.Reservations = append(c.Reservations, *p.changed[id])
	}
	c.DropReservations = append(c.DropReservations, p.dropped...)
}

// CheckUnreserved returns an error if a reservation is still active; such a project must not be
// deleted.
func (p *State) CheckUnreserved(now time.Time) error {
	for _, r := range p.held.rows {
		if r.Live(now) {
			return mailroom.Errorf(mailroom.CodeConflict, "%s: release it first", describe(r))
		}
	}
	return nil
}

// Create creates the project's thread for by, if there is none.
func (p *State) Create(by *auth.Token, now time.Time) { p.Thread.Open(p.agent, by.Name, now) }

// CheckAccess returns an error if the token may not use the project or the agent's name is not
// valid. location names the field with the agent's name.
func (p *State) CheckAccess(by *auth.Token, location, agent string) error {
	if p.IsHidden(by) {
		return p.AccessError()
	}
	return checkAgentName(location, agent)
}

// IsHidden reports whether the project exists and the token may not see it. An operation that only reads or ends
// something then answers as if the project did not exist.
func (p *State) IsHidden(by *auth.Token) bool {
	return p.Thread.Exists() && !by.CanSee(&p.Thread.Thread)
}

// AccessError returns the error for a token that may neither use nor create the project, because another owner has
// it, or because its name lies in a namespace of other tokens. The error does not say which of the two it is. Names
// of projects are unique, as ids of threads are, so a refusal cannot hide that one of them is true.
func (p *State) AccessError() error {
	name, _ := NameOf(p.Thread.ID)
	return mailroom.Errorf(mailroom.CodeNotFound,
		"no project %q for this token: use another name, or a token with the namespace %q", name, p.Thread.ID)
}

func checkAgentName(location, name string) error {
	if !check.IsClean(name) || name == "" || strings.TrimSpace(name) != name || strings.ContainsRune(name, '/') ||
		utf8.RuneCountInString(name) > MaxName {
		return check.Invalid(location,
			fmt.Sprintf("must be a name of 1 to %d characters without slashes or surrounding blanks", MaxName), name)
	}
	return nil
}

// appendEvent appends an entry of the project.
func (p *State) appendEvent(by *auth.Token, kind string, body any, now time.Time) int64 {
	return p.Thread.AppendEntry(p.agent, by.Name, kind, body, now)
}
