package bd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/issues/tracker"
)

// editCommand requires a terminal, because an editor without a terminal would block forever.
func editCommand(m *Main) *cobra.Command {
	var title, design, notes, acceptance bool
	cmd := &cobra.Command{Use: "edit ID", Short: "Edit the description of an issue in $EDITOR", Args: cobra.ExactArgs(1)}
	flags := cmd.Flags()
	flags.BoolVar(&title, "title", false, "edit the title instead")
	flags.BoolVar(&design, "design", false, "edit the design instead")
	flags.BoolVar(&notes, "notes", false, "edit the notes instead")
	flags.BoolVar(&acceptance, "acceptance", false, "edit the acceptance criteria instead")
	flags.Bool("description", false, "edit the description, as without a flag")
	cmd.MarkFlagsMutuallyExclusive("title", "design", "notes", "acceptance", "description")
	part := func(it *tracker.Issue) *string {
		switch {
		case title:
			return &it.Title
		case design:
			return &it.Design
		case notes:
			return &it.Notes
		case acceptance:
			return &it.Acceptance
		}
		return &it.Description
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if in, ok := m.Stdin.(*os.File); !ok || !isatty.IsTerminal(in.Fd()) {
			return mailroom.Errorf(mailroom.CodeInvalid, "edit needs a terminal; use: bd update %s --description TEXT", ids[0])
		}
		var id, was string
		if err := m.read(func(t *tracker.Tracker) error {
			it, err := t.Find(ids[0])
			if err == nil {
				id, was = it.ID, *part(it)
			}
			return err
		}); err != nil {
			return err
		}
		text, err := m.editText(cmd.Context(), was)
		if err != nil || text == was {
			return err
		}
		return m.updateEach(cmd.Context(), []string{id}, m.anonymousSignature(), "Updated", false,
			func(t *tracker.Tracker, id string, by tracker.Signature) (*tracker.Issue, error) {
				return t.Update(id, by, func(it *tracker.Issue) error {
					if *part(it) != was {
						return mailroom.Errorf(mailroom.CodeConflict, "%s was changed while you edited it; edit it again", it.ID)
					}
					*part(it) = text
					return nil
				})
			})
	}
	return cmd
}

// editText lets the user edit a text in an editor.
func (m *Main) editText(ctx context.Context, text string) (out string, err error) {
	editor := m.Env("VISUAL")
	if editor == "" {
		editor = m.Env("EDITOR")
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		return "", mailroom.Errorf(mailroom.CodeInvalid, "no editor configured; set EDITOR")
	}
	file, err := os.CreateTemp("", "bd-*.md")
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	run := exec.CommandContext(ctx, words[0], append(words[1:], file.Name())...)
	run.Dir, run.Stdin, run.Stdout, run.Stderr = m.Dir, m.Stdin, m.Stdout, m.Stderr
	if err := run.Run(); err != nil {
		return "", fmt.Errorf("edit with %s: %w", words[0], err)
	}
	return m.inputFile(file.Name(), "the edited text")
}
