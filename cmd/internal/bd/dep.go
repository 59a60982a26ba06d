package bd

import (
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/tracker"
)

func (m *Main) depCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dep", Short: "What issues depend on"}
	cmd.AddCommand(m.depAddCommand(), m.depRemoveCommand(), m.depTreeCommand(), m.depCyclesCommand())
	return cmd
}

// tie is how an answer tells of a dependency.
type tie struct {
	Issue  string `json:"issue_id"`
	On     string `json:"depends_on_id"`
	Status string `json:"status"`
	Type   string `json:"type,omitempty"`
}

func (m *Main) depAddCommand() *cobra.Command {
	var kind string
	cmd := &cobra.Command{Use: "add ISSUE OTHER", Short: "Make an issue depend on another", Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVarP(&kind, "type", "t", tracker.Blocks, "blocks, related, parent-child, discovered-from, or another word")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		var out tie
		by := m.by(cmd.Context())
		err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
			it, err := t.Depend(ids[0], ids[1], kind, by)
			if err != nil {
				return err
			}
			on, err := t.Find(ids[1])
			out = tie{it.ID, on.ID, "added", kind}
			return err
		})
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(out)
		}
		return m.tell("%s depends on %s (%s)", out.Issue, out.On, out.Type)
	}
	return cmd
}

func (m *Main) depRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "remove ISSUE OTHER", Aliases: []string{"rm"}, Short: "Take a dependency away", Args: cobra.ExactArgs(2)}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		var out tie
		err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
			it, on, err := t.Undepend(ids[0], ids[1], "", m.now())
			if err == nil {
				out = tie{Issue: it.ID, On: on, Status: "removed"}
			}
			return err
		})
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(out)
		}
		return m.tell("%s does not depend on %s any more", out.Issue, out.On)
	}
	return cmd
}

func (m *Main) depTreeCommand() *cobra.Command {
	var depth int
	var up bool
	cmd := &cobra.Command{Use: "tree ID", Short: "Draw what an issue depends on", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVarP(&depth, "max-depth", "d", 50, "levels to follow")
	cmd.Flags().BoolVar(&up, "reverse", false, "what depends on it, instead")
	cmd.RunE = func(_ *cobra.Command, ids []string) error {
		return m.read(func(t *tracker.Tracker) error {
			nodes, err := t.Tree(ids[0], depth, up)
			if err != nil {
				return err
			}
			if !m.json {
				return m.printTree(nodes)
			}
			list := []any{}
			for _, n := range nodes {
				list = append(list, shape(t, n.Issue, extra{"depth", n.Depth}, extra{"parent_id", n.Under}, extra{"truncated", n.Cut}))
			}
			return m.printJSON(list)
		})
	}
	return cmd
}

func (m *Main) depCyclesCommand() *cobra.Command {
	return &cobra.Command{Use: "cycles", Short: "Find issues that wait for each other", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			rings := t.Cycles()
			if m.json {
				list := []any{}
				for _, ring := range rings {
					list = append(list, shapes(t, ring, nil))
				}
				return m.printJSON(list)
			}
			if len(rings) == 0 {
				return m.tell("No issues wait for each other.")
			}
			for _, ring := range rings {
				if err := m.tell("%s", strings.Join(append(names(ring), ring[0].ID), " → ")); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

func (m *Main) labelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "label", Short: "Labels of issues"}
	change := func(use, short, done string, split func(words []string) (ids, add, remove []string)) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.MinimumNArgs(2), RunE: func(cmd *cobra.Command, words []string) error {
			ids, add, remove := split(words)
			var changed []map[string]string
			err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
				changed = nil
				for _, id := range ids {
					it, err := t.Label(id, add, remove, m.now())
					if err != nil {
						return err
					}
					changed = append(changed, map[string]string{"status": done, "issue_id": it.ID, "label": words[len(words)-1]})
				}
				return nil
			})
			if err != nil {
				return err
			}
			if m.json {
				return m.printJSON(changed)
			}
			return m.tell("Label %s %s: %s", words[len(words)-1], done, strings.Join(ids, ", "))
		}}
	}
	cmd.AddCommand(
		change("add ID… LABEL", "Label issues", "added", func(w []string) (ids, add, remove []string) { return w[:len(w)-1], w[len(w)-1:], nil }),
		change("remove ID… LABEL", "Take a label away", "removed", func(w []string) (ids, add, remove []string) { return w[:len(w)-1], nil, w[len(w)-1:] }),
		&cobra.Command{Use: "list ID", Short: "List the labels of an issue", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, ids []string) error {
			return m.read(func(t *tracker.Tracker) error {
				it, err := t.Find(ids[0])
				if err != nil {
					return err
				}
				labels := slices.Sorted(slices.Values(it.Labels))
				if m.json {
					return m.printJSON(append([]string{}, labels...))
				}
				return m.print(cells(labels...)...)
			})
		}},
		m.labelListAllCommand(),
	)
	return cmd
}

