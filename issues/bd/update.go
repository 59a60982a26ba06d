package bd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

func updateCommand(m *Main) *cobra.Command {
	var f fields
	var add, remove, set []string
	var claim, force bool
	var parent string
	cmd := &cobra.Command{Use: "update ID…", Short: "Change issues, or claim them", Args: cobra.MinimumNArgs(1)}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.title, "title", "", "new title")
	flags.StringVarP(&f.status, "status", "s", "", "open, in_progress, blocked, deferred or closed")
	flags.StringSliceVar(&add, "add-label", nil, "label to add; may be repeated")
	flags.StringSliceVar(&remove, "remove-label", nil, "label to remove; may be repeated")
	flags.StringSliceVar(&set, "set-labels", nil, "labels to replace the existing ones")
	flags.StringVar(&parent, "parent", "", "id of the new parent; empty removes the parent")
	flags.BoolVar(&claim, "claim", false, "assign it to you and mark it in progress, unless it is assigned to another")
	flags.BoolVar(&force, "force", false, "with --claim: also if you have claimed it already")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if cmd.Flags().NFlag() == 0 || !anySet(cmd) {
			return mailroom.Errorf(mailroom.CodeInvalid, "nothing to update: pass a flag such as --status in_progress")
		}
		if err := f.load(cmd, m); err != nil {
			return err
		}
		by := m.anonymousSignature()
		if claim || parent != "" {
			by = m.signature(cmd.Context())
		}
		starts := claim || flags.Changed("status") && tracker.Status(f.status) == tracker.StatusInProgress
		return m.updateEach(cmd.Context(), ids, by, "Updated", starts,
			func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
				if claim {
					it, err := t.Find(id)
					if err == nil && !force {
						err = held(it, by)
					}
					if err == nil {
						_, err = t.Claim(it.ID, by)
					}
					if err != nil {
						return nil, err
					}
				}
				if flags.Changed("set-labels") {
					it, err := t.Find(id)
					if err != nil {
						return nil, err
					}
					if _, err := t.UpdateLabels(id, set, slices.DeleteFunc(slices.Clone(it.Labels), func(l string) bool {
						return slices.Contains(set, l)
					}), by); err != nil {
						return nil, err
					}
				}
				if len(add)+len(remove) > 0 {
					if _, err := t.UpdateLabels(id, add, remove, by); err != nil {
						return nil, err
					}
				}
				if flags.Changed("parent") {
					if _, err := t.SetParent(id, parent, by); err != nil {
						return nil, err
					}
				}
				return t.Update(id, by, func(it *tracker.Issue) error { return f.set(cmd, it) })
			})
	}
	return cmd
}

