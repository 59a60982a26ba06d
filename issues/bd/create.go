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
	"mailroom/issues/tracker"
)

func initCommand(m *Main) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "init", Short: "Create a tracker in .beads of this folder", Args: noArgs,
	}
	cmd.Flags().StringVarP(&prefix, "prefix", "p", "", "prefix of ids (default: the folder's name)")
	cmd.RunE = func(*cobra.Command, []string) error {
		path := m.named()
		if path == "" {
			path = filepath.Join(m.Dir, folderName)
		}
		// A new tracker here would hide the tracker that this folder already uses.
		used, err := m.finder().follow(path)
		if err == nil && m.named() == "" {
			used, err = m.finder().inFolder(m.Dir)
		}
		if err != nil {
			return err
		}
		if used.via != "" {
			return mailroom.Errorf(mailroom.CodeConflict,
				"a tracker is used from here already, in %s: %s; for another one: BEADS_DIR=%s bd init", used.Path(),
				used.via, path)
		}
		dir := tracker.FolderAt(path)
		if prefix == "" && dir.Exists() { // its issues have a prefix
			return m.reportExisting(dir)
		}
		if prefix == "" {
			prefix = prefixFrom(filepath.Base(filepath.Dir(path)))
		}
		if err := tracker.CheckPrefix(prefix); err != nil {
			return err
		}
		if err := dir.Init(); err != nil {
			return err
		}
		err = dir.CreateFile(settingsFile, fmt.Sprintf("prefix = %q\n", prefix))
		switch {
		case errors.Is(err, fs.ErrExist):
			return m.reportExisting(dir)
		case err != nil:
			return fmt.Errorf("create the tracker: %w", err)
		}
		if m.out.json {
			return m.out.printJSON(map[string]string{"path": path, "prefix": prefix})
		}
		return m.out.report("Created a tracker in %s; ids begin with %s-.", path, prefix)
	}
	return cmd
}

// reportExisting prints that the folder has a tracker already, so init has nothing to do.
func (m *Main) reportExisting(dir tracker.Folder) error {
	set, err := readSettings(dir)
	if err != nil {
		return err
	}
	t, _, err := dir.Read()
	if err != nil {
		return err
	}
	prefix := cmp.Or(set.Prefix, t.Prefix())
	if m.out.json {
		return m.out.printJSON(map[string]string{"path": dir.Path(), "prefix": prefix})
	}
	if prefix == "" {
		return m.out.report("A tracker already exists in %s.", dir.Path())
	}
	return m.out.report("A tracker already exists in %s; ids begin with %s-.", dir.Path(), prefix)
}

// prefixFrom derives a prefix from a folder's name.
func prefixFrom(name string) string {
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

// fields holds the flags that set fields of an issue.
type fields struct {
	title, description, design, acceptance, notes, assignee string
	kind, priority, status, external                        string
	due, deferred, bodyFile, appendNotes                    string
	stdin                                                   bool
	estimate                                                int
}

func (f *fields) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.description, "description", "d", "", "description; - reads it from stdin")
	flags.StringVar(&f.design, "design", "", "design")
	flags.StringVar(&f.acceptance, "acceptance", "", "acceptance criteria")
	flags.StringVar(&f.notes, "notes", "", "notes")
	flags.StringVarP(&f.assignee, "assignee", "a", "", "assignee")
	flags.StringVarP(&f.kind, "type", "t", "", "bug, feature, task, epic, chore, or another word")
	flags.StringVarP(&f.priority, "priority", "p", "", "0 (critical) to 4 (backlog), or P0 to P4")
	flags.StringVar(&f.external, "external-ref", "", "reference to another tracker, such as gh-9")
	flags.IntVarP(&f.estimate, "estimate", "e", 0, "estimated minutes")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file with the description; - is stdin")
	flags.StringVar(&f.due, "due", "", "due date: 2026-01-31, +2w, tomorrow; empty removes it")
	flags.StringVar(&f.deferred, "defer", "", "date before which it is not ready, in the format of --due")
	flags.StringVar(&f.appendNotes, "append-notes", "", "text to add below the notes")
	flags.BoolVar(&f.stdin, "stdin", false, "read the description from stdin, like --body-file -")
	_ = flags.MarkHidden("stdin") // the flag is there
	alias(cmd, "description", "body", "message")
	alias(cmd, "body-file", "description-file")
	alias(cmd, "acceptance", "acceptance-criteria")
}

