package tracker

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
)

const maxTitle = 500 // characters

// Signature is who changes something, and when.
type Signature struct {
	Actor string
	At    time.Time
}

// NewIssue is an issue to be created. Blank fields have their defaults.
type NewIssue struct {
	Issue         // what is known of it; its ID may be given
	Prefix string // of its id, unless that is given or follows from Parent
	Parent string // becomes its parent, and the beginning of its id
}

// Create adds an issue.
func (t *Tracker) Create(d NewIssue, by Signature) (*Issue, error) {
	it := d.Issue
	it.CreatedAt, it.UpdatedAt, it.CreatedBy = by.At, by.At, by.Actor
	if it.Status == "" {
		it.Status = StatusOpen
	}
	if it.Type == "" {
		it.Type = "task"
	}
	if err := it.validate(); err != nil {
		return nil, err
	}
	if err := t.assignID(&it, d, by); err != nil {
		return nil, err
	}
	deps := it.Dependencies
	it.Dependencies = nil
	if d.Parent != "" {
		parent, err := t.Find(d.Parent)
		if err != nil {
			return nil, err
		}
		deps = append(deps, Dependency{On: parent.ID, Type: DependencyParentChild})
	}
	t.put(&it)
	for _, dep := range deps {
		if _, err := t.AddDependency(it.ID, dep.On, dep.Type, by); err != nil {
			t.issues.drop(it.ID)
			return nil, err
		}
	}
	return t.issues.get(it.ID), nil
}

func (t *Tracker) assignID(it *Issue, d NewIssue, by Signature) (err error) {
	switch {
	case it.ID != "":
		if t.issues.has(it.ID) {
			return mailroom.Errorf(mailroom.CodeConflict, "there is an issue %s already", it.ID)
		}
		return CheckPrefix(it.ID)
	case d.Parent != "":
		parent, err := t.Find(d.Parent)
		if err != nil {
			return err
		}
		it.ID, err = t.childID(parent.ID)
		return err
	}
	if err = CheckPrefix(d.Prefix); err == nil {
		it.ID = t.newID(d.Prefix, it, by.Actor)
	}
	return err
}

// validate refuses what a command must not write; what others wrote is kept.
func (it *Issue) validate() error {
	if n := utf8.RuneCountInString(it.Title); n == 0 || n > maxTitle || strings.ContainsAny(it.Title, "\x00") {
		return mailroom.Errorf(mailroom.CodeInvalid, "a title has 1 to %d characters, this one has %d", maxTitle, n)
	}
	if it.Priority < PriorityCritical || it.Priority > PriorityBacklog {
		return mailroom.Errorf(mailroom.CodeInvalid, "priority %d is not between %d (critical) and %d (backlog)", it.Priority, PriorityCritical, PriorityBacklog)
	}
	if !it.Status.Known() || it.Status == StatusTombstone {
		return mailroom.Errorf(mailroom.CodeInvalid, "status %q is not one of open, in_progress, blocked, deferred, pinned, hooked, closed", it.Status)
	}
	for _, s := range []string{it.Title, it.Description, it.Design, it.Acceptance, it.Notes, it.Assignee, it.Type, it.ExternalRef, it.CloseReason} {
		if !utf8.ValidString(s) {
			return mailroom.Errorf(mailroom.CodeInvalid, "text is not valid UTF-8")
		}
	}
	return nil
}

// Update changes an issue. What change leaves invalid is refused, and nothing is
// changed then.
func (t *Tracker) Update(id string, by Signature, change func(*Issue) error) (*Issue, error) {
	old, err := t.findLive(id)
	if err != nil {
		return nil, err
	}
	it := *old
	it.Labels = slices.Clone(old.Labels)
	it.Dependencies = slices.Clone(old.Dependencies)
	it.Comments = slices.Clone(old.Comments)
	if err := change(&it); err != nil {
		return nil, err
	}
	if it.Title != old.Title || it.Priority != old.Priority || it.Status != old.Status || it.line == "" {
		if err := it.validate(); err != nil {
			return nil, err
		}
	}
	it.UpdatedAt = by.At
	switch {
	case it.Status == StatusClosed && it.ClosedAt.IsZero():
		it.ClosedAt = by.At
	case it.Status != StatusClosed:
		it.ClosedAt, it.CloseReason = time.Time{}, ""
	}
	t.put(&it)
	return &it, nil
}

// findLive finds an issue that is not deleted.
func (t *Tracker) findLive(id string) (*Issue, error) {
	it, err := t.Find(id)
	if err == nil && it.Status == StatusTombstone {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "issue %s was deleted", it.ID)
	}
	return it, err
}

// Claim makes an issue the actor's and puts it in progress. One that somebody
// else holds, or that is closed, is refused, naming the holder.
func (t *Tracker) Claim(id string, by Signature) (*Issue, error) {
	return t.Update(id, by, func(it *Issue) error {
		switch {
		case it.Status == StatusClosed:
			return mailroom.Errorf(mailroom.CodeConflict, "%s is closed", it.ID)
		case it.Assignee != "" && it.Assignee != by.Actor:
			return mailroom.Errorf(mailroom.CodeConflict, "%s is claimed by %s", it.ID, it.Assignee)
		}
		it.Assignee, it.Status = by.Actor, StatusInProgress
		return nil
	})
}

