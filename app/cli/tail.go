package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/internal/display"
)

// tailQuery selects what tail prints.
type tailQuery struct {
	after string
	kinds []string // prefixes of kinds; none: all
}

func tailCommand(con *command.Console) *cobra.Command {
	q := tailQuery{}
	cmd := &cobra.Command{
		Use:        "tail",
		SuggestFor: []string{"logs", "log"},
		Short:      "Show what happens in all threads, as it happens",
		Long: `Show new entries of all threads that the token may see, one line each: the time, the
thread, the kind and the content. It reconnects after an outage and continues where it
was. Ctrl-C ends it and prints the command that continues there.`,
		Example: `  mailroom tail
  mailroom tail --kind run.failed --kind ticket.
  mailroom tail -o jsonl`,
		Args: cobra.NoArgs,
	}
	output := command.ListFormatFlag(cmd, false)
	cmd.Flags().StringVar(&q.after, "after", "", "continue after this event id")
	cmd.Flags().StringArrayVar(&q.kinds, "kind", nil,
		"only entries whose kind starts with this, such as run.failed, ticket. or message; may be repeated")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		if *output == command.FormatJSON {
			return command.UsageErrorf(cmd, "a stream has no end: use -o text or -o jsonl")
		}
		return tail(cmd.Context(), con, c, q, *output)
	})
}

func tail(ctx context.Context, con *command.Console, c *client.Client, q tailQuery, output command.Format) error {
	f := entryFormatter{names: map[string]string{}}
	last := q.after
	for ev, err := range c.Stream(ctx, q.after) {
		if err != nil {
			if last != "" {
				con.Infof("to continue here:\n  %s", con.CommandLine("tail", "--after", last))
			}
			return err
		}
		if ev.ID != "" {
			last = ev.ID
		}
		switch {
		case ev.Gap != nil:
			con.Infof("entries are missing here: they are older than the retention, or the store was replaced")
		case ev.Entry != nil && q.wants(ev.Entry.Kind):
			if err := printTailed(con, f, *ev.Entry, output); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q tailQuery) wants(kind string) bool {
	return len(q.kinds) == 0 || slices.ContainsFunc(q.kinds, func(p string) bool { return strings.HasPrefix(kind, p) })
}

func printTailed(con *command.Console, f entryFormatter, e mailroom.Entry, output command.Format) error {
	if output == command.FormatJSONLines {
		return con.PrintJSON(e)
	}
	if len(f.names) > maxTailNames {
		clear(f.names)
	}
	text, err := f.tailLine(e)
	if err != nil {
		return fmt.Errorf("entry %d of thread %s: %w", e.Seq, e.Thread, err)
	}
	line := fmt.Sprintf("%s %s %s", e.At.Local().Format(time.TimeOnly), e.Thread, e.Kind)
	if text != "" {
		line += " " + text
	}
	return con.Printf("%s\n", display.Line(line))
}

const (
	maxTailed    = 160   // characters of an entry's text in a line
	maxTailNames = 1_000 // names of tools and tickets that lines to come may refer to
)

// tailLine formats an entry without its thread and kind.
func (f entryFormatter) tailLine(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindMessage:
		var m mailroom.Message
		err := e.Decode(&m)
		return m.Sender + ": " + command.Shorten(display.Line(m.Text), maxTailed), err
	case entry.KindQueued:
		var b entry.RunQueued
		err := e.Decode(&b)
		return fmt.Sprintf("run %s for %s", e.Run, b.Agent), err
	case entry.KindStarted:
		var b entry.RunStarted
		err := e.Decode(&b)
		return fmt.Sprintf("run %s, attempt %d on %s", e.Run, e.Attempt, b.Worker), err
	}
	line, err := f.format(e)
	if line == "" && e.Run != "" {
		line = "run " + e.Run
	}
	return command.Shorten(display.Line(line), maxTailed), err
}
