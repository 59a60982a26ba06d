package bd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/tracker"
)

func (m *Main) initCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "init", Short: "Make a tracker in this folder; nothing outside of .beads is touched", Args: noArgs,
	}
	cmd.Flags().StringVarP(&prefix, "prefix", "p", "", "what ids begin with (default the folder's name)")
	cmd.RunE = func(*cobra.Command, []string) error {
		path := filepath.Join(m.Dir, folderName)
		switch {
		case m.database != "":
			path = filepath.Dir(m.at(m.database))
		case m.Env("BEADS_DIR") != "":
			path = m.at(m.Env("BEADS_DIR"))
		}
		if prefix == "" {
			prefix = fitting(filepath.Base(filepath.Dir(path)))
		}
		if err := tracker.CheckPrefix(prefix); err != nil {
			return err
		}
		dir := tracker.FolderAt(path)
		if err := dir.Init(); err != nil {
			return err
		}
		err := dir.CreateFile(settingsFile, fmt.Sprintf("prefix = %q\n", prefix))
		switch {
		case errors.Is(err, fs.ErrExist):
			if m.json {
				set, err := readSettings(dir)
				if err != nil {
					return err
				}
				return m.printJSON(map[string]string{"path": path, "prefix": set.Prefix})
			}
			return m.tell("There is a tracker in %s already.", path)
		case err != nil:
			return fmt.Errorf("make the tracker: %w", err)
		}
		if m.json {
			return m.printJSON(map[string]string{"path": path, "prefix": prefix})
		}
		return m.tell("Made a tracker in %s; its issues begin with %s-.", path, prefix)
	}
	return cmd
}

// fitting makes a prefix of a folder's name.
func fitting(name string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return r
		}
		return '-'
	}, name), "-")
	if name == "" {
		return "bd"
	}
	return name
}

// fields are the flags that set what an issue says.
type fields struct {
	title, description, design, acceptance, notes, assignee string
	kind, priority, status, external                        string
	due, deferred, bodyFile, appendNotes                    string
	stdin                                                   bool
	estimate                                                int
}

func (f *fields) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.description, "description", "d", "", "what it is about; - reads it from stdin")
	flags.StringVar(&f.design, "design", "", "how it is to be done")
	flags.StringVar(&f.acceptance, "acceptance", "", "when it is done")
	flags.StringVar(&f.notes, "notes", "", "what else there is to know")
	flags.StringVarP(&f.assignee, "assignee", "a", "", "who has it")
	flags.StringVarP(&f.kind, "type", "t", "", "bug, feature, task, epic, chore, or another word")
	flags.StringVarP(&f.priority, "priority", "p", "", "0 (critical) to 4 (backlog), or P0 to P4")
	flags.StringVar(&f.external, "external-ref", "", "its name elsewhere, such as gh-9")
	flags.IntVarP(&f.estimate, "estimate", "e", 0, "minutes that it may take")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file with the description; - is stdin")
	flags.StringVar(&f.due, "due", "", "when it is due: 2026-01-31, +2w, tomorrow; empty is never")
	flags.StringVar(&f.deferred, "defer", "", "when it can be ready at the earliest; written like --due")
	flags.StringVar(&f.appendNotes, "append-notes", "", "text to add below the notes")
	flags.BoolVar(&f.stdin, "stdin", false, "read the description from stdin, as --body-file - does")
	_ = flags.MarkHidden("stdin") // the flag is there
	alias(cmd, "description", "body", "message")
	alias(cmd, "body-file", "description-file")
	alias(cmd, "acceptance", "acceptance-criteria")
}

// load reads texts that are not on the command line. It is called before anything is
// locked or reserved, because input may take its time.
func (f *fields) load(cmd *cobra.Command, m *Main) (err error) {
	given, sources := cmd.Flags().Changed, 0
	for _, is := range []bool{given("description"), given("body-file"), f.stdin} {
		if is {
			sources++
		}
	}
	if sources > 1 {
		return usage("give the description once: with --description, --body-file or --stdin")
	}
	switch {
	case given("body-file"):
		f.description, err = m.inputFile(f.bodyFile, "the description")
	case f.stdin, f.description == "-":
		f.description, err = m.input("the description")
	default:
		return nil
	}
	cmd.Flags().Lookup("description").Changed = true
	return err
}

// set changes what flags were given for.
func (f *fields) set(cmd *cobra.Command, it *tracker.Issue) error {
	given := cmd.Flags().Changed
	for _, text := range []struct {
		flag, value string
		to          *string
	}{
		{"title", f.title, &it.Title}, {"description", f.description, &it.Description}, {"design", f.design, &it.Design},
		{"acceptance", f.acceptance, &it.Acceptance}, {"notes", f.notes, &it.Notes}, {"assignee", f.assignee, &it.Assignee},
		{"type", f.kind, &it.Type}, {"external-ref", f.external, &it.ExternalRef},
	} {
		if given(text.flag) {
			*text.to = text.value
		}
	}
	if f.appendNotes != "" {
		it.Notes = strings.TrimLeft(it.Notes+"\n"+f.appendNotes, "\n")
	}
	for _, when := range []struct {
		flag, value string
		to          *time.Time
	}{{"due", f.due, &it.DueAt}, {"defer", f.deferred, &it.DeferUntil}} {
		if !given(when.flag) {
			continue
		}
		at, err := moment(when.value)
		if err != nil {
			return err
		}
		*when.to = at
	}
	if given("status") {
		it.Status = tracker.Status(f.status)
	}
	if given("estimate") {
		if f.estimate < 0 {
			return mailroom.Errorf(mailroom.CodeInvalid, "an estimate of %d minutes is none", f.estimate)
		}
		it.EstimatedMinutes = &f.estimate
	}
	if given("priority") {
		p, err := priority(f.priority)
		if err != nil {
			return err
		}
		it.Priority = p
	}
	return nil
}