// Close ends an issue. One that is closed stays as it is.
func (t *Tracker) Close(id, reason string, by Signature) (*Issue, error) {
	it, err := t.findLive(id)
	if err != nil || it.Status == StatusClosed {
		return it, err
	}
	return t.Update(it.ID, by, func(it *Issue) error {
		it.Status, it.CloseReason = StatusClosed, reason
		return nil
	})
}

// Delete leaves a tombstone, and takes the issue out of the dependencies of
// others. With cascade those that depend on it go too; without it, an issue that
// others depend on is refused unless force is given. It returns what is deleted.
func (t *Tracker) Delete(ids []string, reason string, cascade, force bool, by Signature) ([]*Issue, error) {
	doomed := map[string]bool{}
	var todo []string
	for _, id := range ids {
		it, err := t.findLive(id)
		if err != nil {
			return nil, err
		}
		todo = append(todo, it.ID)
	}
	var above map[string][]*Issue
	if cascade {
		above = t.dependentsByID()
	}
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		if doomed[id] {
			continue
		}
		doomed[id] = true
		for _, on := range above[id] {
			todo = append(todo, on.ID)
		}
	}
	isDoomed := func(d Dependency) bool { return doomed[d.On] }
	tied := t.filter(func(it *Issue) bool { return !doomed[it.ID] && slices.ContainsFunc(it.Dependencies, isDoomed) })
	for _, it := range tied {
		if it.Status != StatusTombstone && !force {
			on := it.Dependencies[slices.IndexFunc(it.Dependencies, isDoomed)].On
			return nil, mailroom.Errorf(mailroom.CodeConflict, "%s depends on %s; delete it too with --cascade, or cut the tie with --force", it.ID, on)
		}
	}
	for _, it := range tied {
		free := *it
		free.Dependencies = slices.DeleteFunc(slices.Clone(it.Dependencies), isDoomed)
		free.UpdatedAt = by.At
		t.put(&free)
	}
	var gone []*Issue
	for _, id := range slices.Sorted(maps.Keys(doomed)) {
		it := t.issues.get(id)
		dead := *it
		dead.OriginalType, dead.Status = it.Type, StatusTombstone
		dead.DeletedAt, dead.DeletedBy, dead.DeleteReason, dead.UpdatedAt = by.At, by.Actor, reason, by.At
		dead.ClosedAt, dead.CloseReason = time.Time{}, ""
		t.put(&dead)
		gone = append(gone, &dead)
	}
	return gone, nil
}

// Dependents are the issues that depend on id, by id.
func (t *Tracker) Dependents(id string) []*Issue {
	var found []*Issue
	for _, it := range t.issues.all() {
		if it.Status != StatusTombstone && slices.ContainsFunc(it.Dependencies, func(d Dependency) bool { return d.On == id }) {
			found = append(found, it)
		}
	}
	return found
}

// dependentsByID are the dependents of each issue, by id.
func (t *Tracker) dependentsByID() map[string][]*Issue {
	found := make(map[string][]*Issue, len(t.issues.order))
	for _, it := range t.issues.all() {
		if it.Status == StatusTombstone {
			continue
		}
		for i, d := range it.Dependencies {
			if !slices.ContainsFunc(it.Dependencies[:i], func(x Dependency) bool { return x.On == d.On }) {
				found[d.On] = append(found[d.On], it)
			}
		}
	}
	return found
}

// AddDependency makes an issue depend on another; "" is of type blocks. Doing it again
// changes nothing. A circle of issues that block each other is refused.
func (t *Tracker) AddDependency(id, on, kind string, by Signature) (*Issue, error) {
	it, err := t.findLive(id)
	if err != nil {
		return nil, err
	}
	other, err := t.findLive(on)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = DependencyBlocks
	}
	switch {
	case it.ID == other.ID:
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s cannot depend on itself", it.ID)
	case slices.ContainsFunc(it.Dependencies, func(d Dependency) bool { return d.On == other.ID && d.Type == kind }):
		return it, nil
	case (kind == DependencyBlocks || kind == DependencyParentChild) && t.reaches(other.ID, it.ID, kind):
		return nil, mailroom.Errorf(mailroom.CodeConflict, "%s depends on %s already: together they would wait for each other", other.ID, it.ID)
	}
	return t.Update(it.ID, by, func(it *Issue) error {
		it.Dependencies = append(it.Dependencies, Dependency{On: other.ID, Type: kind, CreatedAt: by.At, CreatedBy: by.Actor})
		return nil
	})
}

