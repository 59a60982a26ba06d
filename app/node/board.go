package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
)

// trackerBoard reads the issues of the tracker for the console. It parses the file again only after a change, for one
// request at a time, and keeps only the fields that it shows.
type trackerBoard struct {
	folder tracker.Folder
	slot   chan struct{} // one slot; its holder may use the fields shown and of
	shown  api.IssueBoard
	of     fileVersion
}

// fileVersion identifies the state of the board: it changes with the file, and every minute, because a deferred issue
// becomes ready by time.
type fileVersion struct {
	size    int64
	changed time.Time
	minute  time.Time
}

// Bounds of what the board shows. The file comes with a project, which is not trusted, and can have any size.
const (
	boardColumn = 100 // issues
	boardTitle  = 200 // characters
	boardWord   = 64  // characters of an id, a label or a name
	boardLabels = 10
)

// issueBoard returns the board of the configured tracker, or nil without one.
func issueBoard(c *config.Config) func(context.Context) (api.IssueBoard, error) {
	if c.Tracker == nil {
		return nil
	}
	b := &trackerBoard{folder: tracker.FolderAt(c.Tracker.Dir()), slot: make(chan struct{}, 1)}
	return b.read
}

// read returns the current board of the file.
func (b *trackerBoard) read(ctx context.Context) (api.IssueBoard, error) {
	select {
	case b.slot <- struct{}{}:
		defer func() { <-b.slot }()
	case <-ctx.Done():
		return api.IssueBoard{}, ctx.Err()
	}
	info, err := b.folder.Stat()
	if err != nil {
		return api.IssueBoard{}, errBoard(err)
	}
	now := time.Now().UTC()
	of := fileVersion{info.Size(), info.ModTime(), now.Truncate(time.Minute)}
	if of == b.of {
		return b.shown, nil
	}
	t, _, err := b.folder.Read()
	if err != nil {
		return api.IssueBoard{}, errBoard(err)
	}
	b.shown, b.of = showBoard(t, now), of
	return b.shown, nil
}

func errBoard(err error) error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "the issues cannot be read: %w", err)
}

func showBoard(t *tracker.Tracker, now time.Time) api.IssueBoard {
	ready, blocked := t.Ready(tracker.Filter{}, tracker.OrderPriority, now), t.BlockedIssues()
	placed := map[string]bool{}
	for _, list := range [][]*tracker.Issue{ready, blocked} {
		for _, it := range list {
			placed[it.ID] = true
		}
	}
	var working, later, closed []*tracker.Issue
	for _, it := range t.List(tracker.Filter{All: true}) {
		switch {
		case it.Status == tracker.StatusInProgress || it.Status == tracker.StatusHooked:
			working = append(working, it)
		case it.Status == tracker.StatusClosed:
			closed = append(closed, it)
		case it.Status != tracker.StatusTombstone && !placed[it.ID]:
			later = append(later, it)
		}
	}
	blocked = slices.DeleteFunc(slices.Clone(blocked), func(it *tracker.Issue) bool {
		return it.Status == tracker.StatusInProgress || it.Status == tracker.StatusHooked
	})
	slices.SortStableFunc(working, func(a, b *tracker.Issue) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	slices.SortStableFunc(closed, func(a, b *tracker.Issue) int { return b.ClosedAt.Compare(a.ClosedAt) })
	out := api.IssueBoard{Columns: []api.IssueColumn{}}
	for _, c := range []struct {
		name string
		list []*tracker.Issue
	}{{"in_progress", working}, {"ready", ready}, {"blocked", blocked}, {"later", later}, {"closed", closed}} {
		column := api.IssueColumn{Name: c.name, Count: len(c.list), Items: []api.Issue{}}
		for _, it := range c.list[:min(len(c.list), boardColumn)] {
			column.Items = append(column.Items, showIssue(t, it))
		}
		out.Columns = append(out.Columns, column)
	}
	return out
}

func showIssue(t *tracker.Tracker, it *tracker.Issue) api.Issue {
	out := api.Issue{
		ID: command.Shorten(it.ID, boardWord), Title: command.Shorten(it.Title, boardTitle),
		Status: command.Shorten(string(it.Status), boardWord), Type: command.Shorten(it.Type, boardWord),
		Priority: it.Priority, Assignee: command.Shorten(it.Assignee, boardWord), Labels: []string{}, BlockedBy: []string{},
		UpdatedAt: it.UpdatedAt,
		Thread:    feed.Thread(config.TrackerChannel, it.ID),
	}
	for _, label := range it.Labels[:min(len(it.Labels), boardLabels)] {
		out.Labels = append(out.Labels, command.Shorten(label, boardWord))
	}
	by := t.BlockedBy(it)
	slices.SortFunc(by, func(a, b *tracker.Issue) int { return cmp.Compare(a.ID, b.ID) })
	for _, on := range by[:min(len(by), boardLabels)] {
		out.BlockedBy = append(out.BlockedBy, command.Shorten(on.ID, boardWord))
	}
	return out
}
