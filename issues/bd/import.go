package bd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// sourceBeads names the exports of other implementations in --from.
const sourceBeads = "beads"

func importCommand(m *Main) *cobra.Command {
	var i importing
	cmd := &cobra.Command{Use: "import [FILE]", Short: "Import issues from JSON lines, merging existing ones",
		Args: cobra.MaximumNArgs(1),
		Long: `Import issues from JSON lines, merging existing ones.

FILE can be the backup of a database, such as .beads/backup: a folder with issues.jsonl and the
files dependencies.jsonl, labels.jsonl and comments.jsonl, which belong to it.

--from says where the issues come from, and will again. "beads": FILE is an export of beads. "github": FILE is the
name of a repository, OWNER/NAME, and $GITHUB_TOKEN a token that may read its issues. "linear": FILE is the key of a
team, or a project's address, and $LINEAR_API_KEY a key. A board's open issues come in, with labels, assignee,
comments, parent and what blocks them; the next import reads what has changed. What was read is kept in
.beads/imported-….jsonl, so that the next import tells a change there from a change here.`,
		Example: `  bd import --from beads export.jsonl
  bd import --from github ann/roof`,
	}
	flags := cmd.Flags()
	flags.StringVarP(&i.file, "input", "i", "", "file to read (default stdin)")
	flags.StringVar(&i.source, "from", "", "where the issues come from, and will again: "+sourceNames())
	flags.BoolVar(&i.closed, "closed", false, "read all closed issues of a board too")
	flags.BoolVar(&i.dry, "dry-run", false, "only show what would change")
	flags.BoolVarP(&i.keep, "skip-existing", "s", false, "leave existing issues unchanged")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		board := isBoard(i.source)
		switch {
		case i.source != "" && i.source != sourceBeads && !board:
			return mailroom.Errorf(mailroom.CodeInvalid, "unknown source %q for --from; use %s", i.source, sourceNames())
		case i.closed && !board:
			return mailroom.Errorf(mailroom.CodeInvalid, "--closed is for boards; use it with --from github or --from linear")
		}
		if i.file, err = either(args, i.file, "--input"); err != nil {
			return err
		}
		return i.run(cmd.Context(), m)
	}
	return cmd
}

// importing is one import.
type importing struct {
	file, source      string // file is the name of a board if the source is one
	dry, keep, closed bool
}

// imported is what an import did.
type imported struct {
	tracker.ImportResult
	splits   []tracker.Split
	contests []tracker.Contest
	foreign  []string // members that are kept and not interpreted
}

func (i importing) run(ctx context.Context, m *Main) error {
	last, err := i.readLast(m)
	if err != nil {
		return err
	}
	var lines func(t *tracker.Tracker) string
	if isBoard(i.source) {
		lines, err = i.fetch(ctx, m, string(last))
	} else {
		lines, err = i.read(m)
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	came, err := i.merge(ctx, m, last, lines)
	if err != nil {
		return err
	}
	return i.report(m, came)
}

// read returns the lines of the file.
func (i importing) read(m *Main) (lines func(*tracker.Tracker) string, err error) {
	var raw string
	if i.file != "" {
		raw, err = readImport(m, m.absPath(i.file))
	} else {
		raw, err = m.readAll(m.Stdin, tracker.MaxFile)
	}
	return func(*tracker.Tracker) string { return raw }, err
}

// merge merges lines into the tracker, and keeps them for the next import if the source has a name. The lines may
// depend on the tracker.
func (i importing) merge(
	ctx context.Context, m *Main, last []byte, lines func(*tracker.Tracker) string,
) (came imported, err error) {
	var raw, past string
	do := func(t *tracker.Tracker) error { // twice if git replaces the file, so it parses copies of its own
		raw, past = lines(t), tracker.WithIDs(t, string(last))
		other, invalid := tracker.Parse(raw)
		if len(invalid) > 0 {
			return mailroom.Errorf(mailroom.CodeInvalid, "the input has %s, the first: %v; nothing was imported",
				count(len(invalid), "invalid line"), invalid[0])
		}
		var base *tracker.Tracker
		if last != nil {
			base, _ = tracker.Parse(past)
		}
		came.foreign = tracker.ForeignMembers(other)
		came.ImportResult = tracker.ImportSince(t, other, base, i.keep)
		if came.splits, came.contests = t.Splits(), t.Contests(); i.dry {
			m.warn(t, nil)
		}
		return nil
	}
	if i.dry {
		return came, m.read(do)
	}
	if err := m.change(ctx, do); err != nil || i.source == "" || i.keep {
		return came, err // issues that were skipped are not here, so they are no base
	}
	before, _ := tracker.Parse(past)
	now, _ := tracker.Parse(raw)
	dir, err := m.folder()
	if err == nil {
		err = m.waiting(dir).WriteFile(ctx, i.lastFile(), []byte(tracker.Renewed(before, now)))
	}
	if err != nil {
		return came, fmt.Errorf("the issues were imported; keep %s for the next import: %w", i.lastFile(), err)
	}
	return came, nil
}

// lastFile names the file with the lines that were imported from the source.
func (i importing) lastFile() string {
	name := "imported-" + i.source
	if isBoard(i.source) {
		name += "-" + boardName(i.file)
	}
	return name + ".jsonl"
}

// readLast returns the lines that earlier imports read from the source, or nil.
func (i importing) readLast(m *Main) ([]byte, error) {
	if i.source == "" {
		return nil, nil
	}
	dir, err := m.folder()
	if err != nil {
		return nil, err
	}
	raw, err := dir.ReadFile(i.lastFile(), tracker.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (i importing) report(m *Main, came imported) error {
	if m.out.json {
		out := map[string]any{"created": came.New, "updated": came.Changed, "unchanged": came.Same,
			"skipped": came.Skipped, "records": came.Records, "renamed": renamed(came.splits),
			"dropped": dropped(came.contests)}
		if i.source == sourceBeads {
			out["kept_members"] = append([]string{}, came.foreign...)
		}
		return m.out.printJSON(out)
	}
	if i.source == sourceBeads && len(came.foreign) > 0 && !m.out.quiet {
		m.out.logf("Kept as they are, without a meaning for bd: %s", line(strings.Join(came.foreign, ", ")))
	}
	text := fmt.Sprintf("%d new, %d changed, %d unchanged, %d skipped", came.New, came.Changed, came.Same, came.Skipped)
	if came.Records > 0 {
		text += fmt.Sprintf(", %s new", count(came.Records, "other record"))
	}
	return m.out.report("%s", text)
}