// priority reads 0 … 4, or P0 … P4.
func priority(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.ToUpper(s), "P"))
	if err != nil || n < tracker.PriorityCritical || n > tracker.PriorityBacklog {
		return 0, mailroom.Errorf(mailroom.CodeInvalid, "priority %q is not one of 0 to 4, or P0 to P4", s)
	}
	return n, nil
}

func (m *Main) createCommand() *cobra.Command {
	var f fields
	var labels, deps []string
	var id, parent, title, plan string
	var silent, dry bool
	cmd := &cobra.Command{Use: "create TITLE", Aliases: []string{"new"}, Short: "Create an issue", Args: cobra.MaximumNArgs(1)}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&title, "title", "", "the title, instead of the argument")
	flags.StringSliceVarP(&labels, "labels", "l", nil, "labels, with commas between")
	flags.StringSliceVar(&deps, "deps", nil, "issues that it depends on, as ID or TYPE:ID, with commas between")
	flags.StringVar(&parent, "parent", "", "the issue that it is a child of")
	flags.StringVar(&id, "id", "", "its id, instead of a new one")
	flags.BoolVar(&silent, "silent", false, "print its id only")
	flags.StringVarP(&plan, "file", "f", "", "a Markdown file: an issue for each heading of the second level")
	flags.BoolVar(&dry, "dry-run", false, "only show what would be created")
	alias(cmd, "labels", "label")
	idle(cmd, "force", "no-inherit-labels", "validate")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if plan != "" {
			return m.createPlan(cmd.Context(), plan, dry)
		}
		if err := f.load(cmd, m); err != nil {
			return err
		}
		d := tracker.NewIssue{Issue: tracker.Issue{ID: id, Priority: tracker.PriorityNormal, Labels: labels}, Parent: parent}
		if err := f.set(cmd, &d.Issue); err != nil {
			return err
		}
		d.Title = strings.Join(append(args, title), "")
		d.Dependencies = dependencies(deps)
		return m.create(cmd.Context(), d, dry, func(t *tracker.Tracker, it *tracker.Issue) error {
			switch {
			case m.json:
				return m.printJSON(shape(t, it))
			case dry:
				return m.tell("This would create: %s (P%d %s)", it.Title, it.Priority, it.Type)
			case silent:
				return m.printID(it)
			}
			return m.tell("Created %s: %s (P%d %s)", it.ID, it.Title, it.Priority, it.Type)
		})
	}
	return cmd
}

// dependencies reads "ID" and "TYPE:ID".
func dependencies(deps []string) (list []tracker.Dependency) {
	for _, dep := range trimmed(deps) {
		kind, on, found := strings.Cut(dep, ":")
		if !found {
			kind, on = tracker.DependencyBlocks, dep
		}
		list = append(list, tracker.Dependency{On: strings.TrimSpace(on), Type: strings.TrimSpace(kind)})
	}
	return list
}

func (m *Main) quickCommand() *cobra.Command {
	var f fields
	var labels []string
	cmd := &cobra.Command{Use: "q TITLE", Short: "Create an issue and print its id", Args: cobra.MinimumNArgs(1)}
	f.bind(cmd)
	cmd.Flags().StringSliceVarP(&labels, "labels", "l", nil, "labels, with commas between")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.load(cmd, m); err != nil {
			return err
		}
		d := tracker.NewIssue{Issue: tracker.Issue{Priority: tracker.PriorityNormal, Labels: labels}}
		if err := f.set(cmd, &d.Issue); err != nil {
			return err
		}
		d.Title = strings.Join(args, " ")
		return m.create(cmd.Context(), d, false, func(t *tracker.Tracker, it *tracker.Issue) error {
			if m.json {
				return m.printJSON(shape(t, it))
			}
			return m.printID(it)
		})
	}
	return cmd
}

func (m *Main) printID(it *tracker.Issue) error {
	return m.print(line(it.ID))
}

// create adds an issue, and prints it once it is on the disk.
func (m *Main) create(ctx context.Context, d tracker.NewIssue, dry bool, print func(*tracker.Tracker, *tracker.Issue) error) error {
	made, after, err := m.createAll(ctx, []tracker.NewIssue{d}, dry)
	if err != nil {
		return err
	}
	return print(after, made[0])
}

// createAll adds issues, all or none, or with dry only makes them.
func (m *Main) createAll(ctx context.Context, drafts []tracker.NewIssue, dry bool) (made []*tracker.Issue, after *tracker.Tracker, err error) {
	dir, err := m.folder()
	if err != nil {
		return nil, nil, err
	}
	set := m.settings(dir)
	by := m.by(ctx)
	do := func(t *tracker.Tracker) error {
		made, after = nil, t
		for _, d := range drafts {
			d.Labels = trimmed(d.Labels)
			if d.Prefix = cmp.Or(set.Prefix, t.Prefix()); d.Prefix == "" {
				d.Prefix = fitting(filepath.Base(filepath.Dir(dir.Path())))
			}
			it, err := t.Create(d, by)
			if err != nil {
				return err
			}
			made = append(made, it)
		}
		return nil
	}
	if dry {
		err = m.read(do)
	} else {
		err = m.change(ctx, do)
	}
	return made, after, err
}

// trimmed are texts without blanks around them, and without empty ones.
func trimmed(texts []string) []string {
	var out []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}
	return out
}
