package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/internal/display"
)

// Bounds of one completion. The user waits for the shell to complete.
const (
	completeTimeout = 2 * time.Second
	completeItems   = 100
)

// source asks the server for the completions of one argument or flag.
type source func(ctx context.Context, c *client.Client) ([]cobra.Completion, error)

// AddCompletions makes a shell complete arguments and flags of the commands below root: with names and ids that the
// server knows, or with fixed words. If no server answers, the shell completes only the fixed words.
func AddCompletions(con *command.Console, root *cobra.Command) {
	first := map[string][]source{ // by command: the sources of its first argument
		"attach": {threadNames, runIDs("")}, "interrupt": {threadNames}, "threads show": {threadNames},
		"threads delete": {threadNames},
		"run show":       {runIDs("")}, "run retry": {runIDs("-status:completed")},
		"run cancel": {runIDs("-status:completed -status:failed -status:cancelled")},
		"approve":    {ticketIDs}, "deny": {ticketIDs}, "answer": {ticketIDs},
		"channels resume": {channelNames}, "pair revoke": {channelNames}, "token revoke": {tokenNames},
		"token quota": {tokenNames}, "agent pause": {agentsWithKind}, "agent drain": {agentsWithKind},
		"agent resume": {pausedAgents}, "notify test": {targetNames}, "notify pause": {targetNames},
		"notify resume": {targetNames}, "threads drop-session": {threadNames},
	}
	flags := map[string]cobra.CompletionFunc{
		"agent":  completeFrom(con, agentsWithKind),
		"thread": completeFrom(con, threadNames),
		"notify": completeFrom(con, targetNames),
		"scope":  fixed(auth.Permissions()...),
		"mode": fixed(mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeLatest,
			mailroom.ModeCollect, mailroom.ModeReject),
	}
	_ = root.RegisterFlagCompletionFunc("context", completeContexts(con)) // fails as below
	addCompletions(root, func(cmd *cobra.Command) {
		name, _ := strings.CutPrefix(cmd.CommandPath(), root.Name()+" ")
		if sources := first[name]; sources != nil {
			cmd.ValidArgsFunction = completeFrom(con, sources...)
		}
		if known := filterTerms(name); known != nil {
			_ = cmd.RegisterFlagCompletionFunc("filter", completeFilter(known)) // fails as below
		}
		for flag, complete := range flags {
			// LocalFlags would merge the flags of all commands, at each start of the program.
			if cmd.Flags().Lookup(flag) != nil || cmd.PersistentFlags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails only for an unknown flag or a second function
			}
		}
	})
}

// addCompletions calls add for all commands below cmd.
func addCompletions(cmd *cobra.Command, add func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		add(sub)
		addCompletions(sub, add)
	}
}

// fixed completes with words that need no server.
func fixed[S ~string](words ...S) cobra.CompletionFunc {
	all := make([]cobra.Completion, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

// completeFrom completes a flag or a first argument with the completions of all sources.
func completeFrom(con *command.Console, sources ...source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		c, err := connectQuietly(con)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		for _, ask := range sources {
			items, err := ask(ctx, c)
			if err != nil {
				continue // a shell has no place for it, and another source may answer
			}
			for _, item := range items {
				if strings.HasPrefix(item, begun) {
					found = append(found, item)
				}
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// described returns a completion with a description of one line.
func described(value, description string) cobra.Completion {
	return cobra.CompletionWithDesc(value, command.Shorten(display.Line(description), 60))
}

func threadNames(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	page, err := c.Threads(ctx, client.ListQuery{Limit: completeItems})
	return describe(page.Items, err,
		func(t api.Thread) (string, string) { return t.ID, t.Status + " thread of " + t.Agent })
}

func runIDs(filter string) source {
	return func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		page, err := c.Runs(ctx, client.ListQuery{Q: filter, Limit: completeItems})
		return describe(page.Items, err, func(r api.Run) (string, string) {
			return r.ID, string(r.Status) + " run of " + r.Agent + " in " + r.Thread
		})
	}
}

func ticketIDs(ctx context.Context, c *client.Client) (all []cobra.Completion, err error) {
	page, err := c.Tickets(ctx, client.ListQuery{Q: "state:open", Limit: completeItems})
	for _, k := range page.Items {
		if k.Kind == mailroom.TicketApproval || k.Kind == mailroom.TicketInput {
			all = append(all, described(k.ID, ticketSummary(k)), described(k.Thread, "thread: "+ticketSummary(k)))
		}
	}
	return all, err
}

func agentsWithKind(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	agents, err := c.Agents(ctx)
	return describe(agents, err, func(a api.Agent) (string, string) { return a.Name, orDash(a.Kind) })
}

func pausedAgents(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	agents, err := c.Agents(ctx)
	agents = slices.DeleteFunc(agents, func(a api.Agent) bool { return a.Paused == nil })
	return describe(agents, err, func(a api.Agent) (string, string) { return a.Name, "paused: " + a.Paused.Reason })
}

func targetNames(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	alerts, err := c.Accounts().Alerts(ctx)
	return describe(alerts.Targets, err, func(t api.Target) (string, string) { return t.Name, t.Kind })
}

func channelNames(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	channels, err := c.Channels(ctx)
	return describe(channels, err, func(ch api.Channel) (string, string) { return ch.Name, ch.State + " " + ch.Kind })
}

func tokenNames(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
	tokens, err := c.Accounts().Tokens(ctx)
	return describe(tokens, err, func(t api.Token) (string, string) { return t.Name, joinScopes(t.Scopes) })
}

// describe returns the completions of a whole list.
func describe[T any](items []T, err error, of func(T) (value, description string)) (all []cobra.Completion, _ error) {
	for _, item := range items {
		all = append(all, described(of(item)))
	}
	return all, err
}
