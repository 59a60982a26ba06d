package cli

import (
	"context"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/auth"
	"mailroom/client"
)

func tokenRevokeCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke NAME | --all",
		Short: "Revoke a token",
		Long: `Revoke a token at once, close its open connections, and end what was made with it. The
threads of its name remain, for admins and for the next token of that name. Their open
runs go on, unless --cancel ends them too, also those that others submitted there. Run
it again with --cancel to cancel what is left.

With --all the operator revokes every token, session, link and limited token but the
operator's own, such as after a restore, which brings back what was revoked since.`,
		Example: "  mailroom token revoke laptop\n  mailroom token revoke laptop --cancel\n  mailroom token revoke --all",
		Args:    cobra.MaximumNArgs(1),
	}
	cancel := cmd.Flags().Bool("cancel", false, "cancel the open runs of the threads of its name")
	all := cmd.Flags().Bool("all", false, "revoke every token but the operator's")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		switch {
		case *all && len(args) > 0:
			return command.Errorf(command.ExitUsage, "give one of them", "a name and --all exclude each other")
		case !*all && len(args) == 0:
			return command.Errorf(command.ExitUsage, "give a name, or --all", "no token is named")
		case *all:
			return revokeAll(cmd.Context(), con, c, *cancel)
		}
		out, err := c.Accounts().EndToken(cmd.Context(), args[0], *cancel)
		if err != nil {
			return err
		}
		con.Infof("revoked token %s", args[0])
		switch {
		case *cancel:
			con.Infof("cancelled %d runs", out.Cancelled)
		case out.OpenRuns > 0:
			con.Infof("%d runs of its threads go on: cancel them with --cancel", out.OpenRuns)
		}
		return nil
	})
}

// revokeAll revokes several tokens. It revokes tokens with a name first, because tokens that act for a named one end
// with it.
func revokeAll(ctx context.Context, con *command.Console, c *client.Client, cancel bool) error {
	me, err := c.Accounts().Session(ctx)
	if err != nil {
		return err
	}
	if me.Token != auth.Operator || me.Kind != "token" {
		return command.Errorf(command.ExitUsage, "use the operator's token, which has no row and goes on",
			"this token would revoke itself before the others")
	}
	tokens, others, cancelled := 0, 0, 0
	for _, named := range []bool{true, false} {
		rows, err := c.Accounts().Tokens(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if (row.Kind == "token") != named || row.RevokedAt != nil {
				continue
			}
			out, err := c.Accounts().EndToken(ctx, row.Name, cancel && named)
			switch {
			case mailroom.CodeOf(err) == mailroom.CodeNotFound: // the server revoked this token together with another one
			case err != nil:
				return err
			case named:
				tokens, cancelled = tokens+1, cancelled+out.Cancelled
			default:
				others++
			}
		}
	}
	con.Infof("revoked %d tokens, and %d sessions, links and limited tokens of the operator", tokens, others)
	if cancel {
		con.Infof("cancelled %d runs", cancelled)
	}
	return nil
}
