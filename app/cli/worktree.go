package cli

import (
	"fmt"

	"mailroom"
)

// kindTree is the kind of the entry in which an agent says what its worktree has.
const kindTree = "x.exec.tree"

// branchState is the body of such an entry.
type branchState struct {
	Branch  string `json:"branch"`
	Base    string `json:"base"`
	Head    string `json:"head"`
	Commits int    `json:"commits"`
	Left    string `json:"left,omitempty"` // why changes are not in a commit
	// Pushed is the remote that has the branch. Unpushed says why a push failed.
	Pushed   string `json:"pushed,omitempty"`
	Unpushed string `json:"unpushed,omitempty"`
	// PullRequest is an address. Unopened says why opening it failed.
	PullRequest string `json:"pull_request,omitempty"`
	Unopened    string `json:"unopened,omitempty"`
}

// branchOf returns the body of an entry, or nil if it cannot be read.
func branchOf(e mailroom.Entry) *branchState {
	var b branchState
	if e.Decode(&b) != nil || b.Branch == "" {
		return nil
	}
	return &b
}

func (b *branchState) String() string {
	text := fmt.Sprintf("%s, %d commits", b.Branch, b.Commits)
	if b.Commits == 1 {
		text = b.Branch + ", 1 commit"
	}
	if b.Commits > 0 && b.Head != "" {
		text += ", at " + b.Head[:min(len(b.Head), 12)]
	}
	if b.Pushed != "" {
		text += ", pushed to " + b.Pushed
	}
	if b.PullRequest != "" {
		text += ", " + b.PullRequest
	}
	if b.Unpushed != "" {
		text += "; not pushed: " + b.Unpushed
	}
	if b.Unopened != "" {
		text += "; no pull request: " + b.Unopened
	}
	if b.Left != "" {
		text += "; changes are left in the worktree: " + b.Left
	}
	return text
}
