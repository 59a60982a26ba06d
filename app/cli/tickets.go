package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
)

func ticketsCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tickets",
		Short: "List tickets, newest first",
		Long: `List tickets, newest first. A ticket is what a run waits for: an approval, an answer, an
event, a timer or child runs. Filter fields: id, state, kind, agent,
thread and run.`,
		Example: `  mailroom tickets
  mailroom tickets --filter 'state:open kind:approval'
  mailroom tickets --filter 'thread:notes -state:open' -o wide`,
		Args: cobra.NoArgs,
	}
	return list[api.Ticket]{
		fetch:  (*client.Client).Tickets,
		header: []string{"TICKET", "THREAD", "KIND", "STATE", "OPENED", "EXPIRES", "ASKS"},
		row: func(k api.Ticket) []string {
			return []string{k.ID, k.Thread, string(k.Kind), ticketState(k), con.When(k.OpenedAt), con.When(k.ExpiresAt),
				command.Shorten(ticketSummary(k), 60)}
		},
		wide: &table[api.Ticket]{
			header: []string{
				"ASKS", "ACTION", "ARGUMENTS", "KIND", "STATE", "AGENT", "OPENED", "EXPIRES", "DECIDED", "BY", "REASON",
				"TICKET", "RUN", "THREAD",
			},
			row: func(k api.Ticket) []string {
				return []string{
					command.Shorten(ticketSummary(k), 60), orDash(k.Action), command.Shorten(dashIfEmpty(arguments(k)), 100),
					string(k.Kind), ticketState(k), k.Agent, con.When(k.OpenedAt), con.When(k.ExpiresAt),
					con.When(k.DecidedAt), orDash(k.DecidedBy), orDash(k.Reason), k.ID, k.Run, k.Thread,
				}
			},
		},
		what: "tickets", none: "no tickets yet",
	}.command(con, cmd, "state:open")
}

func approveCommand(con *command.Console) *cobra.Command {
	return decideCommand(con, &cobra.Command{
		Use:   "approve TICKET|RUN|THREAD",
		Short: "Approve an action that a run requests",
		Example: `  mailroom approve notes
  mailroom approve notes --reason "looks right to me"`,
		Args: cobra.ExactArgs(1),
	}, mailroom.VerdictApprove)
}

func denyCommand(con *command.Console) *cobra.Command {
	return decideCommand(con, &cobra.Command{
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

func decideCommand(con *command.Console, cmd *cobra.Command, v mailroom.Verdict) *cobra.Command {
	cmd.Long = cmd.Short + "." + decideHelp
	d := api.Decision{Decision: v}
	output := command.FormatFlag(cmd)
	decideFlags(cmd, &d)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		return decide(cmd.Context(), con, c, args[0], d, *output)
	})
}

func decideFlags(cmd *cobra.Command, d *api.Decision) {
	cmd.Flags().StringVar(&d.Reason, "reason", "", "reason, passed on to the run")
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of the reviewed ticket, at least its first 16 characters")
}

func answerCommand(con *command.Console) *cobra.Command {
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
	output := command.FormatFlag(cmd)
	decideFlags(cmd, &d)
	cmd.Flags().BoolVar(&raw, "json", false, "parse the answer as JSON")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		text, err := readText(con, args[1:])
		if err != nil {
			return err
		}
		if d.Answer, err = answer(text, raw); err != nil {
			return err
		}
		return decide(cmd.Context(), con, c, args[0], d, *output)
	})
}

func answer(text string, raw bool) (json.RawMessage, error) {
	if !raw {
		return json.Marshal(text)
	}
	if !json.Valid([]byte(text)) {
		return nil, command.Errorf(command.ExitUsage, "", "invalid JSON: %s", command.Shorten(display.Line(text), 60))
	}
	return json.RawMessage(strings.TrimSpace(text)), nil
}

// printTicketPrompt prints a ticket's question to Stderr. Stdout is for the decision.
func printTicketPrompt(con *command.Console, k api.Ticket) {
	con.Infof("%s %s of run %s in thread %s: %s", k.Kind, display.Line(k.Name), k.Run, display.Line(k.Thread),
		display.Line(deref(k.Prompt)))
	if action := strings.TrimSpace(deref(k.Action) + " " + arguments(k)); action != "" {
		con.Infof("  %s", display.Line(action))
	}
	if k.ExpiresAt != nil && k.State == mailroom.TicketOpen {
		con.Infof("  expires %s", con.When(k.ExpiresAt))
	}
}

// arguments returns the arguments of a ticket's action, "" without any.
func arguments(k api.Ticket) string {
	if string(k.Arguments) == "null" {
		return ""
	}
	return display.JSON(string(k.Arguments))
}

func printTicket(con *command.Console, k api.Ticket, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(k)
	}
	return con.PrintTable([][]string{{k.ID, ticketState(k)}})
}

// ticketState returns the state of a ticket, or its decision.
func ticketState(k api.Ticket) string {
	if k.Decision == nil {
		return string(k.State)
	}
	return verdictText(*k.Decision)
}

// ticketSummary summarizes a ticket for a table cell.
func ticketSummary(k api.Ticket) string {
	line := deref(k.Prompt)
	if line == "" {
		line = k.Name
	}
	if a := deref(k.Action); a != "" {
		line += " (" + a + ")"
	}
	return line
}
