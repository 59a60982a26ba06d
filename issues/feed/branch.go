package feed

import (
	"context"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/store"
)

// BranchTexts returns, by run, the comments that name the branches with the changes of completed runs. Other runs, and
// runs without a worktree, have none.
func BranchTexts(ctx context.Context, l *channel.Host, runs ...*mailroom.Run) (map[string]string, error) {
	texts := map[string]string{}
	err := l.View(ctx, func(rd store.Reader) error {
		for _, run := range runs {
			if run.Status != mailroom.StatusCompleted {
				continue
			}
			entries, err := rd.Entries(store.EntryQuery{Thread: run.Thread, Run: run.ID,
				Kinds: []string{entry.KindTree}, Backward: true, Limit: 1})
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
	made := entry.TreeOf(e)
	if made == nil {
		return "" // written by a worker of another version
	}
	return truncate("Branch "+made.Branch+": "+made.Summary(), maxReason, "…")
}
