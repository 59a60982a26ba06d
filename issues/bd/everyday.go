package bd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// everydayCommands returns shortcuts for operations of other commands.
func everydayCommands(m *Main) []*cobra.Command {
	related, unrelated := relateCommand(m, "relate"), relateCommand(m, "unrelate")
	related.Hidden, unrelated.Hidden = true, true
	return []*cobra.Command{
		deferCommand(m), undeferCommand(m), childrenCommand(m), graphCommand(m), duplicatesCommand(m), editCommand(m),
		configCommand(m), whereCommand(m), quickstartCommand(m), related, unrelated,
	}
}

func deferCommand(m *Main) *cobra.Command {
	var until string
	cmd := &cobra.Command{Use: "defer ID…", Short: "Defer issues: they are listed but not ready",
		Args: cobra.MinimumNArgs(1)}
	cmd.Flags().StringVar(&until, "until", "", "time at which they become ready: 2026-01-31, +2w, tomorrow")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		at, err := parseTime(until)
		if err != nil {
			return err
		}
		return m.updateEach(cmd.Context(), ids, m.anonymousSignature(), "Deferred", false,
			func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
				return t.Update(id, by, func(it *tracker.Issue) error {
					if it.Status == tracker.StatusClosed {
						return mailroom.Errorf(mailroom.CodeConflict, "%s is closed; open it first with: bd reopen %s", it.ID, it.ID)
					}
					it.Status, it.DeferUntil = tracker.StatusDeferred, at
					return nil
				})
			})
	}
	return cmd
}

func undeferCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "undefer ID…", Short: "Open deferred issues again", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return m.updateEach(cmd.Context(), ids, m.anonymousSignature(), "Opened", false,
				func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
					return t.Update(id, by, func(it *tracker.Issue) error {
						if it.Status != tracker.StatusDeferred && it.DeferUntil.IsZero() {
							return mailroom.Errorf(mailroom.CodeConflict, "%s is not deferred, it is %s", it.ID, it.Status)
						}
						if it.DeferUntil = (time.Time{}); it.Status == tracker.StatusDeferred {
							it.Status = tracker.StatusOpen
						}
						return nil
					})
				})
		}}
}

func childrenCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "children ID", Short: "List the children of an issue, including closed ones",
		Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, ids []string) error {
			return m.read(func(t *tracker.Tracker) error {
				it, err := t.Find(ids[0])
				if err != nil {
					return err
				}
				return m.out.printList(t, t.List(tracker.Filter{Parent: it.ID, All: true}))
			})
		}}
}

// graphCommand draws what an issue depends on and what depends on it.
func graphCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "graph ID", Short: "Draw the dependencies and dependents of an issue",
		Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, ids []string) error {
			return m.read(func(t *tracker.Tracker) error {
				down, err := t.Tree(ids[0], 0, false)
				if err != nil {
					return err
				}
				up, err := t.Tree(ids[0], 0, true)
				if err != nil {
					return err
				}
				if m.out.json {
					nodes := func(tree []tracker.Node) []any {
						list := []any{}
						for _, n := range tree[1:] { // tree[0] is the issue itself
							list = append(list, issueJSON(t, n.Issue, extra{"depth", n.Depth}, extra{"parent_id", n.Under},
								extra{"truncated", n.Cut}))
						}
						return list
					}
					return m.out.printJSON(map[string]any{"root": issueJSON(t, down[0].Issue), "dependencies": nodes(down),
						"dependents": nodes(up)})
				}
				if err := m.out.print("Depends on"); err != nil {
					return err
				}
				if err := m.out.printTree(down); err != nil {
					return err
				}
				if err := m.out.print("", "Depended on by"); err != nil {
					return err
				}
				return m.out.printTree(up)
			})
		}}
}

// duplicatesCommand finds issues with equal content.
func duplicatesCommand(m *Main) *cobra.Command {
	var merge, dry bool
	cmd := &cobra.Command{Use: "duplicates", Short: "Find open issues with equal content", Args: noArgs}
	cmd.Flags().BoolVar(&merge, "auto-merge", false, "close all but one of each group, and move their dependencies to it")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show them (the default without --auto-merge)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var groups [][]*tracker.Issue
		var after *tracker.Tracker
		closed := []*tracker.Issue{}
		do := func(t *tracker.Tracker) error {
			groups, after, closed = duplicateGroups(t), t, closed[:0]
			if !merge || dry {
				return nil
			}
			for _, g := range groups {
				for _, it := range g[1:] {
					if err := t.MoveDependencies(it.ID, g[0].ID, m.anonymousSignature()); err != nil {
						return err
					}
					done, err := t.Close(it.ID, "Duplicate of "+g[0].ID, m.anonymousSignature())
					if err != nil {
						return err
					}
					closed = append(closed, done)
				}
			}
			return nil
		}
		if err := m.changeAll(cmd.Context(), !merge || dry, do); err != nil {
			return err
		}
		m.enqueueMail(cmd.Context(), closedIssues(closed))
		if m.out.json {
			list := []any{}
			for _, g := range groups {
				list = append(list, map[string]any{"keep": g[0].ID, "issues": issuesJSON(after, g, nil)})
			}
			return m.out.printJSON(map[string]any{"duplicate_groups": len(groups), "groups": list,
				"closed": append([]string{}, issueIDs(closed)...)})
		}
		rows := [][]safeText{}
		for _, g := range groups {
			rows = append(rows, cells(g[0].ID, "← "+strings.Join(issueIDs(g[1:]), ", "), g[0].Title))
		}
		if len(rows) == 0 {
			return m.out.report("No duplicates.")
		}
		return m.out.printRows(rows)
	}
	return cmd
}

