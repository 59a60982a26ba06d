package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/internal/console"
)

// maxStdin limits the text on standard input. The server's limit is lower.
const maxStdin = 8 << 20

func sendCommand(con *console.Console) *cobra.Command {
	var in api.Submit
	var mode string
	var detach bool
	cmd := &cobra.Command{
		Use:   "send [flags] TEXT…",
		Short: "Send a message and show the reply as it is written",
		Long: `Send a message and show the reply as it is written.

The reply goes to standard output, everything else to standard error. The text "-"
reads standard input. Ctrl-C detaches and cancels nothing. If the run waits for a
decision, the commands that decide are shown and the exit code is 3.`,
		Example: `  mailroom send "hello"
  mailroom send --thread notes --agent echo "remember the milk"
  mailroom send --agent tour "show me"
  git diff | mailroom send --thread review -`,
		Args: cobra.MinimumNArgs(1),
	}
	output := console.FormatFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&in.Thread, "thread", "", "thread to send to (default: a new thread)")
	flags.StringVar(&in.Agent, "agent", "", "agent of the thread, from this message on")
	flags.StringVar(&mode, "mode", "", "what to do if the thread is busy: queue (default), steer, interrupt, latest, collect or reject")
	flags.StringVar(&in.Key, "key", "", "idempotency key: a message with the same key is sent once")
	flags.BoolVar(&detach, "detach", false, "print the ids without waiting for the reply")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Text, err = readText(con, args); err != nil {
			return err
		}
		in.Mode = mailroom.Mode(mode)
		return send(cmd.Context(), con, in, detach, *output)
	}
	return cmd
}

// text joins args to a message. A single "-" reads standard input and drops its final
// line break.
func readText(con *console.Console, args []string) (string, error) {
	if len(args) != 1 || args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(con.Stdin, maxStdin+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > maxStdin {
		return "", console.Errorf(console.ExitUsage, "", "standard input is larger than %d bytes", maxStdin)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func send(ctx context.Context, con *console.Console, in api.Submit, detach bool, output console.Format) error {
	c, err := connect(con)
	if err != nil {
		return err
	}
	made := in.Key == ""
	if made {
		in.Key = uuid.NewString()
	}
	done, err := c.Submit(ctx, in)
	if err != nil {
		switch {
		case errors.Is(err, client.ErrNotSent):
			con.Infof("the message was not sent")
		case made && mailroom.CodeOf(err) == mailroom.CodeUnavailable:
			printRetryHint(con, in.Key)
		}
		return err
	}
	if detach {
		return printSubmitted(con, done, output)
	}
	p := newReplyPrinter(con, output)
	if err := p.printSubmitted(in.Thread, done); err != nil {
		return err
	}
	if done.Disposition == api.DispositionQueued {
		if err := reportBlocking(ctx, con, c, done); err != nil {
			return err
		}
	}
	q := client.FollowQuery{Run: done.Run, After: fmt.Sprint(done.Seq)}
	return follow(ctx, con, c, q, p, con.CommandLine("attach", done.Thread))
}

// reportBlocking prints how to decide what an earlier run of the thread waits for, if it does.
func reportBlocking(ctx context.Context, con *console.Console, c *client.Client, done api.Submitted) error {
	t, err := c.Thread(ctx, done.Thread)
	if err != nil || t.WaitingRun == nil || *t.WaitingRun == done.Run {
		return err
	}
	return reportWaiting(ctx, con, c, *t.WaitingRun)
}

func printRetryHint(con *console.Console, key string) {
	con.Infof("the message may have been accepted; retry with --key %s to avoid a duplicate", key)
}

func printSubmitted(con *console.Console, s api.Submitted, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(s)
	}
	rows := [][]string{{"thread", s.Thread}, {"run", s.Run}, {"message", s.Message}, {"status", string(s.Status)}}
	if s.Disposition != api.DispositionQueued {
		rows = append(rows, []string{"disposition", string(s.Disposition)})
	}
	return con.PrintTable(rows)
}
