package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// Channels returns the command that lists channels, with its subcommand resume. states is a table of the states of a
// channel, for the help text.
func Channels(con *command.Console, states string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channels",
		Short: "List channels and their state",
		Long: `List channels (connections to platforms) and their state.

` + states + `
To retry a channel now: "mailroom channels resume NAME". A failed channel with a next
try panicked in the server and retries by itself; the server's log has the stack.

UNHANDLED counts messages that are not acknowledged yet, because their run or their
reply is in progress. Each state change is an entry in the thread channel:NAME.`,
		Example: `  mailroom channels
  mailroom channels -o json
  mailroom channels resume mol`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(resumeChannelCommand(con))
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		channels, err := c.Channels(cmd.Context())
		if err != nil {
			return err
		}
		return printChannels(con, channels, *output)
	})
}

func resumeChannelCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Reconnect a channel now",
		Long: `Reconnect a channel now and reset its failure count. This works in every state,
also after the channel gave up or failed permanently. A connected channel is not
affected.`,
		Example: `  mailroom channels resume mol`,
		Args:    cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		ch, err := c.ResumeChannel(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(ch)
		}
		con.Infof("channel %s is %s; show its state with `%s`", ch.Name, ch.State, con.CommandLine("channels"))
		return nil
	})
}

func printChannels(con *command.Console, channels []api.Channel, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(api.Page[api.Channel]{Items: channels})
	}
	rows := [][]string{{"CHANNEL", "KIND", "STATE", "LAST SUCCESS", "LAST IN", "LAST OUT", "CURSOR", "UNHANDLED", "DOWN",
		"LAST ERROR"}}
	for _, c := range channels {
		trouble := "-"
		if c.LastError != nil {
			trouble = con.When(c.LastErrorAt) + " " + command.Shorten(*c.LastError, 100)
		}
		rows = append(rows, []string{
			c.Name, c.Kind, stateOf(con, c), con.When(c.LastSuccess), con.When(c.LastInbound), con.When(c.LastOutbound),
			cursorOf(c), fmt.Sprint(c.Unhandled),
			(time.Duration(c.DowntimeMS) * time.Millisecond).Round(time.Second).String(), trouble,
		})
	}
	if err := con.PrintList(rows, nil,
		"no channels: add one with `mailroom channels add`, or run `mailroom bridge`"); err != nil {
		return err
	}
	for _, c := range channels {
		switch c.State {
		case api.ChannelParked, api.ChannelGaveUp, api.ChannelFailed:
			con.Infof("channel %s needs attention; to retry it now: %s", c.Name, con.CommandLine("channels", "resume", c.Name))
		}
	}
	return nil
}

func stateOf(con *command.Console, c api.Channel) string {
	state := c.State
	if c.State == api.ChannelConnected {
		if c.Reason != nil {
			state += ": " + *c.Reason
		}
		return state
	}
	if c.Attempts > 0 {
		state += " after " + failedAttempts(c.Attempts)
	}
	if c.NextTry != nil {
		state += ", next attempt " + con.When(c.NextTry)
	}
	if c.LeftBehind > 0 {
		state += fmt.Sprintf(", %d adapters still running", c.LeftBehind)
	}
	return state
}

func failedAttempts(n int) string {
	if n == 1 {
		return "1 failed attempt"
	}
	return fmt.Sprintf("%d failed attempts", n)
}

func cursorOf(c api.Channel) string {
	cursor := orDash(c.Cursor)
	if c.CursorLag != nil {
		cursor += fmt.Sprintf(" (%d behind)", *c.CursorLag)
	}
	return cursor
}
