package bd

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
)

const (
	primeFile = "PRIME.md" // replaces the primer, in the tracker's folder
	maxPrime  = 256 << 10  // bytes
)

// primeCommand prints nothing without a tracker, because agents run it at the start of a session in
// any folder.
func primeCommand(m *Main) *cobra.Command {
	var stealth, standard bool
	cmd := &cobra.Command{Use: "prime", Short: "Print instructions for agents", Args: noArgs,
		Long: `Print instructions for agents.

The text of .beads/PRIME.md replaces the default. Without a tracker nothing is printed, so
that hooks can call it in any folder.`}
	cmd.Flags().BoolVar(&stealth, "stealth", false, "omit instructions about git")
	cmd.Flags().BoolVar(&standard, "export", false, "print the default text, even if PRIME.md exists")
	ignoredFlags(cmd, "full", "mcp")
	cmd.RunE = func(*cobra.Command, []string) error {
		dir, err := m.folder()
		if mailroom.CodeOf(err) == mailroom.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		own, err := dir.ReadFile(primeFile, maxPrime)
		switch {
		case mailroom.CodeOf(err) == mailroom.CodeNotFound: // --db names a missing folder
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		text := primer
		if stealth {
			text = strings.Replace(text, primerGit, "", 1)
		}
		if err == nil && !standard {
			text = string(own)
		}
		if m.out.json {
			return m.out.printJSON(map[string]string{"text": text})
		}
		return m.out.print(block(strings.TrimRight(text, "\n")))
	}
	return cmd
}

const primerGit = "7. commit .beads/issues.jsonl together with your work\n"

const primer = `# Issues of this repository

They are in .beads/issues.jsonl. Use bd to read and change them; add --json for machine-readable output.

1. bd ready --json             issues that are ready to work on
2. bd update ID --claim --json claim one; exit 1 names the holder if it is taken, exit 3 says that you (or another agent
                               under your name) hold it already: set BD_ACTOR to a name that no other agent has
3. bd show ID --json           show all fields
4. bd create "TITLE" --deps discovered-from:ID --json   record further work
5. bd comments add ID "TEXT"   leave notes for the next agent
6. bd close ID --reason "WHY" --json
` + primerGit
