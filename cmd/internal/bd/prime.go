package bd

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
)

const (
	primeFile = "PRIME.md" // instead of the primer, in the tracker's folder
	maxPrime  = 256 << 10  // bytes
)

// primeCommand is called by the start of an agent's session in any folder, so it says
// nothing where there is no tracker.
func (m *Main) primeCommand() *cobra.Command {
	var stealth, standard bool
	cmd := &cobra.Command{Use: "prime", Short: "Print what an agent should know of this tracker", Args: noArgs, Long: `Print what an agent should know of this tracker.

The text of .beads/PRIME.md takes the place of the usual one. Where there is no tracker,
nothing is printed, so that hooks can call it in any folder.`}
	cmd.Flags().BoolVar(&stealth, "stealth", false, "without a word about git")
	cmd.Flags().BoolVar(&standard, "export", false, "the usual text, also where there is a PRIME.md")
	idle(cmd, "full", "mcp")
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
		case mailroom.CodeOf(err) == mailroom.CodeNotFound: // as --db names a folder that is not there
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
		if m.json {
			return m.printJSON(map[string]string{"text": text})
		}
		return m.print(block(strings.TrimRight(text, "\n")))
	}
	return cmd
}

const primerGit = "7. commit .beads/issues.jsonl together with your work\n"

const primer = `# Issues of this repository

They are in .beads/issues.jsonl. Use bd to read and change them; add --json for answers that programs read.

1. bd ready --json             what can be worked on now
2. bd update ID --claim --json make one yours; exit 1 names the holder if somebody was quicker
3. bd show ID --json           all it says
4. bd create "TITLE" --deps discovered-from:ID --json   what you find on the way
5. bd comments add ID "TEXT"   what the next one should know
6. bd close ID --reason "WHY" --json
` + primerGit
