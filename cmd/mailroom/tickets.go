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
		Short: "List tickets, newest first",
		Long: `List tickets, newest first. A ticket is what a run waits for: an approval, an answer, an
event, a timer or child runs. Filter fields: state, kind, thread and run.`,
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
		Short: "Approve an action that a run requests",
		Example: `  mailroom approve notes
  mailroom approve notes --reason "looks right to me"`,
		Args: cobra.ExactArgs(1),
	}, mailroom.VerdictApprove)
}

func (m *Main) denyCommand() *cobra.Command {
	return m.decideCommand(&cobra.Command{
		Use:     "deny TICKET|RUN|THREAD",
		Short:   "Deny an action that a run requests",
		Example: `  mailroom deny notes --reason "not on a Friday"`,
		Args:    cobra.ExactArgs(1),
	}, mailroom.VerdictDeny)
}

const decideHelp = `

A run or thread stands for its only open ticket of this kind. The command shows the
ticket and sends its digest with the decision, so that the server refuses the decision
if the ticket has changed. Use --digest to decide only what you reviewed before.`

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
	cmd.Flags().StringVar(&d.Reason, "reason", "", "reason, passed on to the run")
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of the reviewed ticket, at least its first 16 characters")
}

func (m *Main) answerCommand() *cobra.Command {
	d := api.Decision{Decision: mailroom.VerdictAnswer}
	raw := false
	cmd := &cobra.Command{
		Use:   "answer TICKET|RUN|THREAD TEXT…",
		Short: "Answer a run's question",
		Long: `Answer a run's question. The words are joined to one text; "-" reads standard input.
With --json the text is a JSON value.` + decideHelp,
		Example: `  mailroom answer notes "by the end of the week"
  mailroom answer notes --json '{"amount": 42}'`,
		Args: cobra.MinimumNArgs(2),
	}
	output := formatFlag(cmd)
	decideFlags(cmd, &d)
	cmd.Flags().BoolVar(&raw, "json", false, "parse the answer as JSON")
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
		return nil, exitErrorf(exitUsage, "", "invalid JSON: %s", cut(oneLine(text), 60))
	}
	return json.RawMessage(strings.TrimSpace(text)), nil
}

// withClient sets run as the action of cmd and passes it a client of the server.
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
