package bd

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

func depCommand(m *Main) *cobra.Command {
	var blocked string
	cmd := &cobra.Command{Use: "dep", Short: "Manage dependencies"}
	cmd.AddCommand(depAddCommand(m), depRemoveCommand(m), depListCommand(m), depTreeCommand(m), depCyclesCommand(m),
		relateCommand(m, "relate"), relateCommand(m, "unrelate"))
	cmd.Flags().StringVarP(&blocked, "blocks", "b", "", "an issue that ID blocks, as in: bd dep ID --blocks OTHER")
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		switch {
		case len(ids) == 0:
			return needsCommand(cmd)
		case blocked == "":
			return unknownCommand(cmd, ids[0])
		case len(ids) > 1:
			return usage("--blocks takes one issue, not %d; see: %s --help", len(ids), cmd.CommandPath())
		}
		return m.addDependency(cmd.Context(), blocked, ids[0], tracker.DependencyBlocks)
	}
	return cmd
}

// dependencyJSON is a dependency in JSON output.
type dependencyJSON struct {
	Issue  string `json:"issue_id"`
	On     string `json:"depends_on_id"`
	Status string `json:"status"`
	Type   string `json:"type,omitempty"`
}

func depAddCommand(m *Main) *cobra.Command {
	var kind, other, alike string
	cmd := &cobra.Command{Use: "add ISSUE OTHER", Short: "Make an issue depend on another", Args: cobra.RangeArgs(1, 3)}
	cmd.Flags().StringVarP(&kind, "type", "t", tracker.DependencyBlocks,
		"blocks, related, parent-child, discovered-from, or another word")
	cmd.Flags().StringVar(&other, "blocked-by", "", "the other issue, instead of the argument")
	cmd.Flags().StringVar(&alike, "depends-on", "", "the same as --blocked-by")
	_ = cmd.Flags().MarkHidden("depends-on") // the flag is there
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if len(ids) == 3 { // a sentence: A blocks B, A depends-on B
			switch strings.ReplaceAll(ids[1], "_", "-") {
			case "blocks":
				ids = []string{ids[2], ids[0]}
			case "depends-on", "blocked-by", "needs", "on":
				ids = []string{ids[0], ids[2]}
			default:
				return usage("%q is not one of blocks, depends-on; for other relations: %s %s %s --type related", ids[1],
					cmd.CommandPath(), ids[0], ids[2])
			}
		}
		on := trimAll(append(append([]string{}, ids[1:]...), other, alike))
		if len(on) != 1 {
			return usage("name one issue that %s depends on; see: %s --help", ids[0], cmd.CommandPath())
		}
		return m.addDependency(cmd.Context(), ids[0], on[0], kind)
	}
	return cmd
}

// addDependency makes an issue depend on another, and prints the result.
func (m *Main) addDependency(ctx context.Context, id, on, kind string) error {
	var out dependencyJSON
	by := m.signature(ctx)
	err := m.change(ctx, func(t *tracker.Tracker) error {
		it, err := t.AddDependency(id, on, kind, by)
		if err != nil {
			return err
		}
		other, err := t.Find(on)
		out = dependencyJSON{it.ID, other.ID, "added", kind}
		return err
	})
	if err != nil {
		return err
	}
	if m.out.json {
		return m.out.printJSON(out)
	}
	return m.out.report("%s depends on %s (%s)", out.Issue, out.On, out.Type)
}