// load reads texts from files and stdin. It must be called before anything is locked or reserved,
// because input may block.
func (f *fields) load(cmd *cobra.Command, m *Main) (err error) {
	given, sources := cmd.Flags().Changed, 0
	for _, is := range []bool{given("description"), given("body-file"), f.stdin} {
		if is {
			sources++
		}
	}
	if sources > 1 {
		return usage("use only one of --description, --body-file and --stdin")
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

// set applies the flags that were given.
func (f *fields) set(cmd *cobra.Command, it *tracker.Issue) error {
	given := cmd.Flags().Changed
	if strings.ContainsAny(f.kind, " \t\n") {
		return mailroom.Errorf(mailroom.CodeInvalid,
			"type %q has more than one word; use a word such as bug, task or epic; a title is set with --title", f.kind)
	}
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
		at, err := parseTime(when.value)
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
			return mailroom.Errorf(mailroom.CodeInvalid, "invalid estimate %d; use 0 or more minutes", f.estimate)
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

// priority parses 0 to 4, or P0 to P4.
func priority(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.ToUpper(s), "P"))
	if err != nil || n < tracker.PriorityCritical || n > tracker.PriorityBacklog {
		return 0, mailroom.Errorf(mailroom.CodeInvalid, "priority %q is not one of 0 to 4, or P0 to P4", s)
	}
	return n, nil
}

func createCommand(m *Main) *cobra.Command {
	var f fields
	var labels, deps []string
	var id, parent, title, plan string
	var silent, dry bool
	cmd := &cobra.Command{Use: "create TITLE", Aliases: []string{"new"}, Short: "Create an issue",
		Args: cobra.MaximumNArgs(1)}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&title, "title", "", "the title, instead of the argument")
	flags.StringSliceVarP(&labels, "labels", "l", nil, "labels, separated by commas")
	flags.StringSliceVar(&deps, "deps", nil, "dependencies as ID or TYPE:ID, separated by commas")
	flags.StringVar(&parent, "parent", "", "id of the parent")
	flags.StringVar(&id, "id", "", "id (default: a new one)")
	flags.BoolVar(&silent, "silent", false, "print only the id")
	flags.StringVarP(&plan, "file", "f", "", "create an issue for each second-level heading of a Markdown file")
	flags.BoolVar(&dry, "dry-run", false, "only show what would be created")
	alias(cmd, "labels", "label")
	ignoredFlags(cmd, "force", "no-inherit-labels", "validate")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if title, err = either(args, title, "--title"); err != nil {
			return err
		}
		if plan != "" {
			if title != "" {
				return usage("--file takes the titles from the file: leave out %q", title)
			}
			return m.createPlan(cmd.Context(), plan, dry)
		}
		if err := f.load(cmd, m); err != nil {
			return err
		}
		d := tracker.NewIssue{Issue: tracker.Issue{ID: id, Priority: tracker.PriorityNormal, Labels: labels}, Parent: parent}
		if err := f.set(cmd, &d.Issue); err != nil {
			return err
		}
		d.Title = title
		d.Dependencies = dependencies(deps)
		return m.create(cmd.Context(), d, dry, func(t *tracker.Tracker, it *tracker.Issue) error {
			switch {
			case m.out.json:
				return m.out.printJSON(issueJSON(t, it))
			case dry:
				return m.out.report("This would create: %s (P%d %s)", it.Title, it.Priority, it.Type)
			case silent:
				return m.out.printID(it)
			}
			return m.out.report("Created %s: %s (P%d %s)", it.ID, it.Title, it.Priority, it.Type)
		})
	}
	return cmd
}

// dependencies parses "ID" and "TYPE:ID".
func dependencies(deps []string) (list []tracker.Dependency) {
	for _, dep := range trimAll(deps) {
		kind, on, found := strings.Cut(dep, ":")
		if !found {
			kind, on = tracker.DependencyBlocks, dep
		}
		list = append(list, tracker.Dependency{On: strings.TrimSpace(on), Type: strings.TrimSpace(kind)})
	}
	return list
}

func quickCommand(m *Main) *cobra.Command {
	var f fields
	var labels []string
	cmd := &cobra.Command{Use: "q TITLE", Short: "Create an issue and print its id", Args: cobra.MinimumNArgs(1)}
	f.bind(cmd)
	cmd.Flags().StringSliceVarP(&labels, "labels", "l", nil, "labels, separated by commas")
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
			if m.out.json {
				return m.out.printJSON(issueJSON(t, it))
			}
			return m.out.printID(it)
		})
	}
	return cmd
}

func (o *output) printID(it *tracker.Issue) error {
	return o.print(line(it.ID))
}

// create adds an issue and prints it once it is on disk.
func (m *Main) create(
	ctx context.Context, d tracker.NewIssue, dry bool, print func(*tracker.Tracker, *tracker.Issue) error,
) error {
	made, after, err := m.createAll(ctx, []tracker.NewIssue{d}, dry)
	if err != nil {
		return err
	}
	return print(after, made[0])
}

// createAll adds issues, all or none. If dry is set, it writes nothing.
func (m *Main) createAll(
	ctx context.Context, drafts []tracker.NewIssue, dry bool,
) (made []*tracker.Issue, after *tracker.Tracker, err error) {
	dir, err := m.folder()
	if err != nil {
		return nil, nil, err
	}
	set := m.settings(dir)
	by := m.signature(ctx)
	do := func(t *tracker.Tracker) error {
		made, after = nil, t
		for _, d := range drafts {
			d.Labels = trimAll(d.Labels)
			if d.Prefix = cmp.Or(set.Prefix, t.Prefix()); d.Prefix == "" {
				d.Prefix = prefixFrom(filepath.Base(filepath.Dir(dir.Path())))
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

// trimAll trims texts and drops empty ones.
func trimAll(texts []string) []string {
	var out []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}
	return out
}
