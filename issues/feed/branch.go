package feed

import (
	"context"
	"fmt"

	"mailroom"
	"mailroom/channel"
	"mailroom/store"
)

// kindTree is the kind of the entry in which an agent says what the branch of its worktree has.
const kindTree = "x.exec.tree"

// branchTexts returns, by run, the comments that name the branches with the changes of completed runs. Other runs, and
// runs without a worktree, have none.
func branchTexts(ctx context.Context, l *channel.Host, runs ...*mailroom.Run) (map[string]string, error) {
	texts := map[string]string{}
	err := l.View(ctx, func(rd store.Reader) error {
		for _, run := range runs {
			if run.Status != mailroom.StatusCompleted {
				continue
			}
			entries, err := rd.Entries(store.EntryQuery{Thread: run.Thread, Run: run.ID, Kinds: []string{kindTree},
				Backward: true, Limit: 1})
			if err != nil {
				return err
			}
			for _, e := range entries {
				texts[run.ID] = branchText(e)
			}
		}
		return nil
	})
	return texts, err
}

// branchText returns the comment for an entry, or "" if the entry has no branch.
func branchText(e mailroom.Entry) string {
	var b struct {
		Branch, Head, Left, Pushed, Unpushed, Unopened string
		PullRequest                                    string `json:"pull_request"`
		Commits                                        int
	}
	if e.Decode(&b) != nil || b.Branch == "" {
		return "" // written by a worker of another version
	}
	commits := fmt.Sprintf("%d commits", b.Commits)
	if b.Commits == 1 {
		commits = "1 commit"
	}
	text := fmt.Sprintf("Branch %s: %s", b.Branch, commits)
	if b.Head != "" {
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
		text += ". Changes are left in the worktree: " + b.Left
	}
	return truncate(text, maxReason, "…")
}
