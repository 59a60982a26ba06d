package bd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/tracker"
)

func (m *Main) exportCommand() *cobra.Command {
	var to, status string
	cmd := &cobra.Command{Use: "export", Short: "Write the issues as JSON lines", Args: noArgs}
	cmd.Flags().StringVarP(&to, "output", "o", "", "file to write (default stdout)")
	cmd.Flags().StringVarP(&status, "status", "s", "", "only those of this status")
	cmd.Flags().StringP("format", "f", "jsonl", "accepted; it is jsonl")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return m.read(func(t *tracker.Tracker) error {
			if to == "" || to == "-" || to == "/dev/stdout" {
				_, err := exported(m.Stdout, t, tracker.Status(status))
				return err
			}
			own, err := m.isOwn(m.at(to))
			if err != nil || own {
				return err // it is there already
			}
			n, err := m.exportFile(cmd.Context(), m.at(to), t, tracker.Status(status))
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			return m.tell("Wrote %d issues to %s.", n, to)
		})
	}
	return cmd
}

// exportFile writes the issues to a file that the user named. What stands there may
// have come with the project, so a link is not followed.
func (m *Main) exportFile(ctx context.Context, path string, t *tracker.Tracker, status tracker.Status) (n int, err error) {
	dir, err := m.folder()
	if err != nil {
		return 0, err
	}
	if within(dir, path) {
		var text bytes.Buffer
		if n, err = exported(&text, t, status); err == nil {
			err = m.waiting(dir).WriteFile(ctx, filepath.Base(path), text.Bytes())
		}
		return n, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, syscall.ELOOP) {
		return 0, mailroom.Errorf(mailroom.CodeInvalid, "%s is a link; name the file that it leads to", path)
	}
	if err != nil {
		return 0, err
	}
	n, err = exported(file, t, status)
	return n, errors.Join(err, file.Close())
}

// within reports whether a path is directly in the tracker's folder.
func within(dir tracker.Folder, path string) bool {
	ours, err := os.Stat(dir.Path())
	if err != nil {
		return false
	}
	other, err := os.Stat(filepath.Dir(path))
	return err == nil && os.SameFile(ours, other)
}

// isOwn reports whether a path is the tracker's own file, which scripts export to
// by habit.
func (m *Main) isOwn(path string) (bool, error) {
	dir, err := m.folder()
	if err != nil {
		return false, err
	}
	ours, err := dir.Stat()
	if err != nil {
		return false, err
	}
	other, err := os.Stat(path)
	return err == nil && os.SameFile(ours, other), nil
}

// exported writes the issues of a status, "" all, and returns how many.
func exported(to io.Writer, t *tracker.Tracker, status tracker.Status) (n int, err error) {
	out := bufio.NewWriterSize(to, enough)
	for _, it := range t.All() {
		if it.Status != tracker.StatusTombstone && (status == "" || it.Status == status) {
			_, _ = out.WriteString(t.Line(it)) // Flush tells of its error
			_ = out.WriteByte('\n')
			n++
		}
	}
	return n, out.Flush()
}

func (m *Main) importCommand() *cobra.Command {
	var from string
	var dry, keep bool
	cmd := &cobra.Command{Use: "import [FILE]", Short: "Take in issues from JSON lines; those that are there are merged", Args: cobra.MaximumNArgs(1)}
	flags := cmd.Flags()
	flags.StringVarP(&from, "input", "i", "", "file to read (default stdin)")
	flags.BoolVar(&dry, "dry-run", false, "only show what would come of it")
	flags.BoolVarP(&keep, "skip-existing", "s", false, "leave those that are there as they are")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := m.Stdin
		if from = strings.Join(append(args, from), ""); from != "" {
			file, err := os.Open(m.at(from))
			if err != nil {
				return fmt.Errorf("import: %w", err)
			}
			defer file.Close() // it is only read: nothing can be lost
			in = file
		}
		raw, err := m.readAll(in, tracker.MaxFile)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		other, invalid := tracker.Parse(raw)
		if len(invalid) > 0 {
			return mailroom.Errorf(mailroom.CodeInvalid, "%d lines are no issues, the first: %v; nothing was imported", len(invalid), invalid[0].Err)
		}
		var came tracker.ImportResult
		do := func(t *tracker.Tracker) error {
			came = t.Import(other, keep)
			return nil
		}
		if dry {
			err = m.read(do)
		} else {
			err = m.change(cmd.Context(), do)
		}
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(map[string]int{"created": came.New, "updated": came.Changed, "unchanged": came.Same, "skipped": came.Skipped})
		}
		return m.tell("%d new, %d changed, %d as they were, %d skipped", came.New, came.Changed, came.Same, came.Skipped)
	}
	return cmd
}

