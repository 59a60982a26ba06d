package bd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/issues/tracker"
)

func doctorCommand(m *Main) *cobra.Command {
	var restore, fix bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the file for problems, and restore lines that cannot be read", Args: noArgs,
		Long: `Check the file for problems, and restore lines that cannot be read.

A line that is not JSON stays in the file. If it begins with a whole object, such as an issue
with other text behind it, --restore brings the object back and removes the text. It
also brings back lines in quarantine.jsonl, and makes UTF-8 of UTF-16 text.`,
	}
	cmd.Flags().BoolVar(&restore, "restore", false, "bring back what can be restored")
	cmd.Flags().BoolVar(&fix, "fix", false, "the same as --restore")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if restore || fix {
			if err := restoreFile(cmd.Context(), m); err != nil {
				return err
			}
		}
		return checkFile(m)
	}
	return cmd
}

// restoreFile repairs the file and reports what it did on stderr. Stdout is for the findings.
func restoreFile(ctx context.Context, m *Main) error {
	if m.readonly {
		return errReadonly()
	}
	dir, err := m.folder()
	if err != nil {
		return err
	}
	done, _, err := m.waiting(dir).Restore(ctx)
	for _, r := range done {
		what := strings.Join(r.IDs, ", ")
		if r.Records > 0 {
			what = strings.TrimPrefix(what+", "+count(r.Records, "record"), ", ")
		}
		where := fmt.Sprintf("line %d", r.Number)
		if r.Number == 0 {
			where = "a line of quarantine.jsonl"
		}
		if r.Removed != "" {
			where += fmt.Sprintf(", and removed the text after it: %q", r.Removed)
		}
		m.out.logf("Restored %s from %s", what, where)
	}
	return err
}

// checkFile reports contradictions in the file, and members and records that are unusual but no contradiction.
func checkFile(m *Main) error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	t, invalid, err := dir.Read()
	if err != nil {
		return err
	}
	aside, lost, err := dir.Quarantined()
	if err != nil {
		return err
	}
	found, notes := t.Check(), t.Notes()
	name := "bd"
	if m.Name != "" {
		name = m.Name
	}
	for _, s := range invalid {
		finding := s.String()
		if s.ID != "" {
			finding += fmt.Sprintf("; bring the issue back with: %s doctor --restore", name)
		}
		found = append(found, finding)
	}
	if aside > 0 {
		found = append(found, fmt.Sprintf("quarantine.jsonl has %s of the file; bring them back with: %s doctor --restore",
			count(aside, "line"), name))
	}
	if lost > 0 {
		notes = append(notes,
			fmt.Sprintf("quarantine.jsonl has %s that nothing can read; delete the file once you need none of it",
				count(lost, "line")))
	}
	if m.out.json {
		err = m.out.printJSON(map[string]any{"ok": len(found) == 0, "issues": len(t.All()),
			"findings": append([]string{}, found...), "notes": append([]string{}, notes...)})
	} else {
		err = m.out.print(cells(append(found, notes...)...)...)
		if err == nil && len(found) == 0 {
			err = m.out.report("%s, no problems.", count(len(t.All()), "issue"))
		}
	}
	if err == nil && len(found) > 0 {
		err = errors.New("the file has problems")
	}
	return err
}

// renamed describes the ids that belonged to two issues, as JSON.
func renamed(splits []tracker.Split) []map[string]any {
	found := []map[string]any{}
	for _, s := range splits {
		found = append(found, map[string]any{"id": s.ID, "new_id": s.Moved.ID, "title": s.Moved.Title,
			"kept_title": s.Kept.Title, "check": append([]string{}, s.Unsure...)})
	}
	return found
}

// dropped describes the values that a merge did not keep, as JSON.
func dropped(contests []tracker.Contest) []map[string]any {
	found := []map[string]any{}
	for _, c := range contests {
		found = append(found, map[string]any{"id": c.ID, "member": c.Member, "kept": c.Kept, "dropped": c.Dropped})
	}
	return found
}
