package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/client"
)

// pairCommand is who may talk to the agents of this server through chat platforms.
func (m *Main) pairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "List who may talk through chat platforms, and let others in",
		Long: `List who was let in to talk through chat platforms with a code, and who waits for it.

Nobody may talk who is not among the users, admins or chats of the channel's settings,
or was let in. A stranger who writes to the bot in private gets a code, which is good
for an hour, and tells it to you. Codes are not listed: that somebody has one shows
that they are who you think.`,
		Example: `  mailroom pair
  mailroom pair approve K7QM-2WXA
  mailroom pair approve K7QM-2WXA --admin
  mailroom pair revoke tg 123456789`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(m.pairApproveCommand(), m.pairRevokeCommand())
	output := formatFlag(cmd)
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		all, err := c.Pairings(cmd.Context())
		if err != nil {
			return err
		}
		if *output == asJSON {
			return m.printJSON(api.Page[api.Pairing]{Items: all})
		}
		rows := [][]string{{"CHANNEL", "USER", "NAME", "STATE", "MAY", "SINCE", "UNTIL", "BY"}}
		for _, p := range all {
			may := "-"
			if p.State == api.Paired {
				may = "talk"
				if p.Tier == api.TierAdmin {
					may = "talk, decide"
				}
			}
			rows = append(rows, []string{p.Channel, p.User, orDash(&p.Name), p.State, may, m.when(&p.Since), m.when(p.Until), orDash(p.By)})
		}
		return m.printList(rows, nil, "nobody was let in with a code, and nobody waits")
	})
}

func (m *Main) pairApproveCommand() *cobra.Command {
	var in api.ApprovePairing
	cmd := &cobra.Command{
		Use:   "approve CODE",
		Short: "Let in who has this code",
		Long: fmt.Sprintf(`Let in who has this code. With --admin they may also approve what the agent asks to do,
on the machine where it runs.

After %d wrong codes in a row the channel lets nobody in, and gives no codes, for %s.`, 5, "an hour"),
		Example: `  mailroom pair approve K7QM-2WXA
  mailroom pair approve k7qm2wxa --admin --channel tg`,
		Args: cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.Flags().BoolVar(&in.Admin, "admin", false, "they may also decide what the agent asks to do")
	cmd.Flags().StringVar(&in.Channel, "channel", "", "the channel that gave the code (default any)")
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		in.Code = args[0]
		p, err := c.ApprovePairing(cmd.Context(), in)
		if err != nil {
			return err
		}
		if *output == asJSON {
			return m.printJSON(p)
		}
		m.infof("%s (%s) may talk on channel %s now, as %s; to end that: %s", p.User, orDash(&p.Name), p.Channel, p.Tier, m.commandLine("pair", "revoke", p.Channel, p.User))
		return nil
	})
}

func (m *Main) pairRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke CHANNEL USER",
		Short: "Let somebody talk no longer who was let in with a code",
		Long: `Let somebody talk no longer who was let in with a code, or refuse who waits for it.
USER is the id that "mailroom pair" shows. Who is in the settings of the channel may go
on talking.`,
		Example: `  mailroom pair revoke tg 123456789`,
		Args:    cobra.ExactArgs(2),
	}
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		if err := c.RevokePairing(cmd.Context(), args[0], args[1]); err != nil {
			return err
		}
		m.infof("%s may not talk on channel %s any more", args[1], args[0])
		return nil
	})
}
