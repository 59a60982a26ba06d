package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/issues/workflow"
)

func workflowCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workflow",
		Short: "Check the file WORKFLOW.md of a repository",
	}
	cmd.AddCommand(workflowCheck(con))
	return cmd
}

// checkedWorkflow is what a check prints as JSON.
type checkedWorkflow struct {
	File     string             `json:"file"`
	Settings []workflow.Setting `json:"settings"`
	Used     map[string]any     `json:"used"` // by the names of settings of a server
	Notes    []string           `json:"notes"`
	Prompt   string             `json:"prompt"`
}

func workflowCheck(con *command.Console) *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Show how a file for Symphony is read, and what has no effect",
		Long: `Show how a file for Symphony is read: which setting of this server each key stands for, what has
no effect and why, and the prompt of an issue made up for this. It runs nothing, reads no other
file, and needs no server. A value such as $LINEAR_API_KEY is read from the environment only if
--env lists that variable. An unknown key is a warning; an unknown variable, filter or tag of the
body is an error with its line.`,
		Example: "  mailroom workflow check WORKFLOW.md --env LINEAR_API_KEY",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringSliceVar(&env, "env", nil, "`variables` that the file may read, with commas between them")
	output := command.FormatFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		out, err := checkWorkflow(args[0], workflow.NewFile(args[0], env, con.Env))
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(out)
		}
		return printWorkflow(con, out)
	}
	return cmd
}

// checkWorkflow reads a file and renders the prompt of an example.
func checkWorkflow(name string, file *workflow.File) (checkedWorkflow, error) {
	w, err := file.Load()
	if err != nil {
		return checkedWorkflow{}, err
	}
	prompt, err := w.Prompt(exampleIssue(), 0)
	return checkedWorkflow{File: name, Settings: append([]workflow.Setting{}, w.Settings...),
		Notes: append([]string{}, w.Notes...), Prompt: prompt, Used: usedSettings(w)}, err
}

func usedSettings(w *workflow.Workflow) map[string]any {
	return map[string]any{"board": w.Kind, "project": w.Project, "repository": w.Repository, "labels": w.RequiredLabels,
		"active_states": w.ActiveStates, "terminal_states": w.TerminalStates, "interval": w.Interval.String(),
		"max_claimed": w.MaxAgents}
}

// exampleIssue is the issue of the prompt that a check shows.
func exampleIssue() workflow.Issue {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return workflow.Issue{ID: "example", Identifier: "EXAMPLE-1", Title: "Example issue",
		Description: "Text of the example issue.", State: "Todo", Priority: 2, Labels: []string{"example"},
		BlockedBy: []workflow.Blocker{{ID: "other", Identifier: "EXAMPLE-2", State: "Done"}}, CreatedAt: at, UpdatedAt: at,
		Dispatchable: true}
}

func printWorkflow(con *command.Console, w checkedWorkflow) error {
	rows := [][]string{{"KEY", "VALUE", "SETTING HERE"}}
	for _, s := range w.Settings {
		rows = append(rows, []string{s.Key, s.Value, cmp.Or(s.Here, "-")})
	}
	if err := con.PrintList(rows, nil, "no settings: the file has no front matter"); err != nil {
		return err
	}
	if len(w.Notes) > 0 {
		if err := con.Printf("\n"); err != nil {
			return err
		}
	}
	for _, note := range w.Notes {
		if err := con.Printf("Warning: %s\n", con.Escape(note)); err != nil {
			return err
		}
	}
	if w.Prompt == "" {
		return con.Printf("\nThe file has no body.\n")
	}
	return con.Printf("\n%s\n\n%s\n", fmt.Sprintf("Prompt of %s:", exampleIssue().Identifier), con.Escape(w.Prompt))
}
