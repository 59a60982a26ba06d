package bd

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Names from other implementations of bd. An alias has the meaning of another flag. An ignored flag or command is
// accepted and has no effect, so that existing scripts work. Help lists neither aliases nor ignored names;
// docs/tracker.md does.

// alias adds hidden names to a flag.
func alias(cmd *cobra.Command, name string, others ...string) {
	flag := cmd.Flags().Lookup(name)
	for _, other := range others {
		twin := *flag
		twin.Name, twin.Shorthand, twin.Hidden = other, "", true
		twin.Value = &aliasValue{flag}
		cmd.Flags().AddFlag(&twin)
	}
}

// aliasValue is the value of a flag that has a second name.
type aliasValue struct{ of *pflag.Flag }

func (s *aliasValue) String() string { return "" }
func (s *aliasValue) Type() string   { return s.of.Value.Type() }
func (s *aliasValue) Set(text string) error {
	s.of.Changed = true
	return s.of.Value.Set(text)
}

// ignoredFlags adds flags that have no effect.
func ignoredFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flags().Bool(name, false, "accepted and ignored")
		_ = cmd.Flags().MarkHidden(name) // the flag is there
	}
}

// ignoredCommand returns a command that has no effect.
func ignoredCommand(m *Main, name, why string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Accepted; " + why, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, word := range args {
				m.out.json = m.out.json || word == "--json"
			}
			if m.out.json {
				return m.out.printJSON(map[string]string{"status": "not_needed", "message": why})
			}
			m.out.logf("Nothing to do: %s", why)
			return nil
		},
	}
}

// ignoredCommands returns the commands that have no effect.
func ignoredCommands(m *Main) []*cobra.Command {
	return []*cobra.Command{
		ignoredCommand(m, "daemon", "there is no daemon; each command reads and writes the file itself"),
		ignoredCommand(m, "daemons", "there is no daemon; each command reads and writes the file itself"),
		ignoredCommand(m, "hooks", noHooks),
		ignoredCommand(m, "hook", noHooks), // the word in hooks of early 2026
		ignoredCommand(m, "setup", "nothing needs to be set up; let agents run bd prime at the start of a session"),
		ignoredCommand(m, "dolt", "there is no database; the file is the only copy"),
		ignoredCommand(m, "migrate", "there is no database to migrate; files of older versions are read as they are"),
	}
}

const noHooks = "no git hooks are needed; the file in the work tree is the only copy"

// gitHooks are the hooks that versions of bd installed.
func gitHooks() []string {
	return []string{"pre-commit", "post-commit", "prepare-commit-msg", "commit-msg", "post-merge", "pre-push",
		"post-checkout", "post-rewrite"}
}

// calledByHook reports whether a command line that names no command comes from a git hook that a version of bd left
// in the repository. Such a call must succeed, because git refuses the commit, merge or push if a hook fails. Other
// calls from git must not succeed without an effect: a merge driver that does nothing and reports success loses one
// side of the merge.
func calledByHook(env func(string) string, args []string) bool {
	if env("BD_GIT_HOOK") != "" { // set by the hooks of 2026
		return true
	}
	return slices.ContainsFunc(gitHooks(), func(hook string) bool { return slices.Contains(args, hook) })
}

// instead returns what to use for a command that this program does not have, or "". These are commands of other
// implementations, and words that agents guess.
func instead(word string) string {
	return map[string]string{
		"cleanup":           "closed issues stay in the file; what can be removed: bd delete ID, bd compact",
		"validate":          "to check the file: bd doctor",
		"lint":              "to check the file: bd doctor",
		"check":             "to check the file: bd doctor",
		"repair":            "to check the file: bd doctor",
		"restore":           "git has the former versions of an issue: git log -p .beads/issues.jsonl",
		"history":           "git has the former versions of an issue: git log -p .beads/issues.jsonl",
		"remember":          "memories are kept in the file but not written; write a note: bd comments add ID TEXT, or into AGENTS.md",
		"memories":          "memories are kept in the file but not shown; search it: grep memory .beads/issues.jsonl",
		"recall":            "memories are kept in the file but not shown; search it: grep memory .beads/issues.jsonl",
		"forget":            "memories are kept in the file; remove the line there",
		"onboard":           "instructions for agents are printed by: bd prime",
		"link":              "to make A depend on B: bd dep add A B; other relations: bd dep add A B --type related",
		"relation":          "to make A depend on B: bd dep add A B; other relations: bd dep add A B --type related",
		"depend":            "to make A depend on B: bd dep add A B",
		"block":             "to let A wait for B: bd dep add A B",
		"unblock":           "to end that A waits for B: bd dep remove A B",
		"start":             "to begin work: bd update ID --claim",
		"claim":             "to begin work: bd update ID --claim",
		"assign":            "to assign an issue: bd update ID --assignee NAME",
		"finish":            "to close an issue: bd close ID --reason WHY",
		"complete":          "to close an issue: bd close ID --reason WHY",
		"resolve":           "to close an issue: bd close ID --reason WHY",
		"add":               "to create an issue: bd create TITLE",
		"new":               "to create an issue: bd create TITLE",
		"note":              "to add a note: bd comments add ID TEXT",
		"get":               "to show an issue: bd show ID",
		"view":              "to show an issue: bd show ID",
		"next":              "for what can be worked on: bd ready",
		"worktree":          "make one with: git worktree add; it uses the tracker that git carries, or that of the main worktree",
		"backup":            "the file is the only copy, and git keeps it; a copy: bd export -o FILE",
		"branch":            "use git for branches; the file is part of the work tree",
		"admin":             "see: bd doctor, bd compact, bd rename-prefix",
		"resolve-conflicts": "conflicts in the file are resolved by: bd sync",
	}[word]
}
