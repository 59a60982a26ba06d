package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
)

// agentOrders returns the orders of the list of agents.
func agentOrders() []string {
	return []string{"name", "failed", "cost", "delay", "last", "ended", "running", "queued", "waiting"}
}

// spans returns the names of the times whose ended runs can be summed up.
func spans() []string { return []string{"day", "week", "month"} }

// spanQuery returns the query of a span before now, in whole periods that a server adds up.
func spanQuery(span string, now time.Time) (q client.SeriesQuery, err error) {
	if err := checkWord("--range", span, spans()); err != nil {
		return q, err
	}
	step, periods := time.Hour, 24
	q.Step = "hour"
	switch span {
	case "week":
		step, periods, q.Step = 24*time.Hour, 7, "day"
	case "month":
		step, periods, q.Step = 24*time.Hour, 30, "day"
	}
	q.To = now.UTC()
	q.From = q.To.Truncate(step).Add(-time.Duration(periods-1) * step)
	return q, nil
}

// checkWord refuses a value of a flag that words do not have.
func checkWord(flag, value string, words []string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeInvalid, "unknown %s %q; use one of %s", flag, value, strings.Join(words, ", "))
}

// completeWords makes a shell complete the value of a flag.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// readEnded returns the sums of the runs that ended in a span, or nil if the token may not see them or the server has
// none, because its version is older.
func readEnded(ctx context.Context, c *client.Client, span string) (*api.Sums, error) {
	q, err := spanQuery(span, time.Now())
	if err != nil {
		return nil, err
	}
	sums, err := c.Sums().Ended(ctx, q, "")
	switch mailroom.CodeOf(err) {
	case mailroom.CodeForbidden, mailroom.CodeNotFound:
		return nil, nil
	}
	return &sums, err
}

// endedOf returns the sums by agent.
func endedOf(ended *api.Sums) map[string]api.SumsItem {
	of := map[string]api.SumsItem{}
	if ended != nil {
		for _, item := range ended.Items {
			of[item.Name] = item
		}
	}
	return of
}

func endedRuns(s api.SeriesPoint) int64 { return s.Completed + s.Failed + s.Cancelled }

// ratio returns the part of a whole, 0 of nothing.
func ratio(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

// sortAgents sorts agents, the greatest first and equal ones by name. Agents whose number is unknown come last.
func sortAgents(agents []api.Agent, ended *api.Sums, by string) error {
	of := endedOf(ended)
	value := func(_ api.Agent, e api.SumsItem) float64 { return sumFor(by, e) }
	switch by {
	case "name":
		return nil // as the server sends them
	case "running":
		value = func(a api.Agent, _ api.SumsItem) float64 { return float64(a.Running) }
	case "queued":
		value = func(a api.Agent, _ api.SumsItem) float64 { return float64(a.Queued) }
	case "waiting":
		value = func(a api.Agent, _ api.SumsItem) float64 { return float64(a.Waiting) }
	}
	if ended == nil && !slices.Contains([]string{"running", "queued", "waiting"}, by) {
		return mailroom.Errorf(mailroom.CodeForbidden,
			"--sort %s needs a token with the scope metrics, and a server of this version", by)
	}
	slices.SortStableFunc(agents, func(a, b api.Agent) int {
		return cmp.Compare(value(b, of[b.Name]), value(a, of[a.Name]))
	})
	return nil
}

// endedColumns returns the columns of the ended runs of an agent, "-" if it ran nothing in the span.
func endedColumns(con *command.Console, e api.SumsItem) []string {
	out := []string{"-", "-", "-", "-", con.When(e.LastAt)}
	s := e.Sums
	if n := endedRuns(s); n > 0 {
		out[0], out[1] = fmt.Sprint(n), fmt.Sprintf("%.3g%%", 100*ratio(s.Failed, n))
		out[2] = display.Dollars(s.CostUSD)
	}
	if s.Started > 0 {
		out[3] = time.Duration(ratio(s.StartDelayMS, s.Started) * float64(time.Millisecond)).Round(time.Millisecond).String()
	}
	return out
}