// mergeCommand is a merge driver for git: the result goes to the second file, as
// git asks for it with "bd merge %A %O %A %B".
func (m *Main) mergeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "merge OUTPUT BASE OURS THEIRS", Short: "Merge two copies of the file, for git", Args: cobra.ExactArgs(4),
		Long: `Merge two copies of the file, for git.

No merge driver is needed: a file with git's conflict marks is merged when it is read.
To have no marks at all:
  git config merge.bd.driver "bd merge %A %O %A %B"
  echo ".beads/issues.jsonl merge=bd" >> .gitattributes`,
		RunE: func(_ *cobra.Command, files []string) error {
			base, err := m.side(files[1], true)
			if err != nil {
				return err
			}
			ours, err := m.side(files[2], false)
			if err != nil {
				return err
			}
			theirs, err := m.side(files[3], false)
			if err != nil {
				return err
			}
			ours.MergeWith(theirs, base)
			if err := os.WriteFile(m.at(files[0]), []byte(ours.Text()), 0o644); err != nil {
				return fmt.Errorf("merge: %w", err)
			}
			return nil
		},
	}
}

// side reads one file of a merge. Lines that are no issues stop the merge, or they
// would be lost; those of the base do not matter.
func (m *Main) side(name string, base bool) (*tracker.Tracker, error) {
	file, err := os.Open(m.at(name))
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	defer file.Close() // it is only read: nothing can be lost
	text, err := m.readAll(file, tracker.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("merge: read %s: %w", name, err)
	}
	t, invalid := tracker.Parse(text)
	if len(invalid) > 0 && !base {
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s holds %d lines that are no issues, the first: %v", name, len(invalid), invalid[0].Err)
	}
	return t, nil
}

// syncCommand is there for those who are used to it: the file is always in sync.
func (m *Main) syncCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Merge what git has marked in the file; there is nothing else to keep in step", Args: noArgs}
	var status bool
	cmd.Flags().BoolVar(&status, "status", false, "only say whether git has marked conflicts in the file")
	idle(cmd, "flush-only", "import-only", "no-push", "no-pull", "from-main", "full", "merge", "rename-on-import", "dry-run")
	cmd.Flags().StringP("message", "m", "", "accepted; nothing is committed")
	_ = cmd.Flags().MarkHidden("message") // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if status || cmd.Flags().Changed("dry-run") {
			return m.syncStatus()
		}
		if err := m.change(cmd.Context(), func(*tracker.Tracker) error { return nil }); err != nil {
			return err
		}
		if m.json {
			return m.printJSON(map[string]string{"status": "synced"})
		}
		return m.tell("The file is the only copy there is, and whole. Commit it with git when you like.")
	}
	return cmd
}

// syncStatus says whether sync has anything to do.
func (m *Main) syncStatus() error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	marked, err := dir.Conflicted()
	if err != nil {
		return err
	}
	if m.json {
		return m.printJSON(map[string]any{"status": "synced", "conflicts": marked})
	}
	if marked {
		return m.tell("git has marked conflicts in the file: bd sync merges them.")
	}
	return m.tell("The file has no conflicts, and is the only copy there is.")
}

