package mailroom

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A project is a thread in which agents agree with each other instead of working:
// its log tells who reserved what and what was notified, its owner and a token's
// namespace say who may take part, and its row is locked by whoever reserves.

const (
	// ProjectPrefix begins the ids of the threads of projects, and of no others.
	ProjectPrefix = "project:"
	// DefaultProject is that of who names none.
	DefaultProject = "default"

	MaxProject = 100 // characters of a project's name
	MaxName    = 200 // characters of the name that an agent gives itself in a project
)

// ProjectThread is the thread of a project.
func ProjectThread(project string) (string, error) {
	id, err := CheckThreadID(ProjectPrefix + project)
	switch {
	case err != nil || id != ProjectPrefix+project || project == "" || strings.TrimSpace(project) != project:
		return "", invalid("project", "must be a printable name without a slash, or blanks around it", project)
	case utf8.RuneCountInString(project) > MaxProject:
		return "", invalid("project", fmt.Sprintf("is longer than %d characters", MaxProject), project)
	}
	return id, nil
}

// ProjectOf is the name of the project that a thread is; ok is false if it is none.
func ProjectOf(thread string) (name string, ok bool) { return strings.CutPrefix(thread, ProjectPrefix) }

// Project is a loaded project: its thread, and the rows of its reservations.
type Project struct {
	*ThreadState
	agent   string // of the thread, if it is made
	held    *ReservationIndex
	changed map[string]*Reservation // those to be written, by id
	dropped []string                // ids of those that go
}

// LoadProject takes the thread of a project with its reservations, which become its
// own. agent becomes the thread's if there is none yet.
func LoadProject(t *ThreadState, agent string, held *ReservationIndex) *Project {
	return &Project{ThreadState: t, agent: agent, held: held, changed: map[string]*Reservation{}}
}

// Reservations are the project's reservations as the transitions left them, for another
// transaction that finds the thread at the same revision.
func (p *Project) Reservations() *ReservationIndex { return p.held }

// Collect adds the rows that the transitions changed to c, but for those of the
// thread, which its own Collect adds.
func (p *Project) Collect(c *Changes) {
	for _, id := range slices.Sorted(maps.Keys(p.changed)) {
		c.Reservations = append(c.Reservations, *p.changed[id])
	}
	c.DropReservations = append(c.DropReservations, p.dropped...)
}

// CheckUnreserved refuses while a reservation holds: a project goes when nobody counts on it.
func (p *Project) CheckUnreserved(now time.Time) error {
	for _, r := range p.held.rows {
		if r.Live(now) {
			return Errorf(CodeConflict, "%s: release it first", r.describe())
		}
	}
	return nil
}

// Create makes the project, for who takes part in it, if there is none.
func (p *Project) Create(by *Token, now time.Time) { p.Open(p.agent, by.Name, now) }

// CheckAccess refuses who may not take part. That there is such a project is said:
// its name was chosen, and is no secret. location is where the agent's name was given.
func (p *Project) CheckAccess(by *Token, location, agent string) error {
	if p.exists() && !by.CanSee(&p.Thread) {
		return p.AccessError()
	}
	return checkAgentName(location, agent)
}

// AccessError is the refusal of who may not take part in the project, or make it.
func (p *Project) AccessError() error {
	name, _ := ProjectOf(p.ID)
	return Errorf(CodeForbidden, "project %q is not open to this token: use one with the namespace %q, or another project", name, p.ID)
}

func checkAgentName(location, name string) error {
	if !cleanText(name) || name == "" || strings.TrimSpace(name) != name || strings.ContainsRune(name, '/') || utf8.RuneCountInString(name) > MaxName {
		return invalid(location, fmt.Sprintf("must be a name of 1 to %d characters without a slash, or blanks around it", MaxName), name)
	}
	return nil
}

// appendEvent appends an entry of the project's own.
func (p *Project) appendEvent(by *Token, kind string, body any, now time.Time) int64 {
	return p.AppendEntry(p.agent, by.Name, kind, body, now)
}