// anySet reports whether a flag for a change was given.
func anySet(cmd *cobra.Command) bool {
	for _, name := range []string{
		"title", "status", "description", "design", "acceptance", "notes", "assignee", "type", "priority", "external-ref",
		"estimate",
		"add-label", "remove-label", "set-labels", "claim", "parent", "due", "defer", "append-notes", "body-file", "stdin",
	} {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// updateEach applies f to several issues, all or none. If starts is set, the command starts work on the issues, so
// updateEach reserves them first.
func (m *Main) updateEach(ctx context.Context, ids []string, by tracker.Signature, done string, starts bool,
	f func(*tracker.Tracker, string, tracker.Signature) (*tracker.Issue, error)) error {
	return m.updateEachThen(ctx, ids, by, done, starts, f, func(*tracker.Tracker, []*tracker.Issue) error {
		return errDefaultPrint
	})
}

// errDefaultPrint makes updateEachThen print the default result.
var errDefaultPrint = errors.New("print the default result")

// updateEachThen is [Main.updateEach] with a function print that prints the changed issues.
func (m *Main) updateEachThen(
	ctx context.Context, ids []string, by tracker.Signature, done string, starts bool,
	f func(*tracker.Tracker, string, tracker.Signature) (*tracker.Issue, error),
	print func(after *tracker.Tracker, changed []*tracker.Issue) error,
) error {
	var changed []*tracker.Issue
	var moves []transition
	var after *tracker.Tracker
	do := func(t *tracker.Tracker) error {
		changed, moves, after = nil, nil, t
		for _, id := range ids {
			was, err := t.Find(id)
			if err != nil {
				return err
			}
			it, err := f(t, id, by)
			if err != nil {
				return err
			}
			changed, moves = append(changed, it), append(moves, transition{was, it})
		}
		return nil
	}
	if starts {
		if err := m.reserve(ctx, do, &moves); err != nil {
			return err
		}
	}
	if err := m.change(ctx, do); err != nil {
		m.mailbox().ReleaseAll(ctx)
		return err
	}
	m.enqueueMail(ctx, moves)
	for _, move := range moves {
		warnOfRest(m, after, move, by.Actor)
	}
	if err := print(after, changed); !errors.Is(err, errDefaultPrint) {
		return err
	}
	if m.out.json {
		return m.out.printJSON(issuesJSON(after, changed, nil))
	}
	for i, it := range changed {
		if err := m.reportChange(done, moves[i].was, it); err != nil {
			return err
		}
	}
	return nil
}

// warnOfRest says what a change of an issue's status leaves behind: prerequisites and children that are not closed, and
// the other assignee of an issue that is open again, because ready --claim skips it.
func warnOfRest(m *Main, t *tracker.Tracker, move transition, actor string) {
	was, is := move.was, move.is
	closed := is.Status == tracker.StatusClosed
	switch {
	case was.Status == is.Status:
		return
	case closed || is.Status == tracker.StatusInProgress:
		if on := t.BlockedBy(is); len(on) > 0 {
			m.out.logf("Warning: %s waits for %s", is.ID, shortList(on))
		}
	case was.Status == tracker.StatusClosed && is.Assignee != "" && is.Assignee != actor:
		m.out.logf("Warning: %s is still assigned to %s; to free it: %s update %s --assignee \"\"", is.ID, is.Assignee,
			cmp.Or(m.Name, "bd"), is.ID)
	}
	if !closed {
		return
	}
	if open := t.List(tracker.Filter{Parent: is.ID}); len(open) > 0 {
		m.out.logf("Warning: %s has children that are not closed: %s", is.ID, shortList(open))
	}
}

// shortList returns the ids of the first few issues, and how many more there are.
func shortList(found []*tracker.Issue) string {
	const few = 5
	text := strings.Join(issueIDs(found[:min(len(found), few)]), ", ")
	if more := len(found) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// reportChange prints what the command did to an issue, or that the issue was in that state already.
func (m *Main) reportChange(done string, was, is *tracker.Issue) error {
	switch {
	case was != is:
		return m.out.report("%s %s: %s", done, is.ID, is.Title)
	case is.Status == tracker.StatusClosed:
		return m.out.report("%s is closed already, with the reason: %s", is.ID, is.CloseReason)
	case is.Status == tracker.StatusInProgress && is.Assignee != "":
		return m.out.report("%s is unchanged, %s works on it: %s", is.ID, is.Assignee, is.Title)
	}
	return m.out.report("%s is unchanged: %s", is.ID, is.Title)
}

func closeCommand(m *Main) *cobra.Command {
	var reason string
	var next bool
	cmd := &cobra.Command{Use: "close ID…", Aliases: []string{"done"}, Short: "Close issues", Args: cobra.MinimumNArgs(1)}
	cmd.Flags().StringVarP(&reason, "reason", "r", "Closed", "reason")
	cmd.Flags().BoolVar(&next, "suggest-next", false, "show issues that became ready")
	cmd.Flags().BoolP("force", "f", false, "accepted and ignored")
	_ = cmd.Flags().MarkHidden("force") // the flag is there
	ignoredFlags(cmd, "no-auto", "continue")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		var before map[string]bool
		var freed []*tracker.Issue
		err := m.updateEachThen(cmd.Context(), ids, m.anonymousSignature(), "Closed", false,
			func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
				if next && before == nil {
					before = map[string]bool{}
					for _, it := range t.Ready(tracker.Filter{}, tracker.OrderPriority, by.At) {
						before[it.ID] = true
					}
				}
				return t.Close(id, reason, by)
			}, func(after *tracker.Tracker, closed []*tracker.Issue) error {
				if !next {
					return errDefaultPrint
				}
				freed = slices.DeleteFunc(after.Ready(tracker.Filter{}, tracker.OrderPriority, time.Now()),
					func(it *tracker.Issue) bool {
						return before[it.ID]
					})
				if m.out.json {
					return m.out.printJSON(map[string]any{"closed": issuesJSON(after, closed, nil),
						"unblocked": issuesJSON(after, freed, nil)})
				}
				return errDefaultPrint
			})
		if err != nil || len(freed) == 0 || m.out.json || m.out.quiet {
			return err
		}
		if err := m.out.report("Ready now:"); err != nil {
			return err
		}
		return m.out.printTable(freed)
	}
	return cmd
}

func reopenCommand(m *Main) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: "reopen ID…", Short: "Open issues again", Args: cobra.MinimumNArgs(1)}
	cmd.Flags().StringVarP(&reason, "reason", "r", "", "reason, added as a comment")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return m.updateEach(cmd.Context(), ids, m.signature(cmd.Context()), "Reopened", false,
			func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
				if strings.TrimSpace(reason) != "" {
					if _, err := t.AddComment(id, "Reopened: "+reason, by); err != nil {
						return nil, err
					}
				}
				return t.Update(id, by, func(it *tracker.Issue) error {
					it.Status = tracker.StatusOpen
					return nil
				})
			})
	}
	return cmd
}

func deleteCommand(m *Main) *cobra.Command {
	var force, cascade, dry bool
	var reason string
	cmd := &cobra.Command{
		Use: "delete ID…", Short: "Delete issues, leaving tombstones so that merges do not restore them",
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&force, "force", "f", false, "delete; without it, only show what would be deleted")
	flags.BoolVar(&cascade, "cascade", false, "also delete issues that depend on them")
	flags.BoolVar(&dry, "dry-run", false, "only show what would be deleted")
	flags.StringVarP(&reason, "reason", "r", "", "reason")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		var gone []*tracker.Issue
		by := m.signature(cmd.Context())
		remove := func(t *tracker.Tracker) (err error) {
			gone, err = t.Delete(ids, reason, cascade, force, by)
			return err
		}
		dry = dry || !force
		if err := m.changeAll(cmd.Context(), dry, remove); err != nil {
			return err
		}
		if !dry {
			m.enqueueMail(cmd.Context(), closedIssues(gone))
		}
		return m.out.printDeleted(gone, !dry)
	}
	return cmd
}

func (o *output) printDeleted(gone []*tracker.Issue, done bool) error {
	ids := []string{}
	for _, it := range gone {
		ids = append(ids, it.ID)
	}
	if o.json {
		return o.printJSON(map[string]any{"deleted": ids, "deleted_count": len(ids), "dry_run": !done})
	}
	if done {
		return o.report("Deleted %s", strings.Join(ids, ", "))
	}
	return o.report("This would delete %s; do it with --force", strings.Join(ids, ", "))
}
