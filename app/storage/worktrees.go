package storage

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"mailroom/agent/exec/worktree"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/entry"
	"mailroom/internal/setting"
)

// worktreesCommand lists and changes the worktrees in the data folder. It needs no server.
func worktreesCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktrees",
		Short: "List the git worktrees in which agents work",
		Long: `List the git worktrees in which agents work (workspace = "worktree"), with what can be done with each:

  in use      a run works in it
  work        it has something that is nowhere else, which DETAIL names
  idle        its removal loses nothing: its branch has all of it
  parked      it made room for others; the next run of its thread makes it again, on its branch
  kept        you keep it
  unfinished  its making or its removal was interrupted; the next run of its thread goes on
  missing     its folder is not there; perhaps its disk is not mounted
  unrecorded  a server made it, and its record is lost: adopt it

DETAIL also has the pull request of the branch, or why there is none: "mailroom publish THREAD" tries
again. The command looks at the data folder of this machine and needs no server.

Exit codes: 0 success, 1 refused, 2 invalid usage.`,
		Example: `  mailroom worktrees
  mailroom worktrees remove --idle`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := listWorktrees(con, cmd)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(map[string]any{"items": all})
		}
		rows := [][]string{{"NAME", "TASK", "STATE", "AGE", "SIZE", "BRANCH", "DETAIL"}}
		for _, w := range all {
			age := "-"
			if !w.Created.IsZero() {
				age = setting.FormatDuration(time.Since(w.Created).Round(time.Minute))
			}
			rows = append(rows, []string{w.Name, dash(w.Task), w.State, age, humanize.IBytes(uint64(w.Size)),
				dash(w.Branch), dash(detailOf(w))})
		}
		return con.PrintList(rows, nil, "no worktrees")
	}
	cmd.AddCommand(worktreesRemoveCommand(con), worktreesKeepCommand(con), worktreesAdoptCommand(con),
		worktreesPatchCommand(con))
	return cmd
}

// detailOf returns what a person should know of a worktree: what would be lost, and its pull request.
func detailOf(w worktree.Info) string {
	pull := ""
	switch {
	case w.Unopened != "" && w.Again:
		pull = "no pull request yet, the server tries again: " + w.Unopened
	case w.Unopened != "":
		pull = "no pull request: " + w.Unopened
	case w.PullRequest != "":
		pull = strings.TrimSpace(w.PullState+" pull request") + " " + w.PullRequest
	}
	for _, more := range []string{w.Trouble, staleText(w)} {
		if more != "" {
			pull += "; " + more
		}
	}
	if w.Detail == "" || pull == "" {
		return w.Detail + pull
	}
	return w.Detail + "; " + pull
}

// staleText says how old the state of a pull request is, if a later look at it failed.
func staleText(w worktree.Info) string {
	switch {
	case w.Unread == "":
		return ""
	case w.PullAt.IsZero():
		return "its state is unknown: " + w.Unread
	}
	return fmt.Sprintf("%s %s ago, a later look failed: %s", w.PullState,
		setting.FormatDuration(time.Since(w.PullAt).Round(time.Minute)), w.Unread)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// environment returns the environment of git.
func environment(con *command.Console) []string {
	if con.Environ == nil {
		return nil
	}
	return con.Environ()
}

// worktreesRoot returns the folder of the worktrees.
func worktreesRoot(con *command.Console) (string, error) {
	dir, err := datadir.Find(con.Data, con.Env)
	if err != nil {
		return "", command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return dir.Worktrees(), nil
}

func listWorktrees(con *command.Console, cmd *cobra.Command) ([]worktree.Info, error) {
	root, err := worktreesRoot(con)
	if err != nil {
		return nil, err
	}
	all, err := worktree.List(cmd.Context(), root, environment(con))
	if all == nil {
		all = []worktree.Info{}
	}
	return all, err
}

// findWorktree returns the repository and the key of the worktree with a name.
func findWorktree(con *command.Console, name string) (*worktree.Repository, string, error) {
	root, err := worktreesRoot(con)
	if err != nil {
		return nil, "", err
	}
	r, key, err := worktree.Find(root, name, environment(con))
	return r, key, refusal(err)
}

// refusal gives an error of a worktree its exit code.
func refusal(err error) error {
	if p, ok := errors.AsType[*worktree.Problem](err); ok {
		return command.Errorf(command.ExitFailed, "", "%s", p.Text)
	}
	return err
}

func worktreesRemoveCommand(con *command.Console) *cobra.Command {
	var idle, merged, force bool
	cmd := &cobra.Command{
		Use:   "remove [NAME]...",
		Short: "Remove worktrees whose removal loses nothing",
		Long: `Remove worktrees. The branch of each stays, unless it has no commit. A worktree with something that is
nowhere else is refused, and the error names it: changes, new or ignored files, commits that are not in its
branch, or a process that works in it.`,
		Example: `  mailroom worktrees remove --idle
  mailroom worktrees remove --merged
  mailroom worktrees remove fix-roof`,
	}
	cmd.Flags().BoolVar(&idle, "idle", false, "remove all worktrees in the state idle")
	cmd.Flags().BoolVar(&merged, "merged", false, "remove those in the state idle whose pull request was merged")
	cmd.Flags().BoolVar(&force, "force", false, "delete also changes and ignored files, which are lost")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if (idle || merged) == (len(names) > 0) || (idle || merged) && force {
			return command.UsageErrorf(cmd, "name worktrees, or use --idle or --merged")
		}
		if idle || merged {
			all, err := listWorktrees(con, cmd)
			if err != nil {
				return err
			}
			for _, w := range all {
				if w.State == worktree.StateIdle && (!merged || w.PullState == entry.PullMerged && w.Trouble == "") {
					names = append(names, w.Name)
				}
			}
		}
		for _, name := range names {
			r, key, err := findWorktree(con, name)
			if err == nil {
				err = refusal(r.Remove(cmd.Context(), key, force))
			}
			if err != nil {
				return err
			}
			con.Infof("removed worktree %s", name)
		}
		return nil
	}
	return cmd
}

func worktreesKeepCommand(con *command.Console) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:     "keep NAME",
		Short:   "Keep a worktree from being removed",
		Example: "  mailroom worktrees keep fix-roof\n  mailroom worktrees keep fix-roof --off",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&off, "off", false, "allow its removal again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, key, err := findWorktree(con, args[0])
		if err != nil {
			return err
		}
		return refusal(r.Keep(cmd.Context(), key, !off))
	}
	return cmd
}

func worktreesAdoptCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "adopt NAME THREAD",
		Short: "Make a record for an unrecorded worktree",
		Long: `Make a record for a worktree that a server made and whose record is lost, for example because the
data folder was restored from a copy. The next runs of the thread work in it.`,
		Example: "  mailroom worktrees adopt fix-roof fix-roof",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, key, err := findWorktree(con, args[0])
			if err != nil {
				return err
			}
			if err := refusal(r.Adopt(cmd.Context(), key, args[1])); err != nil {
				return err
			}
			con.Infof("adopted worktree %s for thread %s", key, args[1])
			return nil
		},
	}
}

func worktreesPatchCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "patch NAME",
		Short:   "Print the commits of a worktree as patches for git am",
		Example: "  mailroom worktrees patch fix-roof | git am",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, key, err := findWorktree(con, args[0])
			if err != nil {
				return err
			}
			text, err := r.Patch(cmd.Context(), key)
			if err != nil {
				return refusal(err)
			}
			return con.Printf("%s", text)
		},
	}
}