func (m *Main) compactCommand() *cobra.Command {
	var days int
	var dry bool
	cmd := &cobra.Command{Use: "compact", Short: "Forget tombstones that no copy needs any more", Args: noArgs}
	cmd.Flags().IntVar(&days, "days", 30, "age of tombstones, in days; at least 30")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show how many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		gone := 0
		do := func(t *tracker.Tracker) error {
			gone = t.DropTombstones(time.Now().AddDate(0, 0, -days))
			return nil
		}
		if err := m.changeAll(cmd.Context(), dry, do); err != nil {
			return err
		}
		if m.json {
			return m.printJSON(map[string]any{"removed_tombstones": gone, "dry_run": dry})
		}
		return m.tell("%d tombstones", gone)
	}
	return cmd
}

func (m *Main) renameCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{Use: "rename-prefix NEW", Short: "Give all ids another beginning", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show how many")
	idle(cmd, "repair")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to := strings.TrimSuffix(args[0], "-") // with or without the hyphen that follows it
		from, n, err := m.rename(cmd.Context(), to, dry)
		if err != nil {
			return err
		}
		if m.json {
			return m.printJSON(map[string]any{"old_prefix": from, "new_prefix": to, "issues_updated": n, "dry_run": dry})
		}
		if dry {
			return m.tell("%d issues would begin with %s- instead of %s-.", n, to, from)
		}
		return m.tell("%d issues begin with %s- now.", n, to)
	}
	return cmd
}

// rename gives all ids another prefix, also those to come.
func (m *Main) rename(ctx context.Context, to string, dry bool) (from string, n int, err error) {
	dir, err := m.folder()
	if err != nil {
		return "", 0, err
	}
	set, err := readSettings(dir)
	if err != nil {
		return "", 0, err // the file is written next: what is not understood would be lost
	}
	do := func(t *tracker.Tracker) (err error) {
		from = t.Prefix()
		n, err = t.Rename(from, to, m.now())
		return err
	}
	if dry {
		err = m.read(do)
		return from, n, err
	}
	if err = m.change(ctx, do); err != nil {
		return "", 0, err
	}
	trusted := m.trusts(dir, set)
	set.Prefix = to
	return from, n, m.writeSettings(ctx, dir, set, trusted)
}

func (m *Main) doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Look for what is wrong with the file", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		dir, err := m.folder()
		if err != nil {
			return err
		}
		t, invalid, err := dir.Read()
		if err != nil {
			return err
		}
		found := t.Check()
		for _, s := range invalid {
			found = append(found, fmt.Sprintf("a line is no issue: %v", s.Err))
		}
		if m.json {
			err = m.printJSON(map[string]any{"ok": len(found) == 0, "issues": len(t.All()), "findings": append([]string{}, found...)})
		} else if err = m.print(cells(found...)...); err == nil && len(found) == 0 {
			err = m.tell("%d issues, nothing wrong.", len(t.All()))
		}
		if err == nil && len(found) > 0 {
			err = errors.New("the file has findings")
		}
		return err
	}}
}

func (m *Main) infoCommand() *cobra.Command {
	return &cobra.Command{Use: "info", Short: "Where the tracker is, and how large", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		dir, err := m.folder()
		if err != nil {
			return err
		}
		return m.read(func(t *tracker.Tracker) error {
			set := m.settings(dir)
			file, err := dir.Stat()
			if err != nil {
				return err
			}
			if m.json {
				return m.printJSON(map[string]any{
					"file": dir.File(), "size": file.Size(), "issue_count": len(t.List(tracker.Filter{All: true})), "prefix": set.Prefix,
					"mode": "direct", "daemon_connected": false, "version": m.Version, "agent_mail": m.mailShape(),
				})
			}
			return m.printRows(append([][]shown{
				cells("file", dir.File()), cells("size", fmt.Sprintf("%d bytes", file.Size())),
				cells("issues", number(len(t.List(tracker.Filter{All: true})))), cells("prefix", set.Prefix),
			}, m.mailRows()...))
		})
	}}
}

func (m *Main) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		if m.json {
			return m.printJSON(map[string]string{"version": m.Version})
		}
		_, err := fmt.Fprintf(m.Stdout, "bd version %s\n", m.Version)
		return err
	}}
}