// relateCommand links two issues in both directions, or removes the link.
func relateCommand(m *Main, name string) *cobra.Command {
	const kind = "relates-to"
	short, status := "Link two related issues", "added"
	if name == "unrelate" {
		short, status = "Remove a link between two issues", "removed"
	}
	return &cobra.Command{Use: name + " ISSUE OTHER", Short: short, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, ids []string) error {
			var out dependencyJSON
			by := m.signature(cmd.Context())
			err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
				one, err := t.Find(ids[0])
				if err != nil {
					return err
				}
				other, err := t.Find(ids[1])
				if err != nil {
					return err
				}
				out = dependencyJSON{one.ID, other.ID, status, kind}
				for _, pair := range [][2]string{{one.ID, other.ID}, {other.ID, one.ID}} {
					if name == "relate" {
						_, err = t.AddDependency(pair[0], pair[1], kind, by)
					} else {
						_, _, err = t.RemoveDependency(pair[0], pair[1], kind, by)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if m.out.json {
				return m.out.printJSON(out)
			}
			if name == "unrelate" {
				return m.out.report("%s and %s are no longer related", out.Issue, out.On)
			}
			return m.out.report("%s and %s are related", out.Issue, out.On)
		}}
}

// direction parses up (dependents) or down (dependencies).
func direction(text string) (up bool, err error) {
	if text != "" && text != "up" && text != "down" {
		return false, mailroom.Errorf(mailroom.CodeInvalid, "direction %q is not up or down", text)
	}
	return text == "up", nil
}

func depListCommand(m *Main) *cobra.Command {
	var way, kind string
	cmd := &cobra.Command{Use: "list ID", Short: "List the dependencies of an issue", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&way, "direction", "down", "down for dependencies, up for dependents")
	cmd.Flags().StringVarP(&kind, "type", "t", "", "only dependencies of this type")
	cmd.RunE = func(_ *cobra.Command, ids []string) error {
		up, err := direction(way)
		if err != nil {
			return err
		}
		return m.read(func(t *tracker.Tracker) error {
			it, err := t.Find(ids[0])
			if err != nil {
				return err
			}
			list, rows := []any{}, [][]safeText{}
			add := func(other *tracker.Issue, d tracker.Dependency) {
				if kind == "" || d.Type == kind {
					list = append(list, relatedJSON(t, other, d.Type))
					rows = append(rows, []safeText{line(other.ID), line(d.Type), m.out.status(other.Status), line(other.Title)})
				}
			}
			if up {
				for _, other := range t.Dependents(it.ID) {
					for _, d := range other.Dependencies {
						if d.On == it.ID {
							add(other, d)
						}
					}
				}
			} else {
				for _, d := range it.Dependencies {
					if on, err := t.Find(d.On); err == nil && on.ID == d.On {
						add(on, d)
					}
				}
			}
			if m.out.json {
				return m.out.printJSON(list)
			}
			if len(rows) == 0 {
				return m.out.report("None.")
			}
			return m.out.printRows(rows)
		})
	}
	return cmd
}

func depRemoveCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "remove ISSUE OTHER", Aliases: []string{"rm"}, Short: "Remove a dependency",
		Args: cobra.ExactArgs(2)}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		var out dependencyJSON
		err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
			it, on, err := t.RemoveDependency(ids[0], ids[1], "", m.anonymousSignature())
			if err == nil {
				out = dependencyJSON{Issue: it.ID, On: on, Status: "removed"}
			}
			return err
		})
		if err != nil {
			return err
		}
		if m.out.json {
			return m.out.printJSON(out)
		}
		return m.out.report("%s no longer depends on %s", out.Issue, out.On)
	}
	return cmd
}

// deepestTree bounds the levels of a printed tree. The length of a line grows with its level, so a chain of all
// issues would print gigabytes.
const deepestTree = 1000

func depTreeCommand(m *Main) *cobra.Command {
	var depth int
	var up bool
	var way string
	cmd := &cobra.Command{Use: "tree ID", Short: "Draw the dependencies of an issue", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVarP(&depth, "max-depth", "d", 50, "levels to follow")
	cmd.Flags().BoolVar(&up, "reverse", false, "show dependents instead")
	cmd.Flags().StringVar(&way, "direction", "", "down for dependencies, up for dependents")
	alias(cmd, "max-depth", "depth")
	cmd.RunE = func(_ *cobra.Command, ids []string) error {
		upward, err := direction(way)
		if err != nil {
			return err
		}
		if depth > deepestTree {
			return mailroom.Errorf(mailroom.CodeInvalid, "invalid --max-depth %d; use at most %d", depth, deepestTree)
		}
		up = up || upward
		return m.read(func(t *tracker.Tracker) error {
			nodes, err := t.Tree(ids[0], depth, up)
			if err != nil {
				return err
			}
			if !m.out.json {
				return m.out.printTree(nodes)
			}
			list := []any{}
			for _, n := range nodes {
				list = append(list, issueJSON(t, n.Issue, extra{"depth", n.Depth}, extra{"parent_id", n.Under},
					extra{"truncated", n.Cut}))
			}
			return m.out.printJSON(list)
		})
	}
	return cmd
}

func depCyclesCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "cycles", Short: "Find dependency cycles", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return m.read(func(t *tracker.Tracker) error {
				rings := t.Cycles()
				if m.out.json {
					list := []any{}
					for _, ring := range rings {
						list = append(list, issuesJSON(t, ring, nil))
					}
					return m.out.printJSON(list)
				}
				if len(rings) == 0 {
					return m.out.report("No dependency cycles.")
				}
				for _, ring := range rings {
					if err := m.out.report("%s", strings.Join(append(issueIDs(ring), ring[0].ID), " → ")); err != nil {
						return err
					}
				}
				return nil
			})
		}}
}

func labelCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "label", Short: "Manage labels"}
	change := func(use, short, done string, split func(words []string) (ids, add, remove []string)) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.MinimumNArgs(2),
			RunE: func(cmd *cobra.Command, words []string) error {
				ids, add, remove := split(words)
				label := words[len(words)-1]
				var changed []map[string]string
				var by map[string][]string // ids by what was done
				err := m.change(cmd.Context(), func(t *tracker.Tracker) error {
					changed, by = nil, map[string][]string{}
					for _, id := range ids {
						was, err := t.Find(id)
						if err != nil {
							return err
						}
						it, err := t.UpdateLabels(id, add, remove, m.anonymousSignature())
						if err != nil {
							return err
						}
						status := done
						if it == was {
							status = "unchanged"
						}
						by[status] = append(by[status], id)
						changed = append(changed, map[string]string{"status": status, "issue_id": it.ID, "label": label})
					}
					return nil
				})
				if err != nil {
					return err
				}
				if m.out.json {
					return m.out.printJSON(changed)
				}
				for _, status := range slices.Sorted(maps.Keys(by)) {
					if err := m.out.report("Label %s %s: %s", label, status, strings.Join(by[status], ", ")); err != nil {
						return err
					}
				}
				return nil
			}}
	}
	cmd.AddCommand(
		change("add ID… LABEL", "Add a label to issues", "added", func(w []string) (ids, add, remove []string) {
			return w[:len(w)-1], w[len(w)-1:], nil
		}),
		change("remove ID… LABEL", "Remove a label from issues", "removed", func(w []string) (ids, add, remove []string) {
			return w[:len(w)-1], nil, w[len(w)-1:]
		}),
		&cobra.Command{Use: "list ID", Short: "List the labels of an issue", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, ids []string) error {
				return m.read(func(t *tracker.Tracker) error {
					it, err := t.Find(ids[0])
					if err != nil {
						return err
					}
					labels := slices.Sorted(slices.Values(it.Labels))
					if m.out.json {
						return m.out.printJSON(append([]string{}, labels...))
					}
					return m.out.print(cells(labels...)...)
				})
			}},
		labelListAllCommand(m),
	)
	return cmd
}

func labelListAllCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "list-all", Short: "List all labels", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return m.read(func(t *tracker.Tracker) error {
				type count struct {
					Label string `json:"label"`
					Count int    `json:"count"`
				}
				at := map[string]int{}
				for _, it := range t.All() {
					if it.Status != tracker.StatusTombstone {
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
				if m.out.json {
					return m.out.printJSON(list)
				}
				var rows [][]safeText
				for _, c := range list {
					rows = append(rows, cells(c.Label, number(c.Count)))
				}
				return m.out.printRows(rows)
			})
		}}
}

// commentJSON is a comment in JSON output.
type commentJSON struct {
	ID        any    `json:"id"`
	Issue     string `json:"issue_id"`
	Author    string `json:"author"`
	Text      string `json:"text"`
	CreatedAt string `json:"created_at"`
}

func newCommentJSON(issue string, c tracker.Comment) commentJSON {
	id := any(c.ID)
	if c.TextID != "" {
		id = c.TextID
	}
	return commentJSON{id, issue, c.Author, c.Text, c.CreatedAt.Format("2006-01-02T15:04:05.999999999Z07:00")}
}

func commentsCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "comments ID", Short: "Show the comments of an issue", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(_ *cobra.Command, ids []string) error {
		return m.read(func(t *tracker.Tracker) error {
			it, err := t.Find(ids[0])
			if err != nil {
				return err
			}
			list := []commentJSON{}
			for _, c := range it.Comments {
				list = append(list, newCommentJSON(it.ID, c))
			}
			if m.out.json {
				return m.out.printJSON(list)
			}
			return m.out.printComments(it)
		})
	}
	cmd.AddCommand(addCommentCommand(m, "add ID TEXT", "Add a comment to an issue", 1))
	return cmd
}

// commentCommand adds a comment, or without a text lists comments.
func commentCommand(m *Main) *cobra.Command {
	cmd := addCommentCommand(m, "comment ID TEXT", "Add a comment to an issue, like comments add", 0)
	cmd.Hidden = true
	say, show := cmd.RunE, commentsCommand(m)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		switch {
		case len(args) > 1 && args[0] == "add":
			return say(cmd, args[1:])
		case len(args) == 0:
			return usage("name an issue; see: %s --help", cmd.CommandPath())
		case len(args) == 1 && !flags.Changed("file") && !flags.Changed("stdin"):
			return show.RunE(cmd, args)
		}
		return say(cmd, args)
	}
	return cmd
}

// addCommentCommand adds a comment.
func addCommentCommand(m *Main, use, short string, least int) *cobra.Command {
	var author, file string
	var stdin bool
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.MinimumNArgs(least)}
	cmd.Flags().StringVarP(&author, "author", "a", "", "author")
	cmd.Flags().StringVarP(&file, "file", "f", "", "a file with the text; - is stdin")
	cmd.Flags().BoolVar(&stdin, "stdin", false, "read the text from stdin")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		text := strings.Join(args[1:], " ")
		if stdin {
			file = cmp.Or(file, "-")
		}
		switch {
		case file != "" && text != "", stdin && file != "-":
			return usage("use only one of a TEXT argument, --file and --stdin")
		case file != "":
			if text, err = m.inputFile(file, "the comment"); err != nil {
				return err
			}
		case text == "":
			return usage("%s needs a text; see: %s --help", cmd.CommandPath(), cmd.CommandPath())
		}
		return m.addComment(cmd.Context(), args[0], text, author)
	}
	return cmd
}

func (m *Main) addComment(ctx context.Context, id, text, author string) error {
	by := m.anonymousSignature()
	if by.Actor = author; author == "" {
		by = m.signature(ctx)
	}
	var out commentJSON
	err := m.change(ctx, func(t *tracker.Tracker) error {
		it, err := t.Find(id)
		if err != nil {
			return err
		}
		c, err := t.AddComment(it.ID, text, by)
		out = newCommentJSON(it.ID, c)
		return err
	})
	if err != nil {
		return err
	}
	if m.out.json {
		return m.out.printJSON(out)
	}
	return m.out.report("Commented on %s.", out.Issue)
}

func epicCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "epic", Short: "Manage epics"}
	var eligible bool
	status := &cobra.Command{Use: "status", Short: "Show the progress of epics", Args: noArgs}
	status.Flags().BoolVar(&eligible, "eligible-only", false, "only epics whose children are all closed")
	status.RunE = func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			epics := t.Epics()
			if eligible {
				epics = slices.DeleteFunc(epics, func(e tracker.Epic) bool { return !e.Done() })
			}
			return m.out.printEpics(t, epics)
		})
	}
	var dry bool
	closing := &cobra.Command{Use: "close-eligible", Short: "Close epics whose children are all closed", Args: noArgs}
	closing.Flags().BoolVar(&dry, "dry-run", false, "only show what would be closed")
	closing.RunE = func(cmd *cobra.Command, _ []string) error {
		var closed []*tracker.Issue
		var after *tracker.Tracker
		do := func(t *tracker.Tracker) error {
			closed, after = nil, t
			for _, e := range t.Epics() {
				if !e.Done() {
					continue
				}
				it, err := t.Close(e.Issue.ID, "All children completed", m.anonymousSignature())
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
			m.enqueueMail(cmd.Context(), closedIssues(closed))
		}
		if m.out.json {
			return m.out.printJSON(issuesJSON(after, closed, nil))
		}
		return m.out.printTable(closed)
	}
	cmd.AddCommand(status, closing)
	return cmd
}
