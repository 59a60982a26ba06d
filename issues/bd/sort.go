package bd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// sorting holds the flags that order a list. The default is by priority, newest first within a
// priority.
type sorting struct {
	by      string
	reverse bool
}

func (s *sorting) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.by, "sort", "", "priority, created, updated, closed, status, id, title, type or assignee")
	cmd.Flags().BoolVarP(&s.reverse, "reverse", "r", false, "reverse the order")
}

// sort orders issues by the selected key: times newest first, all other keys ascending.
func (s *sorting) sort(found []*tracker.Issue) error {
	text := func(of func(*tracker.Issue) string) func(a, b *tracker.Issue) int {
		return func(a, b *tracker.Issue) int { return strings.Compare(of(a), of(b)) }
	}
	orders := map[string]func(a, b *tracker.Issue) int{
		"priority": func(a, b *tracker.Issue) int { return cmp.Compare(a.Priority, b.Priority) },
		"created":  func(a, b *tracker.Issue) int { return b.CreatedAt.Compare(a.CreatedAt) },
		"updated":  func(a, b *tracker.Issue) int { return b.UpdatedAt.Compare(a.UpdatedAt) },
		"closed":   func(a, b *tracker.Issue) int { return b.ClosedAt.Compare(a.ClosedAt) },
		"status":   text(func(it *tracker.Issue) string { return string(it.Status) }),
		"id":       text(func(it *tracker.Issue) string { return it.ID }),
		"title":    text(func(it *tracker.Issue) string { return strings.ToLower(it.Title) }),
		"type":     text(func(it *tracker.Issue) string { return it.Type }),
		"assignee": text(func(it *tracker.Issue) string { return it.Assignee }),
	}
	if order := orders[s.by]; order != nil {
		slices.SortStableFunc(found, order)
	} else if s.by != "" {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"sort %q is not one of priority, created, updated, closed, status, id, title, type, assignee", s.by)
	}
	if s.reverse {
		slices.Reverse(found)
	}
	return nil
}

// parentTree returns the issues as nodes of a tree, children below their parents.
func parentTree(found []*tracker.Issue) (nodes []tracker.Node) {
	const deepest = 50
	has, below := map[string]bool{}, map[string][]*tracker.Issue{}
	for _, it := range found {
		has[it.ID] = true
	}
	for _, it := range found {
		if parent := it.Parent(); has[parent] && parent != it.ID {
			below[parent] = append(below[parent], it)
		}
	}
	done := map[string]bool{}
	var walk func(it *tracker.Issue, depth int)
	walk = func(it *tracker.Issue, depth int) {
		if done[it.ID] || depth > deepest {
			return
		}
		done[it.ID] = true
		nodes = append(nodes, tracker.Node{Issue: it, Depth: depth, Under: it.Parent()})
		for _, child := range below[it.ID] {
			walk(child, depth+1)
		}
	}
	for _, it := range found {
		if !has[it.Parent()] {
			walk(it, 0)
		}
	}
	for _, it := range found { // issues in a cycle of parents, or too deep
		walk(it, 0)
	}
	return nodes
}