// MoveDependencies moves the ties of a duplicate to the issue that is kept: what depends on the
// duplicate depends on keep, and keep depends on what the duplicate does. It leaves out a
// tie of keep with itself, one that keep has, one that would close a circle, and a second
// parent. A tie to an issue that is not there stays with the duplicate.
func (t *Tracker) MoveDependencies(duplicate, keep string, by Signature) error {
	dup, err := t.findLive(duplicate)
	if err != nil {
		return err
	}
	kept, err := t.findLive(keep)
	if err != nil {
		return err
	}
	if dup.ID == kept.ID {
		return mailroom.Errorf(mailroom.CodeInvalid, "%s cannot be a duplicate of itself", dup.ID)
	}
	type tie struct{ id, on, kind string }
	var ties []tie
	for _, it := range t.Dependents(dup.ID) {
		for _, d := range it.Dependencies {
			if d.On == dup.ID {
				ties = append(ties, tie{it.ID, kept.ID, d.Type})
			}
		}
		if _, _, err := t.RemoveDependency(it.ID, dup.ID, "", by); err != nil {
			return err
		}
	}
	for _, d := range dup.Dependencies {
		if other := t.issues.get(d.On); other == nil || other.Status == StatusTombstone {
			continue
		}
		ties = append(ties, tie{kept.ID, d.On, d.Type})
		if _, _, err := t.RemoveDependency(dup.ID, d.On, d.Type, by); err != nil {
			return err
		}
	}
	for _, d := range ties {
		if d.id == d.on || d.kind == DependencyParentChild && d.id == kept.ID && t.issues.get(kept.ID).Parent() != "" {
			continue
		}
		if _, err := t.AddDependency(d.id, d.on, d.kind, by); err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
			return err
		}
	}
	return nil
}

// SetParent makes an issue a child of another one, and of no other; "" of none.
func (t *Tracker) SetParent(id, parent string, by Signature) (*Issue, error) {
	it, err := t.findLive(id)
	if err != nil {
		return nil, err
	}
	if parent != "" {
		other, err := t.findLive(parent)
		if err != nil {
			return nil, err
		}
		parent = other.ID
	}
	if it.Parent() == parent {
		return it, nil
	}
	it, err = t.Update(it.ID, by, func(it *Issue) error {
		it.Dependencies = slices.DeleteFunc(it.Dependencies, func(d Dependency) bool { return d.Type == DependencyParentChild })
		return nil
	})
	if err != nil || parent == "" {
		return it, err
	}
	return t.AddDependency(it.ID, parent, DependencyParentChild, by)
}

// reaches reports whether one issue leads to another by dependencies of a type.
func (t *Tracker) reaches(from, to, kind string) bool {
	seen := map[string]bool{}
	todo := []string{from}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id == to {
			return true
		}
		if it := t.issues.get(id); it != nil && !seen[id] {
			seen[id] = true
			for _, d := range it.Dependencies {
				if d.Type == kind {
					todo = append(todo, d.On)
				}
			}
		}
	}
	return false
}

// RemoveDependency takes a dependency away, "" those of all types, and returns the id of
// the issue that it was on.
func (t *Tracker) RemoveDependency(id, on, kind string, by Signature) (it *Issue, other string, err error) {
	if it, err = t.findLive(id); err != nil {
		return nil, "", err
	}
	other = on
	if found, err := t.Find(on); err == nil {
		other = found.ID // else the issue may be gone, and the tie to it not
	}
	tie := func(d Dependency) bool { return d.On == other && (kind == "" || d.Type == kind) }
	if !slices.ContainsFunc(it.Dependencies, tie) {
		return nil, "", mailroom.Errorf(mailroom.CodeNotFound, "%s does not depend on %s", it.ID, other)
	}
	it, err = t.Update(it.ID, by, func(it *Issue) error {
		it.Dependencies = slices.DeleteFunc(it.Dependencies, tie)
		return nil
	})
	return it, other, err
}

// AddComment adds a comment.
func (t *Tracker) AddComment(id, text string, by Signature) (Comment, error) {
	c := Comment{ID: 1, Author: by.Actor, Text: text, CreatedAt: by.At}
	if strings.TrimSpace(text) == "" || !utf8.ValidString(text) {
		return c, mailroom.Errorf(mailroom.CodeInvalid, "a comment needs text")
	}
	_, err := t.Update(id, by, func(it *Issue) error {
		for _, old := range it.Comments {
			c.ID = max(c.ID, old.ID+1)
		}
		it.Comments = append(it.Comments, c)
		return nil
	})
	return c, err
}

// UpdateLabels adds labels and removes others. What is there already, or not, stays so.
func (t *Tracker) UpdateLabels(id string, add, remove []string, by Signature) (*Issue, error) {
	for _, l := range add {
		if strings.TrimSpace(l) == "" || strings.ContainsAny(l, ",\n\x00") {
			return nil, mailroom.Errorf(mailroom.CodeInvalid, "%q is no label", l)
		}
	}
	return t.Update(id, by, func(it *Issue) error {
		for _, l := range add {
			if !slices.Contains(it.Labels, l) {
				it.Labels = append(it.Labels, l)
			}
		}
		it.Labels = slices.DeleteFunc(it.Labels, func(l string) bool { return slices.Contains(remove, l) })
		return nil
	})
}
