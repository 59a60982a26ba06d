package bd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// filters holds the flags that select issues.
type filters struct {
	status, kind, assignee, priority, least, most, title, parent string
	createdAfter, createdBefore, updatedAfter, updatedBefore     string
	closedAfter, closedBefore, inDescription, inNotes            string
	labels, anyLabel, ids                                        []string
	all, free, unlabelled, undescribed, orphans                  bool
	limit                                                        int
}

func (f *filters) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.status, "status", "s", "", "only these statuses, separated by commas")
	flags.StringVarP(&f.priority, "priority", "p", "", "only this priority")
	flags.StringVar(&f.least, "priority-min", "", "only this priority or less urgent")
	flags.StringVar(&f.most, "priority-max", "", "only this priority or more urgent")
	flags.StringVarP(&f.kind, "type", "t", "", "only this type")
	flags.StringVarP(&f.assignee, "assignee", "a", "", "only with this assignee")
	flags.BoolVar(&f.free, "no-assignee", false, "only unassigned issues")
	flags.StringSliceVarP(&f.labels, "label", "l", nil, "only with all of these labels")
	flags.StringSliceVar(&f.anyLabel, "label-any", nil, "only with any of these labels")
	flags.StringVar(&f.title, "title", "", "only with this text in the title")
	flags.StringSliceVar(&f.ids, "id", nil, "only these ids")
	flags.StringVar(&f.parent, "parent", "", "only children of this issue")
	flags.StringVar(&f.createdAfter, "created-after", "", "created after this day or time")
	flags.StringVar(&f.createdBefore, "created-before", "", "created before this day or time")
	flags.StringVar(&f.updatedAfter, "updated-after", "", "changed after this day or time")
	flags.StringVar(&f.updatedBefore, "updated-before", "", "changed before this day or time")
	flags.StringVar(&f.closedAfter, "closed-after", "", "closed after this day or time")
	flags.StringVar(&f.closedBefore, "closed-before", "", "closed before this day or time")
	flags.StringVar(&f.inDescription, "desc-contains", "", "only with this text in the description")
	flags.StringVar(&f.inNotes, "notes-contains", "", "only with this text in the notes")
	flags.BoolVar(&f.unlabelled, "no-labels", false, "only without labels")
	flags.BoolVar(&f.undescribed, "empty-description", false, "only without a description")
	flags.BoolVar(&f.orphans, "no-parent", false, "only without a parent")
	flags.IntVarP(&f.limit, "limit", "n", 0, "maximum number of issues; 0 is all")
	alias(cmd, "title", "title-contains")
}

// filter converts the flags to a filter.
func (f *filters) filter(t *tracker.Tracker) (out tracker.Filter, err error) {
	out = tracker.Filter{
		All: f.all, Type: f.kind, Assignee: f.assignee, Free: f.free, Labels: f.labels, AnyLabel: f.anyLabel, Title: f.title,
		Unlabelled: f.unlabelled, Undescribed: f.undescribed, Orphans: f.orphans, InDescription: f.inDescription,
		InNotes: f.inNotes,
	}
	for _, s := range strings.Split(f.status, ",") {
		switch s = strings.TrimSpace(s); s {
		case "":
		case "all":
			out.All = true
		default:
			if !tracker.Status(s).Known() {
				return out, mailroom.Errorf(mailroom.CodeInvalid,
					"status %q is not one of open, in_progress, blocked, deferred, pinned, hooked, closed", s)
			}
			out.Statuses = append(out.Statuses, tracker.Status(s))
		}
	}
	for _, p := range []struct {
		text string
		to   **int
	}{{f.priority, &out.Priority}, {f.least, &out.Least}, {f.most, &out.Most}} {
		if p.text != "" {
			n, err := priority(p.text)
			if err != nil {
				return out, err
			}
			*p.to = &n
		}
	}
	for _, at := range []struct {
		text string
		to   *time.Time
	}{
		{f.createdAfter, &out.CreatedAfter}, {f.createdBefore, &out.CreatedBefore},
		{f.updatedAfter, &out.UpdatedAfter}, {f.updatedBefore, &out.UpdatedBefore},
		{f.closedAfter, &out.ClosedAfter}, {f.closedBefore, &out.ClosedBefore},
	} {
		if *at.to, err = parseTime(at.text); err != nil {
			return out, err
		}
	}
	out.All = out.All || f.closedAfter != "" || f.closedBefore != "" // else nothing matches
	for _, id := range f.ids {
		it, err := t.Find(id)
		if err != nil {
			return out, err
		}
		out.IDs = append(out.IDs, it.ID)
	}
	if f.parent != "" {
		it, err := t.Find(f.parent)
		if err != nil {
			return out, err
		}
		out.Parent = it.ID
	}
	return out, nil
}

