package cli

import (
	"context"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// list is a command that lists items of the server, newest first, page by page.
type list[T any] struct {
	fetch  func(*client.Client, context.Context, client.ListQuery) (api.Page[T], error)
	header []string
	row    func(item T) []string // the cells of an item
	// wide has another table for -o wide, nil if there is none.
	wide *table[T]
	none string // printed instead of an empty table if no filter is set; it has commands in backticks
	what string // what an item is, in the plural, such as "runs"
}

// table says how items are printed as rows.
type table[T any] struct {
	header []string
	row    func(item T) []string
}

// command sets the flags and the action of cmd. usual is the default of --filter.
func (l list[T]) command(con *command.Console, cmd *cobra.Command, usual string) *cobra.Command {
	q, all := client.ListQuery{}, false
	output := command.ListFormatFlag(cmd, l.wide != nil)
	cmd.Flags().StringVar(&q.Q, "filter", usual, "only items that match, such as 'agent:echo -thread:\"old*\"'")
	command.AllowEmpty(cmd.Flags(), "filter") // all items
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "maximum number of items, at most 500; with --all, of a request")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
	cmd.Flags().BoolVar(&all, "all", false, "list all items, not only a page")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		if all && *output == command.FormatJSON {
			return command.UsageErrorf(cmd, "--all goes with -o text and -o jsonl")
		}
		return l.print(cmd.Context(), con, c, q, all, *output)
	})
}

// print prints one page, or all pages one after the other. It never holds all items, which may not fit into memory.
func (l list[T]) print(
	ctx context.Context, con *command.Console, c *client.Client, q client.ListQuery, all bool, output command.Format,
) error {
	shown := table[T]{l.header, l.row}
	if output == command.FormatWide {
		shown = *l.wide
	}
	header := [][]string{shown.header} // the header if it was not printed yet
	for {
		page, err := l.fetch(c, ctx, q)
		if err != nil {
			return err
		}
		switch output {
		case command.FormatJSON:
			return con.PrintJSON(page)
		case command.FormatJSONLines:
			for _, item := range page.Items {
				if err := con.PrintJSON(item); err != nil {
					return err
				}
			}
		default:
			rows := header
			for _, item := range page.Items {
				rows, header = append(rows, shown.row(item)), nil
			}
			if header == nil {
				err = con.PrintTable(rows)
			}
		}
		switch {
		case err != nil:
			return err
		case page.Next != nil && all:
			q.Cursor = *page.Next
			continue
		}
		if header != nil && (output == command.FormatText || output == command.FormatWide) {
			con.Infof("%s", con.Runnable(l.empty(q, page.Next)))
		}
		if page.LookedTo != nil && page.Next != nil {
			con.Infof("looked at %s created since %s; continue with --cursor %s", l.what, con.When(page.LookedTo),
				command.Quote(*page.Next))
			return nil
		}
		con.MoreResults(page.Next)
		return nil
	}
}

// empty returns the text for a list without items. The text differs if the server has not searched everything yet.
func (l list[T]) empty(q client.ListQuery, next *string) string {
	switch {
	case next != nil:
		return "no " + l.what + " match among those that were read"
	case q.Q != "" || q.Cursor != "":
		return "no " + l.what + " match"
	}
	return l.none
}