func (m *Main) labelListAllCommand() *cobra.Command {
	return &cobra.Command{Use: "list-all", Short: "List all labels there are", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			type count struct {
				Label string `json:"label"`
				Count int    `json:"count"`
			}
			at := map[string]int{}
			for _, it := range t.All() {
				if it.Status != tracker.Tombstone {
					for _, l := range it.Labels {
						at[l]++
					}
				}
			}
			list := []count{}
			for l, n := range at {
				list = append(list, count{l, n})
			}
			sort.Slice(list, func(i, j int) bool { return list[i].Label < list[j].Label })
			if m.json {
				return m.printJSON(list)
			}
			var rows [][]shown
			for _, c := range list {
				rows = append(rows, cells(c.Label, number(c.Count)))
			}
			return m.printRows(rows)
		})
	}}
}

// remark is a comment in an answer.
type remark struct {
	ID        int64  `json:"id"`
	Issue     string `json:"issue_id"`
	Author    string `json:"author"`
	Text      string `json:"text"`
	CreatedAt string `json:"created_at"`
}

func remarkOf(issue string, c tracker.Comment) remark {
	return remark{c.ID, issue, c.Author, c.Text, c.CreatedAt.Format("2006-01-02T15:04:05.999999999Z07:00")}
}

func (m *Main) commentsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "comments ID", Aliases: []string{"comment"}, Short: "Show what was said about an issue", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(_ *cobra.Command, ids []string) error {
		return m.read(func(t *tracker.Tracker) error {
			it, err := t.Find(ids[0])
			if err != nil {
				return err
			}
			list := []remark{}
			for _, c := range it.Comments {
				list = append(list, remarkOf(it.ID, c))
			}
			if m.json {
				return m.printJSON(list)
			}
			return m.printComments(it)
		})
	}
	var author string
	add := &cobra.Command{Use: "add ID TEXT", Short: "Say something about an issue", Args: cobra.MinimumNArgs(2)}
	add.Flags().StringVarP(&author, "author", "a", "", "who says it")
	add.RunE = func(cmd *cobra.Command, args []string) error {
		by := m.now()
		if by.Actor = author; author == "" {
			by = m.by(cmd.Context())
		}
		var out remark
		err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
			it, err := t.Find(args[0])
			if err != nil {
				return err
			}
			c, err := t.Say(it.ID, strings.Join(args[1:], " "), by)
			out = remarkOf(it.ID, c)
			return err
		})
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(out)
		}
		return m.tell("Said about %s.", out.Issue)
	}
	cmd.AddCommand(add)
	return cmd
}

func (m *Main) epicCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "epic", Short: "Epics and their children"}
	var eligible bool
	status := &cobra.Command{Use: "status", Short: "How far epics are", Args: noArgs}
	status.Flags().BoolVar(&eligible, "eligible-only", false, "only those whose children are all closed")
	status.RunE = func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			epics := t.Epics()
			if eligible {
				epics = slices.DeleteFunc(epics, func(e tracker.Epic) bool { return !e.Done() })
			}
			return m.printEpics(t, epics)
		})
	}
	var dry bool
	closing := &cobra.Command{Use: "close-eligible", Short: "Close epics whose children are all closed", Args: noArgs}
	closing.Flags().BoolVar(&dry, "dry-run", false, "only show which")
	closing.RunE = func(cmd *cobra.Command, _ []string) error {
		var closed []*tracker.Issue
		var after *tracker.Tracker
		do := func(t *tracker.Tracker) error {
			closed, after = nil, t
			for _, e := range t.Epics() {
				if !e.Done() {
					continue
				}
				it, err := t.Close(e.Issue.ID, "All children completed", m.now())
				if err != nil {
					return err
				}
				closed = append(closed, it)
			}
			return nil
		}
		if err := m.changeAll(cmd.Context(), dry, do); err != nil {
			return err
		}
		if !dry {
			m.tellMail(cmd.Context(), ended(closed))
		}
		if m.json {
			return m.printJSON(shapes(after, closed, nil))
		}
		return m.printTable(closed)
	}
	cmd.AddCommand(status, closing)
	return cmd
}
