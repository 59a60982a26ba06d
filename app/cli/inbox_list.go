package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/protocol/bell"
	"mailroom/protocol/mcp"
)

// inboxRow is an inbox with its listeners on this machine.
type inboxRow struct {
	Inbox     string          `json:"inbox"`
	Owner     string          `json:"owner"`
	Waiting   int             `json:"waiting"`
	LastRead  *time.Time      `json:"last_read_at"` // when a message was last removed; null: never
	Listeners []bell.Listener `json:"listeners"`
}

func inboxListCommand(con *command.Console) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List inboxes: what waits, who listens, when it was rung and read",
		Long: `List inboxes: how many messages wait, which programs of this user on this machine listen, when
one was last told of mail, and when a message was last removed. The state is listening, rung,
held with the reason, killed, or says why the last ring failed. A session that is held waits
for its user and is rung after that.`,
		Example: `  mailroom inbox list
  mailroom inbox list -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum number of inboxes, at most 500")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		rows, err := listInboxes(cmd.Context(), con, c, limit)
		switch {
		case err != nil:
			return err
		case *output == command.FormatJSON:
			return con.PrintJSON(api.Page[inboxRow]{Items: rows})
		}
		table := [][]string{{"INBOX", "WAITING", "LISTENS", "LAST RUNG", "LAST READ", "STATE"}}
		for _, r := range rows {
			table = append(table, inboxLines(con, r)...)
		}
		return con.PrintList(table, nil, "no inboxes yet: an agent that starts `mailroom mcp` makes one")
	})
}

// listInboxes returns the inboxes that the caller may see, the last changed first.
func listInboxes(ctx context.Context, con *command.Console, c *client.Client, limit int) ([]inboxRow, error) {
	var listeners []bell.Listener
	dir, err := bell.ListenersFolder(con.Env)
	if err == nil {
		listeners, err = dir.List()
	}
	if err != nil {
		con.Infof("the listeners are not known: %v", err)
	}
	holdClaude(listeners)
	agents, err := c.Agents(ctx)
	if err != nil {
		return nil, err
	}
	rows := []inboxRow{}
	for _, a := range agents {
		if a.Kind == nil || *a.Kind != "inbox" {
			continue
		}
		page, err := c.Threads(ctx, client.ListQuery{Q: "agent:" + client.Quote(a.Name), Limit: limit})
		if err != nil {
			return nil, err
		}
		for _, t := range page.Items[:min(len(page.Items), limit-len(rows))] {
			row, err := readInbox(ctx, c, t)
			if err != nil {
				return nil, err
			}
			for _, l := range listeners {
				if l.Inbox == t.ID && l.Server == con.Server {
					row.Listeners = append(row.Listeners, l)
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func readInbox(ctx context.Context, c *client.Client, t api.Thread) (row inboxRow, err error) {
	inbox := mcp.NewInbox(c, t.ID)
	row = inboxRow{Inbox: t.ID, Owner: t.Owner, Listeners: []bell.Listener{}}
	if row.Waiting, err = inbox.Waiting(ctx); err != nil {
		return row, err
	}
	row.LastRead, err = inbox.LastRead(ctx)
	return row, err
}

// inboxLines returns a line for each listener of an inbox, or one without.
func inboxLines(con *command.Console, r inboxRow) (lines [][]string) {
	for _, l := range r.Listeners {
		rung := "-"
		if !l.Rung.IsZero() {
			rung = con.When(&l.Rung)
		}
		lines = append(lines, []string{r.Inbox, fmt.Sprint(r.Waiting), strings.TrimSpace(l.Harness + " " + l.Session), rung,
			con.When(r.LastRead), listenerState(&l)})
	}
	if lines == nil {
		lines = [][]string{{r.Inbox, fmt.Sprint(r.Waiting), "-", "-", con.When(r.LastRead), "-"}}
	}
	return lines
}

// claudeBypass is the permission mode in which a session of claude holds messages of programs.
const claudeBypass = "bypassPermissions"

// holdClaude marks the sessions of claude that take no message now: its socket does not say so.
func holdClaude(all []bell.Listener) {
	bypass := map[string]bool{} // by session
	for _, l := range all {
		bypass[l.Session] = bypass[l.Session] || l.Harness == hookHarness && l.Mode == claudeBypass
	}
	for i := range all {
		l := &all[i]
		switch waits := bell.ClaudeWaits(l.Record, l.Session); {
		case l.Harness != claudeHarness || l.Ended:
		case waits != "":
			l.Held = "it waits for its user: " + waits
		case bypass[l.Session] && l.Rings > 0:
			l.Held = "a session that bypasses permissions keeps messages, unless its setting crossSessionInbound is accept"
		}
	}
}

// listenerState says what a listener does, or what is wrong with it.
func listenerState(l *bell.Listener) string {
	switch {
	case l.Ended:
		return "killed"
	case l.Held != "":
		return "held: " + l.Held
	case l.Problem != "":
		return l.Problem
	case l.Rings == 0:
		return "listening"
	case l.Rings == 1:
		return "rung"
	case l.Harness == claudeHarness:
		return fmt.Sprintf("rung %d times and not read: a session that bypasses permissions holds it, unless "+
			"its setting crossSessionInbound is accept", l.Rings)
	}
	return fmt.Sprintf("rung %d times and not read", l.Rings)
}
