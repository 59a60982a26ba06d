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
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/setting"
	"mailroom/issues/tracker"
)

func exportCommand(m *Main) *cobra.Command {
	var to string
	var e export
	cmd := &cobra.Command{Use: "export", Short: "Write the issues as JSON lines", Args: noArgs}
	cmd.Flags().StringVarP(&to, "output", "o", "", "file to write (default stdout)")
	cmd.Flags().StringVarP((*string)(&e.status), "status", "s", "", "only this status, and only issues")
	cmd.Flags().BoolVar(&e.noRecords, "no-memories", false, "only issues, without memories and other records")
	cmd.Flags().StringP("format", "f", "jsonl", "accepted; only jsonl is supported")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return m.read(func(t *tracker.Tracker) error {
			if to == "" || to == "-" || to == "/dev/stdout" {
				_, err := e.write(m.Stdout, t)
				return err
			}
			own, err := m.isOwn(m.absPath(to))
			if err != nil || own {
				return err // the file is the tracker itself, which has the issues already
			}
			n, err := m.exportFile(cmd.Context(), m.absPath(to), t, e)
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			return m.out.report("Wrote %s to %s.", count(n, "issue"), to)
		})
	}
	return cmd
}

// exportFile writes the issues to a file that the user named. It does not follow a symbolic link, because the link
// may have come with the project and lead to any file of the user.
func (m *Main) exportFile(ctx context.Context, path string, t *tracker.Tracker, e export) (n int, err error) {
	dir, err := m.folder()
	if err != nil {
		return 0, err
	}
	if isInFolder(dir, path) {
		var text bytes.Buffer
		if n, err = e.write(&text, t); err == nil {
			err = m.waiting(dir).WriteFile(ctx, filepath.Base(path), text.Bytes())
		}
		return n, err
	}
	file, err := createPlain(path)
	if errors.Is(err, errLink) {
		return 0, mailroom.Errorf(mailroom.CodeInvalid, "%s is a symbolic link; use the path of its target", path)
	}
	if err != nil {
		return 0, err
	}
	n, err = e.write(file, t)
	return n, errors.Join(err, file.Close())
}

// errLink says that a file is a symbolic link.
var errLink = errors.New("it is a symbolic link")

// isInFolder reports whether a path is directly in the tracker's folder.
func isInFolder(dir tracker.Folder, path string) bool {
	ours, err := os.Stat(dir.Path())
	if err != nil {
		return false
	}
	other, err := os.Stat(filepath.Dir(path))
	return err == nil && os.SameFile(ours, other)
}

// isOwn reports whether path is the tracker's own issue file. Some scripts export to that file.
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

// export selects which issues are exported.
type export struct {
	status    tracker.Status // "" for all
	noRecords bool
}

// write writes the lines of the selected issues in the order of the file, and returns the number of issues.
func (e export) write(to io.Writer, t *tracker.Tracker) (n int, err error) {
	out := bufio.NewWriterSize(to, flushSize)
	line := func(text string) {
		_, _ = out.WriteString(text) // Flush returns the error
		_ = out.WriteByte('\n')
	}
	t.Each(func(it *tracker.Issue) {
		if it.Status != tracker.StatusTombstone && (e.status == "" || it.Status == e.status) {
			line(t.Line(it))
			n++
		}
	}, func(record string) {
		if !e.noRecords && e.status == "" {
			line(record)
		}
	})
	return n, out.Flush()
}

// mergeCommand is a merge driver for git. Git calls it as "bd merge %A %O %A %B" and reads the
// result from the first file.
func mergeCommand(m *Main) *cobra.Command {
	return &cobra.Command{
		Use: "merge OUTPUT BASE OURS THEIRS", Short: "Merge two copies of the file, for git", Args: cobra.ExactArgs(4),
		Long: `Merge two copies of the file, for git.

No merge driver is needed: a file with git's conflict marks is merged when it is read.
To have no marks at all:
  git config merge.bd.driver "bd merge %A %O %A %B"
  echo ".beads/issues.jsonl merge=bd" >> .gitattributes`,
		RunE: func(_ *cobra.Command, files []string) error {
			base, _, err := m.readSide(files[1])
			if err != nil {
				return err
			}
			ours, invalid, err := readCopy(m, files[2])
			if err != nil {
				return err
			}
			theirs, more, err := readCopy(m, files[3])
			if err != nil {
				return err
			}
			ours.MergeWith(theirs, base)
			m.warn(ours, append(invalid, more...))
			if err := os.WriteFile(m.absPath(files[0]), []byte(ours.Text()), 0o644); err != nil {
				return fmt.Errorf("merge: %w", err)
			}
			return nil
		},
	}
}

// readCopy reads one of the two copies of a merge. The merge keeps lines that cannot be read. It refuses a copy that
// is damaged as a whole, because issues that are missing in the copy would count as removed.
func readCopy(m *Main, name string) (*tracker.Tracker, []tracker.InvalidLine, error) {
	t, invalid, err := m.readSide(name)
	if err == nil {
		err = tracker.CheckReadable(t, invalid, name)
	}
	return t, invalid, err
}