// duplicateGroups returns groups of open issues with equal content. The issue with the most
// dependents comes first.
func duplicateGroups(t *tracker.Tracker) (groups [][]*tracker.Issue) {
	at, order := map[string][]*tracker.Issue{}, []string{}
	dependents := t.CountDependents()
	for _, it := range t.All() {
		if it.Status == tracker.StatusClosed || it.Status == tracker.StatusTombstone {
			continue
		}
		key := strings.Join([]string{it.Title, it.Description, it.Design, it.Acceptance, string(it.Status)}, "\x00")
		if at[key] == nil {
			order = append(order, key)
		}
		at[key] = append(at[key], it)
	}
	for _, key := range order {
		if g := at[key]; len(g) > 1 {
			slices.SortStableFunc(g, func(a, b *tracker.Issue) int { return cmp.Compare(dependents(b), dependents(a)) })
			groups = append(groups, g)
		}
	}
	return groups
}

func whereCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "where", Short: "Print the tracker's folder", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := m.folder()
			if err != nil {
				return err
			}
			if m.out.json {
				return m.out.printJSON(map[string]string{"path": dir.Path(), "file": dir.File(), "prefix": m.settings(dir).Prefix,
					"via": m.found.via})
			}
			if m.found.via != "" {
				return m.out.print(line(dir.Path()), line("  ("+m.found.via+")"))
			}
			return m.out.print(line(dir.Path()))
		}}
}

func quickstartCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "quickstart", Short: "Print the first commands to try", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if m.out.json {
				return m.out.printJSON(map[string]string{"text": quickstart})
			}
			return m.out.print(safeText(strings.TrimRight(quickstart, "\n")))
		}}
}

const quickstart = `bd init                        create a tracker in this folder
bd create "Fix the roof" -p 1  create an issue, and print its id
bd ready                       list what can be worked on
bd update ID --claim           claim an issue
bd dep add ID OTHER            ID waits for OTHER
bd comments add ID "TEXT"      add a comment
bd close ID --reason "WHY"     close it
bd prime                       print instructions for agents
`

// configCommand reads and changes .beads/config.toml.
func configCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Manage settings in .beads/config.toml"}
	set := &cobra.Command{Use: "set KEY VALUE", Short: "Change a setting", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, words []string) error {
			return m.configure(cmd.Context(), words[0], words[1])
		}}
	unset := &cobra.Command{Use: "unset KEY", Short: "Remove a setting", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return m.configure(cmd.Context(), words[0], "")
		}}
	get := &cobra.Command{Use: "get KEY", Short: "Print a setting", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, words []string) error {
			dir, err := m.folder()
			if err != nil {
				return err
			}
			set := m.settings(dir)
			to, err := set.at(words[0])
			if err != nil {
				return err
			}
			if m.out.json {
				return m.out.printJSON(map[string]string{"key": words[0], "value": *to})
			}
			return m.out.print(line(*to))
		}}
	list := &cobra.Command{Use: "list", Short: "Print all settings", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := m.folder()
			if err != nil {
				return err
			}
			set := m.settings(dir)
			all, rows := map[string]string{}, [][]safeText{}
			for _, key := range settingKeys() {
				to, err := set.at(key)
				if err != nil {
					return err
				}
				all[key] = *to
				rows = append(rows, cells(key, *to))
			}
			if m.out.json {
				return m.out.printJSON(all)
			}
			return m.out.printRows(rows)
		}}
	cmd.AddCommand(get, set, unset, list)
	return cmd
}

func settingKeys() []string { return []string{"prefix", "mail.url", "mail.project"} }

// at returns the field that stores the setting with this key.
func (s *settings) at(key string) (*string, error) {
	if s.Mail == nil {
		s.Mail = &mailSettings{}
	}
	switch key {
	case "prefix", "issue_prefix", "issue-prefix":
		return &s.Prefix, nil
	case "mail.url":
		return &s.Mail.URL, nil
	case "mail.project":
		return &s.Mail.Project, nil
	}
	return nil, mailroom.Errorf(mailroom.CodeInvalid, "unknown setting %q; the known ones are %s", key,
		strings.Join(settingKeys(), ", "))
}

// configure sets the setting key to value; an empty value removes the setting.
func (m *Main) configure(ctx context.Context, key, value string) error {
	if m.readonly {
		return errReadonly()
	}
	dir, err := m.folder()
	if err != nil {
		return err
	}
	set, err := readSettings(dir)
	if err != nil {
		return err // rewriting the file would lose invalid settings
	}
	was := set
	if set.Mail != nil {
		mail := *set.Mail
		set.Mail = &mail
	}
	to, err := set.at(key)
	if err != nil {
		return err
	}
	if *to = value; to == &set.Prefix && value != "" {
		*to = strings.TrimSuffix(value, "-")
		if err := tracker.CheckPrefix(*to); err != nil {
			return err
		}
	}
	if *set.Mail == (mailSettings{}) {
		set.Mail = nil
	}
	if err := m.writeSettings(ctx, dir, set, to == &set.Prefix && m.trusts(dir, was)); err != nil {
		return err
	}
	if m.out.json {
		return m.out.printJSON(map[string]string{"key": key, "value": value})
	}
	if to != &set.Prefix && value != "" {
		return m.out.report("%s is %s; it takes effect after: bd trust", key, value)
	}
	return m.out.report("%s is %s", key, fmt.Sprintf("%q", value))
}
