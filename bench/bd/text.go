package main

import (
	"fmt"
	"strings"
	"time"

	"mailroom/issues/tracker"
)

// Text returns the file of a tracker with n issues, always the same for the same n: six
// of ten are open, every tenth is an epic with the next nine as its children, two of
// three depend on an earlier one, one of four has a comment.
func Text(n int) string {
	begin := time.Date(2026, 1, 1, 8, 0, 0, 123456789, time.UTC)
	var out strings.Builder
	t := tracker.New()
	for i := range n {
		at := begin.Add(time.Duration(i) * time.Minute)
		it := &tracker.Issue{
			ID: ID(i), Title: fmt.Sprintf("Issue number %d: what to do about it", i),
			Description: strings.Repeat(fmt.Sprintf("What was seen of %d, what \"should\" be there, and how to see it again.\n",
				i), 3),
			Status: []tracker.Status{tracker.StatusOpen, tracker.StatusClosed, tracker.StatusOpen, tracker.StatusInProgress,
				tracker.StatusOpen}[i%5],
			Priority: i % 5, Type: []string{"task", "bug", "feature", "chore"}[i%4], CreatedAt: at, UpdatedAt: at.Add(time.Hour),
			Labels: []string{"area-" + fmt.Sprint(i%7), "agent"},
		}
		switch it.Status {
		case tracker.StatusClosed:
			it.ClosedAt, it.CloseReason, it.Assignee = at.Add(time.Hour), "done", "ann"
		case tracker.StatusInProgress:
			it.Assignee, it.Notes = "bob", "half of it is done"
		}
		if i%10 == 0 {
			it.Type = "epic"
		} else {
			it.Dependencies = append(it.Dependencies, tracker.Dependency{On: ID(i - i%10), Type: tracker.DependencyParentChild,
				CreatedAt: at, CreatedBy: "ann"})
		}
		if i%3 > 0 && i > 10 {
			it.Dependencies = append(it.Dependencies, tracker.Dependency{On: ID(i - 7), Type: tracker.DependencyBlocks,
				CreatedAt: at, CreatedBy: "ann"})
		}
		if i%4 == 0 {
			it.Comments = []tracker.Comment{{ID: 1, Author: "bob", Text: "I looked into it, and it is as you say.",
				CreatedAt: at}}
		}
		out.WriteString(t.Line(it))
		out.WriteByte('\n')
	}
	return out.String()
}

// ID returns the id of the i-th issue of [Text].
func ID(i int) string { return fmt.Sprintf("bench-%05d", i) }
