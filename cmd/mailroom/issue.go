package main

import (
	"os"

	"github.com/spf13/cobra"

	"mailroom/cmd/internal/bd"
)

// issueCommand is the tracker: what comes behind the word is bd's to read.
func (m *Main) issueCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "issue …",
		Short: "The tracker: issues in a file, the same as bd",
		Long: `The tracker: issues in a file that git carries. This is bd under another name; see
"mailroom issue --help" for its commands. It needs no server.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			t := bd.Main{Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, Env: m.Env, Dir: dir, Name: "issue", Version: version().Version}
			if t.Run(cmd.Context(), args) != exitDone {
				return &findingsError{} // which it has told
			}
			return nil
		},
	}
}