func limitTo[T any](list []T, n int) []T {
	if n > 0 && len(list) > n {
		return list[:n]
	}
	return list
}

func listCommand(m *Main) *cobra.Command {
	var f filters
	var order sorting
	var tree bool
	cmd := &cobra.Command{Use: "list", Short: "List issues that are not closed", Args: noArgs}
	f.bind(cmd)
	order.bind(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "include closed issues")
	cmd.Flags().BoolVar(&tree, "pretty", false, "show as a tree, children below their parents")
	alias(cmd, "pretty", "tree")
	ignoredFlags(cmd, "long", "flat", "no-pager")
	cmd.RunE = func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			what, err := f.filter(t)
			if err != nil {
				return err
			}
			found := t.List(what)
			if err := order.sort(found); err != nil {
				return err
			}
			found = limitTo(found, f.limit)
			if tree && !m.out.json {
				return m.out.printTree(parentTree(found))
			}
			return m.out.printList(t, found)
		})
	}
	return cmd
}

// printList prints issues in the format of the list command.
func (o *output) printList(t *tracker.Tracker, found []*tracker.Issue) error {
	if o.json {
		return o.printIssuesJSON(t, found, counts(t))
	}
	return o.printTable(found)
}

func searchCommand(m *Main) *cobra.Command {
	var f filters
	cmd := &cobra.Command{Use: "search TEXT", Short: "Search issues for a text", Args: cobra.MinimumNArgs(1)}
	f.bind(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		f.all = true
		return m.read(func(t *tracker.Tracker) error {
			what, err := f.filter(t)
			if err != nil {
				return err
			}
			what.Text = strings.Join(args, " ")
			return m.out.printList(t, limitTo(t.List(what), f.limit))
		})
	}
	return cmd
}

func countCommand(m *Main) *cobra.Command {
	var f filters
	var group string
	groups := map[string]func(*tracker.Issue) []string{
		"status":   func(it *tracker.Issue) []string { return []string{string(it.Status)} },
		"priority": func(it *tracker.Issue) []string { return []string{fmt.Sprintf("P%d", it.Priority)} },
		"type":     func(it *tracker.Issue) []string { return []string{it.Type} },
		"assignee": func(it *tracker.Issue) []string { return []string{it.Assignee} },
		"label":    func(it *tracker.Issue) []string { return it.Labels },
	}
	cmd := &cobra.Command{Use: "count", Short: "Count issues, including closed ones", Args: noArgs}
	f.bind(cmd)
	by := map[string]*bool{}
	for name := range groups {
		by[name] = cmd.Flags().Bool("by-"+name, false, "by "+name)
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		for name, on := range by {
			if *on && group != "" {
				return mailroom.Errorf(mailroom.CodeInvalid, "use only one of %s and %s", group, name)
			} else if *on {
				group = name
			}
		}
		return m.read(func(t *tracker.Tracker) error {
			f.all = true
			what, err := f.filter(t)
			if err != nil {
				return err
			}
			found := t.List(what)
			if group == "" {
				return m.out.printCount(len(found))
			}
			return m.out.printGroups(found, groups[group])
		})
	}
	return cmd
}

func readyCommand(m *Main) *cobra.Command {
	var f filters
	order := string(tracker.OrderPriority)
	var claim, explain bool
	cmd := &cobra.Command{Use: "ready", Short: "List open issues that nothing blocks", Args: noArgs}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&order, "sort", order,
		"priority (then the oldest), oldest, or hybrid (those of two days by priority, then the oldest)")
	flags.BoolVar(&f.free, "unassigned", false, "only unassigned issues")
	flags.BoolVar(&claim, "claim", false, "claim the first unassigned issue")
	flags.BoolVar(&explain, "explain", false, "also show what blocks the others")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains([]tracker.Order{tracker.OrderHybrid, tracker.OrderPriority, tracker.OrderAge},
			tracker.Order(order)) {
			return mailroom.Errorf(mailroom.CodeInvalid, "sort %q is not one of priority, oldest, hybrid", order)
		}
		find := func(t *tracker.Tracker) ([]*tracker.Issue, error) {
			what, err := f.filter(t)
			return t.Ready(what, tracker.Order(order), time.Now()), err
		}
		if claim {
			by := m.signature(cmd.Context())
			return m.claimReady(cmd, by, find)
		}
		return m.read(func(t *tracker.Tracker) error {
			found, err := find(t)
			if err != nil {
				return err
			}
			if explain && !m.out.json {
				return m.out.printExplained(t, found)
			}
			return m.out.printList(t, limitTo(found, f.limit))
		})
	}
	return cmd
}

