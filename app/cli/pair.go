package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// pairCommand manages which users of chat platforms may use the agents of this server.
func pairCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "List, approve and revoke users of chat channels",
		Long: `List the users of chat channels who are paired or wait for approval.

A user may talk to a bot if the channel's settings list them under users or admins, or
their chat under chats, or if they are paired. An unknown user who writes to the bot in
private gets a code, valid for one hour, and passes it on to you. Codes are not listed:
the code proves that the request comes from the person who gave it to you.`,
		Example: `  mailroom pair
  mailroom pair approve K7QM-2WXA
  mailroom pair approve K7QM-2WXA --admin
  mailroom pair revoke tg 123456789`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(pairApproveCommand(con), pairRevokeCommand(con))
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		all, err := c.Accounts().Pairings(cmd.Context())
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(api.Page[api.Pairing]{Items: all})
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
			rows = append(rows,
				[]string{p.Channel, p.User, orDash(&p.Name), p.State, may, con.When(&p.Since), con.When(p.Until), orDash(p.By)})
		}
		return con.PrintList(rows, nil, "no paired users and no pending requests")
	})
}

func pairApproveCommand(con *command.Console) *cobra.Command {
	var in api.ApprovePairing
	cmd := &cobra.Command{
		Use:   "approve CODE",
		Short: "Approve a pairing code",
		Long: fmt.Sprintf(`Approve a pairing code. With --admin the user may also decide the agent's requests for
approval, which can run commands on the agent's machine.

After %d wrong codes in a row the channel stops pairing for %s.`, 5, "an hour"),
		Example: `  mailroom pair approve K7QM-2WXA
  mailroom pair approve k7qm2wxa --admin --channel tg`,
		Args: cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().BoolVar(&in.Admin, "admin", false, "the user may also approve or deny the agent's requests")
	cmd.Flags().StringVar(&in.Channel, "channel", "", "channel that issued the code (default: any)")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		in.Code = args[0]
		p, err := c.Accounts().ApprovePairing(cmd.Context(), in)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(p)
		}
		con.Infof("paired %s (%s) on channel %s as %s; to revoke: %s", p.User, orDash(&p.Name), p.Channel, p.Tier,
			con.CommandLine("pair", "revoke", p.Channel, p.User))
		return nil
	})
}

func pairRevokeCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke CHANNEL USER",
		Short: "Revoke a user's access",
		Long: `Revoke a paired user's access, or deny a pending request. USER is the id that
"mailroom pair" shows. Users in the channel's settings keep their access.`,
		Example: `  mailroom pair revoke tg 123456789`,
		Args:    cobra.ExactArgs(2),
	}
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if err := c.Accounts().RevokePairing(cmd.Context(), args[0], args[1]); err != nil {
			return err
		}
		con.Infof("revoked the access of %s on channel %s", args[1], args[0])
		return nil
	})
}
