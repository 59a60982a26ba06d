package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/client"
	"mailroom/protocol/bell"
)

// waitHarness is the harness of listeners that are the command `mailroom inbox wait`.
const waitHarness = "wait"

func inboxWaitCommand(con *command.Console) *cobra.Command {
	var most time.Duration
	var hook, note bool
	var plugin string
	cmd := &cobra.Command{
		Use:   "wait [INBOX]",
		Short: "Exit when a message waits in an inbox",
		Long: `Exit when a message waits in an inbox, at once if one does. The message stays in the inbox.
The default is the inbox that MAILROOM_INBOX names, or inbox; it is created if it does not
exist.

The command holds one stream and asks nothing while it waits. It outlives restarts and
outages of the server.

With --rewake it is a hook of claude with asyncRewake, for sessions that no MCP server rings:
it exits with 2, which begins a turn, when the session is due to be told, and with 0 at once
if a hook of the session waits already. With --lines it is the process of a plug-in, such as
the one that "mailroom connect opencode" writes. With --note it is a hook of gemini: it
prints a note for the model if messages wait, and ends at once with 0.

Exit codes: 0 a message waits; 1 the time of --timeout is over; 2 invalid usage; 4 no server
is known, or it refuses; 130 interrupted.`,
		Example: `  mailroom inbox wait inbox-of-claude && claude -c -p "Read your inbox."
  mailroom inbox wait --timeout 10m -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().DurationVar(&most, "timeout", 0, "give up after this time (default: wait as long as it takes)")
	cmd.Flags().BoolVar(&hook, "rewake", false, "be a hook of claude with asyncRewake")
	cmd.Flags().BoolVar(&note, "note", false, "do not wait, and be a hook of gemini that adds a note to a turn")
	cmd.Flags().StringVar(&plugin, "lines", "", "ring a session of this program through its plug-in, by lines of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 0 || cmd.Flags().Changed("timeout") && most == 0 {
			return command.UsageErrorf(cmd, "--timeout must be positive, such as 10m")
		}
		if (hook || plugin != "") && most > 0 {
			return command.UsageErrorf(cmd, "--rewake and --lines wait as long as their session: leave --timeout out")
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		thread, err := inboxThread(con, name)
		if err != nil && hook {
			return rewakeFailed(err)
		}
		if err != nil {
			return err
		}
		if note {
			return printNote(cmd.Context(), con, thread)
		}
		if plugin != "" {
			return ringPlugin(cmd.Context(), con, thread, plugin)
		}
		if hook {
			return rewake(cmd.Context(), con, thread)
		}
		n, err := waitForMail(cmd.Context(), con, thread, most)
		switch {
		case err != nil:
			return err
		case *output == command.FormatJSON:
			return con.PrintJSON(struct {
				Inbox   string `json:"inbox"`
				Waiting int    `json:"waiting"`
			}{thread, n})
		}
		return con.Printf("%s in %s\n", countMessages(n), thread)
	}
	return cmd
}

// errMail ends a wait because mail is there, errWaited because its time is over.
var (
	errMail   = errors.New("mail is there")
	errWaited = errors.New("no message came")
)

// lastLook is how long the request takes at most that a wait makes when its time is over.
const lastLook = 10 * time.Second

// waitForMail returns how many messages wait in an inbox, as soon as there is one.
func waitForMail(ctx context.Context, con *command.Console, thread string, most time.Duration) (n int, err error) {
	first, err := connect(con)
	if err != nil {
		return 0, err
	}
	inbox := &remoteInbox{thread: thread, lasting: isRefusal, dial: func() (c *client.Client, err error) {
		if c, first = first, nil; c != nil {
			return c, nil
		}
		return connectQuietly(con)
	}}
	defer listen(con, bell.Listener{Inbox: thread, Server: con.Server, Harness: waitHarness, PID: os.Getpid(),
		Session: fmt.Sprint(os.Getpid()), Since: time.Now()})()
	following, found := context.WithCancelCause(ctx)
	defer found(nil)
	if most > 0 {
		var cancel context.CancelFunc
		following, cancel = context.WithTimeoutCause(following, most, errWaited)
		defer cancel()
	}
	err = inbox.Follow(following, func(head string) {
		if head != "" {
			found(errMail)
		}
	})
	switch {
	case errors.Is(err, errWaited):
		// On a busy machine the time can be over before the server was asked at all.
		asking, cancel := context.WithTimeout(ctx, lastLook)
		defer cancel()
		switch n, err = inbox.Waiting(asking); {
		case n > 0 || err != nil && isRefusal(err):
			return n, err
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		}
		return 0, command.Errorf(command.ExitFailed, "", "no message came to %s within %s", thread, most)
	case !errors.Is(err, errMail):
		return 0, err
	}
	if n, err = inbox.Waiting(ctx); err != nil && !isRefusal(err) {
		return 1, nil // the server has gone away since
	}
	return max(n, 1), err
}

// listen lists this process as a listener until the returned function is called. A list is of less use than the
// waiting itself, so a folder that cannot be written is reported and nothing more.
func listen(con *command.Console, l bell.Listener) func() {
	dir, err := bell.ListenersFolder(con.Env)
	var entry *bell.Listening
	if err == nil {
		entry, err = dir.Add(l)
	}
	if err != nil {
		con.Infof("not listed as a listener: %v", err)
		return func() {}
	}
	return func() {
		if err := entry.Close(); err != nil {
			con.Infof("still listed as a listener: %v", err)
		}
	}
}
