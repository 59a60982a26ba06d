package tracker

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
)

const maxTitle = 500 // characters

// Signature records who makes a change, and when.
type Signature struct {
	Actor string
	At    time.Time
}

// NewIssue describes an issue to create. Zero fields get their defaults.
type NewIssue struct {
	Issue         // Issue.ID is optional
	Prefix string // prefix of the new id, if neither ID nor Parent is set
	Parent string // id of the parent, which also begins the new id
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
			return mailroom.Errorf(mailroom.CodeConflict, "issue %s already exists", it.ID)
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

// validate returns an error if a command must not write the issue. Issues that other programs wrote
// are kept even if invalid.
func (it *Issue) validate() error {
	if n := utf8.RuneCountInString(it.Title); n == 0 || n > maxTitle || strings.ContainsAny(it.Title, "\x00") {
		return mailroom.Errorf(mailroom.CodeInvalid, "a title must have 1 to %d characters, not %d", maxTitle, n)
	}
	if it.Priority < PriorityCritical || it.Priority > PriorityBacklog {
		return mailroom.Errorf(mailroom.CodeInvalid, "priority %d is not between %d (critical) and %d (backlog)", it.Priority,
			PriorityCritical, PriorityBacklog)
	}
	if !it.Status.Known() || it.Status == StatusTombstone {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"status %q is not one of open, in_progress, blocked, deferred, pinned, hooked, closed", it.Status)
	}
	for _, s := range []string{it.Title, it.Description, it.Design, it.Acceptance, it.Notes, it.Assignee, it.Type,
		it.ExternalRef, it.CloseReason} {
		if !utf8.ValidString(s) {
			return mailroom.Errorf(mailroom.CodeInvalid, "text is not valid UTF-8")
		}
	}
	return nil
}

// Update applies change to an issue. If change fails or leaves the issue invalid, nothing changes.
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
	if reflect.DeepEqual(&it, old) { // a time of change without a change would win a merge
		return old, nil
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

// findLive returns an issue that is not deleted.
func (t *Tracker) findLive(id string) (*Issue, error) {
	it, err := t.Find(id)
	if err == nil && it.Status == StatusTombstone {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "issue %s was deleted", it.ID)
	}
	return it, err
}

// Claim assigns an issue to the actor and marks it in progress. It fails if the issue is closed or
// assigned to another actor; the error names the assignee.
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

// Close closes an issue. A closed issue stays unchanged, with the reason that it has.
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

// Delete turns issues into tombstones and removes them from the dependencies of other issues. With
// cascade it also deletes dependents. Otherwise it fails if an issue has dependents, unless force
// is set. It returns the deleted issues.
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
			return nil, mailroom.Errorf(mailroom.CodeConflict,
				"%s depends on %s; delete both with --cascade, or remove the dependency with --force", it.ID, on)
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

// Dependents returns the issues that depend on id, sorted by id.
func (t *Tracker) Dependents(id string) []*Issue {
	var found []*Issue
	for _, it := range t.issues.all() {
		if it.Status != StatusTombstone && slices.ContainsFunc(it.Dependencies, func(d Dependency) bool {
			return d.On == id
		}) {
			found = append(found, it)
		}
	}
	return found
}

// dependentsByID returns the dependents of each issue.
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

// AddDependency makes an issue depend on another. An empty kind means blocks. An existing
// dependency stays unchanged. A dependency that would close a cycle of blocking issues or parents
// is refused.
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
		return nil, mailroom.Errorf(mailroom.CodeConflict, "%s already depends on %s: this would create a cycle",
			other.ID, it.ID)
	}
	return t.Update(it.ID, by, func(it *Issue) error {
		it.Dependencies = append(it.Dependencies, Dependency{On: other.ID, Type: kind, CreatedAt: by.At, CreatedBy: by.Actor})
		return nil
	})
}

// MoveDependencies transfers the dependencies of a duplicate to the issue that is kept: dependents
// of the duplicate depend on keep, and keep depends on the dependencies of the duplicate. It skips
// dependencies of keep on itself, existing ones, those that would close a cycle, and a second
// parent. A dependency on a missing issue stays with the duplicate.
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
	type link struct{ id, on, kind string }
	var links []link
	for _, it := range t.Dependents(dup.ID) {
		for _, d := range it.Dependencies {
			if d.On == dup.ID {
				links = append(links, link{it.ID, kept.ID, d.Type})
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
		links = append(links, link{kept.ID, d.On, d.Type})
		if _, _, err := t.RemoveDependency(dup.ID, d.On, d.Type, by); err != nil {
			return err
		}
	}
	for _, d := range links {
		if d.id == d.on || d.kind == DependencyParentChild && d.id == kept.ID && t.issues.get(kept.ID).Parent() != "" {
			continue
		}
		if _, err := t.AddDependency(d.id, d.on, d.kind, by); err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
			return err
		}
	}
	return nil
}

// SetParent makes parent the only parent of an issue; an empty parent leaves the issue without one.
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
		it.Dependencies = slices.DeleteFunc(it.Dependencies, func(d Dependency) bool {
			return d.Type == DependencyParentChild
		})
		return nil
	})
	if err != nil || parent == "" {
		return it, err
	}
	return t.AddDependency(it.ID, parent, DependencyParentChild, by)
}

// reaches reports whether a path of dependencies of this kind leads from the issue from to the issue to.
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
				if d.Type == kind || kind == DependencyBlocks && d.Blocks() {
					todo = append(todo, d.On)
				}
			}
		}
	}
	return false
}

// RemoveDependency removes the dependency of this kind from one issue on another; an empty kind stands for all kinds.
// It returns the changed issue and the full id of the other issue.
func (t *Tracker) RemoveDependency(id, on, kind string, by Signature) (it *Issue, other string, err error) {
	if it, err = t.findLive(id); err != nil {
		return nil, "", err
	}
	other = on
	if found, err := t.Find(on); err == nil {
		other = found.ID // if it is not found, on is the id: the issue may be gone, while the dependency remains
	}
	matches := func(d Dependency) bool { return d.On == other && (kind == "" || d.Type == kind) }
	if !slices.ContainsFunc(it.Dependencies, matches) {
		return nil, "", mailroom.Errorf(mailroom.CodeNotFound, "%s does not depend on %s", it.ID, other)
	}
	it, err = t.Update(it.ID, by, func(it *Issue) error {
		it.Dependencies = slices.DeleteFunc(it.Dependencies, matches)
		return nil
	})
	return it, other, err
}

// AddComment adds a comment to an issue.
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

// UpdateLabels adds and removes labels. Labels that are already present or absent are ignored.
func (t *Tracker) UpdateLabels(id string, add, remove []string, by Signature) (*Issue, error) {
	for _, l := range add {
		if strings.TrimSpace(l) == "" || strings.ContainsAny(l, ",\n\x00") {
			return nil, mailroom.Errorf(mailroom.CodeInvalid,
				"invalid label %q: it must not be blank or contain commas or line breaks", l)
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
