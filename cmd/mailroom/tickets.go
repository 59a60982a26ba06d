package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

func (m *Main) ticketsCommand() *cobra.Command {
	q := client.ListQuery{}
	cmd := &cobra.Command{
		Use:   "tickets",
		Short: "List what runs wait for, newest first",
		Long: `List what runs wait for, newest first: approvals, questions, events, timers and
the ends of other runs. A filter knows state, kind, thread and run.`,
		Example: `  mailroom tickets
  mailroom tickets --filter 'state:open kind:approval'
  mailroom tickets --filter 'thread:notes -state:open'`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	listFlags(cmd, &q, "state:open")
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		page, err := c.Tickets(cmd.Context(), q)
		if err != nil {
			return err
		}
		return m.printTickets(page, *output)
	})
}

func (m *Main) approveCommand() *cobra.Command {
	return m.decideCommand(&cobra.Command{
		Use:   "approve TICKET|RUN|THREAD",
		Short: "Allow what a run asks leave for",
		Example: `  mailroom approve notes
  mailroom approve notes --reason "looks right to me"`,
		Args: cobra.ExactArgs(1),
	}, mailroom.VerdictApprove)
}

func (m *Main) denyCommand() *cobra.Command {
	return m.decideCommand(&cobra.Command{
		Use:     "deny TICKET|RUN|THREAD",
		Short:   "Forbid what a run asks leave for",
		Example: `  mailroom deny notes --reason "not on a Friday"`,
		Args:    cobra.ExactArgs(1),
	}, mailroom.VerdictDeny)
}

const decideHelp = `

A run or a thread names the one open ticket that it has for this. What is asked
is shown, and its digest is sent with the decision: if something else is asked by
then, the decision is refused. With --digest it must be what was shown before.`

func (m *Main) decideCommand(cmd *cobra.Command, v mailroom.Verdict) *cobra.Command {
	cmd.Long = cmd.Short + "." + decideHelp
	d := api.Decision{Decision: v}
	output := formatFlag(cmd)
	decideFlags(cmd, &d)
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		return m.decide(cmd.Context(), c, args[0], d, *output)
	})
}

func decideFlags(cmd *cobra.Command, d *api.Decision) {
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why; the run is told")
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of what was shown, its first 16 characters or more")
}

func (m *Main) answerCommand() *cobra.Command {
	d := api.Decision{Decision: mailroom.VerdictAnswer}
	raw := false
	cmd := &cobra.Command{
		Use:   "answer TICKET|RUN|THREAD TEXT…",
		Short: "Answer what a run asks",
		Long: `Answer what a run asks. The words are one text, and "-" is standard input. With
--json they are one JSON value.` + decideHelp,
		Example: `  mailroom answer notes "by the end of the week"
  mailroom answer notes --json '{"amount": 42}'`,
		Args: cobra.MinimumNArgs(2),
	}
	output := formatFlag(cmd)
	decideFlags(cmd, &d)
	cmd.Flags().BoolVar(&raw, "json", false, "the answer is JSON")
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		text, err := m.text(args[1:])
		if err != nil {
			return err
		}
		if d.Answer, err = answer(text, raw); err != nil {
			return err
		}
		return m.decide(cmd.Context(), c, args[0], d, *output)
	})
}

func answer(text string, raw bool) (json.RawMessage, error) {
	if !raw {
		return json.Marshal(text)
	}
	if !json.Valid([]byte(text)) {
		return nil, exitErrorf(exitUsage, "", "%s is not JSON", cut(oneLine(text), 60))
	}
	return json.RawMessage(strings.TrimSpace(text)), nil
}

// withClient makes run the action of a command that talks to the server.
func (m *Main) withClient(cmd *cobra.Command, run func(c *client.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		c, err := m.connect()
		if err != nil {
			return err
		}
		return run(c, args)
	}
	return cmd
}