// claimReady claims the first ready issue that is unassigned and not reserved by another agent.
func (m *Main) claimReady(
	cmd *cobra.Command, by tracker.Signature, find func(*tracker.Tracker) ([]*tracker.Issue, error),
) error {
	ctx := cmd.Context()
	errTaken := errors.New("claimed by another command")
	free := func(it *tracker.Issue) bool { return it.Assignee == "" || it.Assignee == by.Actor }
	for {
		reserved, err := m.reserveReady(ctx, find, free)
		if err != nil {
			return err
		}
		var mine transition
		var after *tracker.Tracker
		err = m.changeAll(ctx, false, func(t *tracker.Tracker) error {
			found, err := find(t)
			if err != nil {
				return err
			}
			for _, it := range found {
				if free(it) && (reserved == "" || it.ID == reserved) {
					after, mine.was = t, it
					mine.is, err = t.Claim(it.ID, by)
					return err
				}
			}
			if reserved != "" {
				return errTaken
			}
			return errNoneFree()
		})
		if err != nil {
			m.mailbox().ReleaseAll(ctx)
		}
		if errors.Is(err, errTaken) {
			continue // terminates: each retry means that another command has claimed an issue
		}
		if err != nil {
			return err
		}
		m.enqueueMail(ctx, []transition{mine})
		if m.out.json {
			return m.out.printJSON(issuesJSON(after, []*tracker.Issue{mine.is}, nil))
		}
		return m.out.report("Claimed %s: %s", mine.is.ID, mine.is.Title)
	}
}

func errNoneFree() error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no unassigned issue is ready")
}

func blockedCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "blocked", Short: "List issues that other issues block", Args: noArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			found := t.BlockedIssues()
			if m.out.json {
				return m.out.printIssuesJSON(t, found, func(it *tracker.Issue) []extra {
					ids := issueIDs(t.BlockedBy(it))
					return []extra{{"blocked_by_count", len(ids)}, {"blocked_by", ids}}
				})
			}
			return m.out.printBlocked(t, found)
		})
	}
	return cmd
}

func issueIDs(issues []*tracker.Issue) []string {
	ids := []string{}
	for _, it := range issues {
		ids = append(ids, it.ID)
	}
	return ids
}

func staleCommand(m *Main) *cobra.Command {
	var days, limit int
	var status string
	cmd := &cobra.Command{Use: "stale", Short: "List open issues without recent changes", Args: noArgs}
	cmd.Flags().IntVarP(&days, "days", "d", 30, "days without a change")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "maximum number of issues")
	cmd.Flags().StringVarP(&status, "status", "s", "", "only this status")
	cmd.RunE = func(*cobra.Command, []string) error {
		return m.read(func(t *tracker.Tracker) error {
			found := t.Stale(time.Now().AddDate(0, 0, -days))
			found = slices.DeleteFunc(found, func(it *tracker.Issue) bool { return status != "" && string(it.Status) != status })
			return m.out.printList(t, limitTo(found, limit))
		})
	}
	return cmd
}

func showCommand(m *Main) *cobra.Command {
	var short bool
	cmd := &cobra.Command{Use: "show ID…", Short: "Show issues in full", Args: cobra.MinimumNArgs(1)}
	cmd.Flags().BoolVar(&short, "short", false, "one line per issue")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return m.read(func(t *tracker.Tracker) error {
			var found []*tracker.Issue
			for _, id := range ids {
				it, err := t.Find(id)
				if err != nil {
					return err
				}
				found = append(found, it)
			}
			if !m.out.json && short {
				return m.out.printTable(found)
			}
			if !m.out.json {
				return m.printIssues(cmd.Context(), t, found)
			}
			list := []any{}
			for _, it := range found {
				list = append(list, fullIssueJSON(t, it, m.runOf(cmd.Context(), it)))
			}
			return m.out.printJSON(list)
		})
	}
	return cmd
}
