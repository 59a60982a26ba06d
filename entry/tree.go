package entry

import (
	"fmt"

	"mailroom"
)

// KindTree is the kind of the entry for what a run has made in the worktree of its thread. The agent writes it, and its
// body is a [Tree].
const KindTree = "x.exec.tree"

// Tree says what the branch of a thread has after a run that succeeded.
type Tree struct {
	Branch  string `json:"branch"`
	Base    string `json:"base"` // commit at which the branch began
	Head    string `json:"head"` // "" if the branch could not be read
	Commits int    `json:"commits"`
	// Stale says why the base may not be the newest commit of the remote's branch; "" if it was.
	Stale string `json:"stale,omitempty"`
	// Left says why changes in the worktree are not in a commit; "" if all are.
	Left string `json:"left,omitempty"`
	// Pointers says which files of the worktree had only pointers of git LFS; "" if none.
	Pointers string `json:"pointers,omitempty"`
	// Pushed is the remote that has the branch; "" if none has. Unpushed says why a push failed.
	Pushed   string `json:"pushed,omitempty"`
	Unpushed string `json:"unpushed,omitempty"`
	// PullRequest is the address of the branch's pull request. Unopened says why opening it failed.
	PullRequest string `json:"pull_request,omitempty"`
	Unopened    string `json:"unopened,omitempty"`
}

// TreeOf returns the body of an entry of [KindTree], or nil if it has no branch: workers of other versions write it
// too.
func TreeOf(e mailroom.Entry) *Tree {
	var t Tree
	if e.Kind != KindTree || e.Decode(&t) != nil || t.Branch == "" {
		return nil
	}
	return &t
}

// Summary says in one line what the branch has, without its name.
func (t *Tree) Summary() string {
	text := fmt.Sprintf("%d commits", t.Commits)
	if t.Commits == 1 {
		text = "1 commit"
	}
	if t.Commits > 0 && t.Head != "" {
		text += ", at " + t.Head[:min(len(t.Head), 12)]
	}
	if t.Pushed != "" {
		text += ", pushed to " + t.Pushed
	}
	if t.PullRequest != "" {
		text += ", " + t.PullRequest
	}
	for _, note := range []struct{ what, why string }{
		{"perhaps not the newest base", t.Stale}, {"not pushed", t.Unpushed}, {"no pull request", t.Unopened},
		{"changes are left in the worktree", t.Left}, {"files without their content", t.Pointers},
	} {
		if note.why != "" {
			text += "; " + note.what + ": " + note.why
		}
	}
	return text
}