// readSide reads one of the files of a merge: the base or one of the two copies.
func (m *Main) readSide(name string) (*tracker.Tracker, []tracker.InvalidLine, error) {
	file, err := setting.OpenFile(m.absPath(name))
	if err != nil {
		return nil, nil, fmt.Errorf("merge: %w", err)
	}
	defer file.Close() // read only: nothing can be lost
	text, err := m.readAll(file, tracker.MaxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("merge: read %s: %w", name, err)
	}
	t, invalid := tracker.Parse(text)
	return t, invalid, nil
}

// syncCommand merges conflicts in the issue file. The command exists because scripts call it; the file needs no other
// synchronization.
func syncCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "Merge conflicts that git has marked in the file", Args: noArgs}
	var status bool
	cmd.Flags().BoolVar(&status, "status", false, "only report whether git has marked conflicts in the file")
	ignoredFlags(cmd, "flush-only", "import-only", "no-push", "no-pull", "from-main", "full", "merge",
		"rename-on-import", "dry-run")
	cmd.Flags().StringP("message", "m", "", "accepted and ignored")
	_ = cmd.Flags().MarkHidden("message") // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if status || cmd.Flags().Changed("dry-run") {
			return m.syncStatus()
		}
		dir, err := m.folder()
		if err != nil {
			return err
		}
		marked, err := dir.Conflicted()
		if err == nil {
			err = m.change(cmd.Context(), func(*tracker.Tracker) error { return nil })
		}
		if err != nil {
			return err
		}
		if m.out.json {
			return m.out.printJSON(map[string]any{"status": "synced", "merged": marked})
		}
		state := "The file has no conflicts."
		if marked {
			state = "Merged the conflicts of the file."
		}
		return m.out.report("%s To commit it: git add %s && git commit", state, dir.File())
	}
	return cmd
}

// syncStatus reports whether there are conflicts to merge.
func (m *Main) syncStatus() error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	marked, err := dir.Conflicted()
	if err != nil {
		return err
	}
	if m.out.json {
		return m.out.printJSON(map[string]any{"status": "synced", "conflicts": marked})
	}
	if marked {
		return m.out.report("The file has conflicts; merge them with: bd sync")
	}
	return m.out.report("The file has no conflicts.")
}

func compactCommand(m *Main) *cobra.Command {
	var days int
	var dry bool
	cmd := &cobra.Command{Use: "compact", Short: "Remove expired tombstones", Args: noArgs}
	cmd.Flags().IntVar(&days, "days", 30, "minimum age in days; at least 30")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show the number")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		gone := 0
		do := func(t *tracker.Tracker) error {
			gone = t.DropTombstones(time.Now().AddDate(0, 0, -days))
			return nil
		}
		if err := m.changeAll(cmd.Context(), dry, do); err != nil {
			return err
		}
		if m.out.json {
			return m.out.printJSON(map[string]any{"removed_tombstones": gone, "dry_run": dry})
		}
		return m.out.report("%s", count(gone, "tombstone"))
	}
	return cmd
}

func renameCommand(m *Main) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{Use: "rename-prefix NEW", Short: "Change the prefix of all ids", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show the number")
	ignoredFlags(cmd, "repair")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to := strings.TrimSuffix(args[0], "-") // accept a trailing hyphen
		from, n, err := m.rename(cmd.Context(), to, dry)
		if err != nil {
			return err
		}
		if m.out.json {
			return m.out.printJSON(map[string]any{"old_prefix": from, "new_prefix": to, "issues_updated": n, "dry_run": dry})
		}
		if dry {
			return m.out.report("Would rename %s from prefix %s- to %s-.", count(n, "issue"), from, to)
		}
		return m.out.report(
			"Renamed %s to prefix %s-. Branches and clones that still have the old ids bring them back when they are merged: rename there too.",
			count(n, "issue"), to)
	}
	return cmd
}

// rename changes the prefix of all ids, and the prefix of ids that are created later.
func (m *Main) rename(ctx context.Context, to string, dry bool) (from string, n int, err error) {
	dir, err := m.folder()
	if err != nil {
		return "", 0, err
	}
	set, err := readSettings(dir)
	if err != nil {
		return "", 0, err // rewriting the file would lose invalid settings
	}
	do := func(t *tracker.Tracker) (err error) {
		from = t.Prefix()
		n, err = t.Rename(from, to, m.anonymousSignature())
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

func infoCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "info", Short: "Show the tracker's folder, size and mail state", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
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
				if m.out.json {
					return m.out.printJSON(map[string]any{
						"file": dir.File(), "size": file.Size(), "issue_count": len(t.List(tracker.Filter{All: true})),
						"prefix": set.Prefix,
						"mode":   "direct", "daemon_connected": false, "version": m.Version, "agent_mail": m.mailJSON(),
					})
				}
				return m.out.printRows(append([][]safeText{
					cells("file", dir.File()), cells("size", fmt.Sprintf("%d bytes", file.Size())),
					cells("issues", number(len(t.List(tracker.Filter{All: true})))), cells("prefix", set.Prefix),
				}, m.mailRows()...))
			})
		}}
}

func versionCommand(m *Main) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if m.out.json {
				return m.out.printJSON(map[string]string{"version": m.Version})
			}
			_, err := fmt.Fprintf(m.Stdout, "bd version %s\n", m.Version)
			return err
		}}
}
