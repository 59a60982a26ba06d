package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/entry"
)

// Bounds of what run show asks for and shows.
const (
	shownInputs   = 20
	shownAttempts = 50
	shownChildren = 50
)

// runDetails is the JSON output of run show: the fields of a run, and what belongs to it.
type runDetails struct {
	api.Run
	Input    []mailroom.Message `json:"input"`    // the first messages that the run was started for
	Attempts []attempt          `json:"attempts"` // the last attempts, oldest first
	Children []api.Run          `json:"children"` // the newest ones, newest first
	Worktree *entry.Tree        `json:"worktree"` // null: no attempt has succeeded in a worktree
	// Hidden is set if the token may see only the run, so that the other fields are missing.
	Hidden bool `json:"hidden"`
}

// attempt is the time from a claim of a run to its end or to the next wait.
type attempt struct {
	Attempt   int        `json:"attempt"`
	Worker    string     `json:"worker"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"` // null while it runs
	// Outcome is completed, failed, cancelled, waiting, retry, lease_lost or released, and "" while it
	// runs.
	Outcome string             `json:"outcome"`
	Error   *mailroom.RunError `json:"error"`
}

func runShowCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show RUN|THREAD",
		Short:   "Show a run with its message, attempts and child runs",
		Example: `  mailroom run show 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b`,
		Args:    cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		id, err := resolveRunOf(cmd.Context(), c, args[0], currentOrLatestRun)
		if err != nil {
			return err
		}
		d, err := fetchRun(cmd.Context(), c, id)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(d)
		}
		return printRun(con, d)
	})
}

func fetchRun(ctx context.Context, c *client.Client, id string) (d runDetails, err error) {
	d = runDetails{Input: []mailroom.Message{}, Attempts: []attempt{}, Children: []api.Run{}}
	if d.Run, err = c.Run(ctx, id); err != nil {
		return d, err
	}
	if err = fetchRest(ctx, c, &d); mailroom.CodeOf(err) == mailroom.CodeForbidden { // a token for one run
		d.Hidden = true
		return d, nil
	}
	return d, err
}

// fetchRest fills d with what the run's thread and other runs contain about the run.
func fetchRest(ctx context.Context, c *client.Client, d *runDetails) error {
	for _, id := range d.Messages[:min(len(d.Messages), shownInputs)] {
		m, err := c.Message(ctx, d.Thread, id)
		if mailroom.CodeOf(err) == mailroom.CodeNotFound {
			continue // older than the retention
		}
		if err != nil {
			return err
		}
		d.Input = append(d.Input, m)
	}
	var err error
	if d.Attempts, err = fetchAttempts(ctx, c, d.Run); err != nil {
		return err
	}
	made := client.EntriesQuery{Run: d.ID, Kinds: []string{entry.KindTree}}
	for e, err := range c.EachEntry(ctx, d.Thread, made) {
		if err != nil {
			return err
		}
		d.Worktree = entry.TreeOf(e)
	}
	children, err := c.Runs(ctx, client.ListQuery{Q: "parent:" + client.Quote(d.ID), Limit: shownChildren})
	d.Children = children.Items
	return err
}

// fetchAttempts reads the attempts from the log. Attempts whose entries are older than the retention are missing.
func fetchAttempts(ctx context.Context, c *client.Client, r api.Run) ([]attempt, error) {
	all := []attempt{}
	q := client.EntriesQuery{Run: r.ID, Kinds: []string{
		entry.KindStarted, entry.KindResumed, entry.KindRescheduled, entry.KindWaiting, entry.KindCompleted, entry.KindFailed,
		entry.KindCancelled,
	}}
	for e, err := range c.EachEntry(ctx, r.Thread, q) {
		if err != nil {
			return nil, err
		}
		if all, err = foldAttempt(all, e); err != nil {
			return nil, err
		}
		if len(all) > shownAttempts {
			all = slices.Delete(all, 0, 1)
		}
	}
	return all, nil
}

// foldAttempt updates the attempts of a run with the run's next entry.
func foldAttempt(all []attempt, e mailroom.Entry) ([]attempt, error) {
	if e.Kind == entry.KindStarted || e.Kind == entry.KindResumed {
		var b entry.RunStarted
		err := e.Decode(&b)
		return append(all, attempt{Attempt: e.Attempt, Worker: b.Worker, StartedAt: e.At}), err
	}
	last := len(all) - 1
	if last < 0 || all[last].EndedAt != nil {
		return all, nil // cancelled between two attempts, for example
	}
	a := &all[last]
	a.EndedAt = &e.At
	switch e.Kind {
	case entry.KindRescheduled:
		var b entry.RunRescheduled
		err := e.Decode(&b)
		a.Outcome, a.Error = b.Reason, b.Error
		return all, err
	case entry.KindFailed:
		var b entry.RunFailed
		err := e.Decode(&b)
		a.Outcome, a.Error = string(mailroom.StatusFailed), &b.Error
		return all, err
	}
	_, a.Outcome, _ = strings.Cut(e.Kind, ".")
	return all, nil
}

// crashes formats how many claims of a run were lost, and how many let it fail, such as "1 of 3".
func crashes(r api.Run) string {
	limit := mailroom.MaxCrashes
	if r.MaxCrashes != nil {
		limit = *r.MaxCrashes
	}
	return fmt.Sprintf("%d of %d", r.Crashes, limit)
}

// retriesOf formats what differs from the defaults in how a run is retried, such as "first=10s,factor=2".
func retriesOf(p *api.RetryPolicy) string {
	parsed, err := p.Read("retry")
	if err != nil {
		return "not readable; the server may be newer"
	}
	return parsed.String()
}

func printRun(con *command.Console, d runDetails) error {
	r := d.Run
	rows := [][]string{{"run", r.ID}, {"thread", r.Thread}, {"agent", agentLabel(r.Agent, r.AgentVersion)},
		{"status", status(r)}}
	for _, m := range d.Input {
		rows = append(rows, []string{"message", command.Shorten(m.Text, 200)})
	}
	if more := len(r.Messages) - shownInputs; more > 0 {
		rows = append(rows, []string{"", fmt.Sprintf("and %d more", more)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		rows = append(rows, []string{"metadata", name + "=" + r.Metadata[name]})
	}
	if d.Worktree != nil {
		rows = append(rows, []string{"branch", d.Worktree.Branch + ", " + d.Worktree.Summary()})
	}
	if r.LastError != nil {
		rows = append(rows, []string{"last error", fmt.Sprintf("%s: %s", r.LastError.Class, r.LastError.Message)},
			[]string{"next try", con.When(&r.AvailableAt)})
	}
	if r.LimitKey != nil {
		rows = append(rows, []string{"concurrency key", *r.LimitKey})
	}
	if r.Deadline != nil {
		rows = append(rows, []string{"deadline", con.When(r.Deadline)})
	}
	if r.Budget != nil {
		rows = append(rows, budgetRows(r.Budget)...)
	}
	if r.Retry != nil {
		rows = append(rows, []string{"retries", retriesOf(r.Retry)})
	}
	rows = append(rows, [][]string{
		{"attempt", fmt.Sprint(r.Attempt)}, {"failures", fmt.Sprintf("%d of %d", r.Failures, r.MaxAttempts)},
		{"crashes", crashes(r)},
		{"worker", orDash(r.Worker)}, {"key", orDash(r.Key)}, {"parent", orDash(r.Parent)}, {"via", r.Origin.Via},
		{"steps", fmt.Sprint(r.Steps)}, {"progress", percent(r.Progress)}, {"waits for", waitsFor(con, r)},
		{"usage", usage(r.Usage)},
		{"created", con.When(&r.CreatedAt)}, {"started", con.When(r.StartedAt)}, {"finished", con.When(r.FinishedAt)},
		{"duration", duration(r)}, {"detail", detail(con, r)}, {"error group", orDash(r.ErrorGroup)},
	}...)
	if err := con.PrintTable(rows); err != nil {
		return err
	}
	if d.Hidden {
		con.Infof("this token may see the run only: its message, attempts and child runs are not shown")
	}
	if len(d.Attempts) > 0 {
		rows := [][]string{{"ATTEMPT", "STARTED", "TOOK", "OUTCOME"}}
		for _, a := range d.Attempts {
			rows = append(rows, []string{fmt.Sprint(a.Attempt), con.When(&a.StartedAt), a.took(), a.outcome()})
		}
		if err := printSection(con, rows); err != nil {
			return err
		}
	}
	if len(d.Children) == 0 {
		return nil
	}
	rows = [][]string{{"CHILD", "THREAD", "AGENT", "STATUS", "DETAIL"}}
	for _, r := range d.Children {
		rows = append(rows, []string{r.ID, r.Thread, r.Agent, status(r), command.Shorten(detail(con, r), 60)})
	}
	return printSection(con, rows)
}

// printSection prints a further table below another one.
func printSection(con *command.Console, rows [][]string) error {
	if err := con.Printf("\n"); err != nil {
		return err
	}
	return con.PrintTable(rows)
}

func (a attempt) took() string {
	if a.EndedAt == nil {
		return "-"
	}
	return a.EndedAt.Sub(a.StartedAt).Round(time.Millisecond).String()
}

func (a attempt) outcome() string {
	out := a.Outcome
	switch out {
	case "":
		return "running on " + a.Worker
	case entry.RescheduledLost:
		out = "lost its worker"
	case entry.RescheduledReleased:
		out = "released by its worker"
	case entry.RescheduledGaveWay:
		out = "put back: another run comes first"
	}
	if a.Error != nil {
		out += fmt.Sprintf(": %s: %s", a.Error.Class, a.Error.Message)
	}
	return out
}

// duration formats how long a run took since its first start, and how long it waited for that.
func duration(r api.Run) string {
	if r.StartedAt == nil {
		return "-"
	}
	queued := r.StartedAt.Sub(r.CreatedAt).Round(time.Millisecond)
	if r.FinishedAt == nil {
		return fmt.Sprintf("started after %s in the queue", queued)
	}
	return fmt.Sprintf("%s, after %s in the queue", took(r), queued)
}

// budgetRows formats the budget of a run, and what became of it.
func budgetRows(b *api.RunBudget) [][]string {
	limit, err := b.Limit.Read("")
	if err != nil {
		return nil // all of it went back to the run that lent it
	}
	text := func(a api.Amounts) string {
		of := limit.Of(mailroom.Amounts{MicroUSD: mailroom.Dollars(a.USD).MicroUSD, Tokens: a.Tokens, Turns: a.Turns})
		return of.String()
	}
	rows := [][]string{{"budget", limit.String()}, {"spent", text(b.Spent)}}
	if b.Lent != (api.Amounts{}) {
		rows = append(rows, []string{"lent", text(b.Lent)})
	}
	left := *b.Left.Read()
	left.Until = time.Time{}
	left.Amounts = left.Positive()
	if b.Unpriced {
		rows = append(rows, []string{"not priced", "a model without a price was used: see `mailroom prices`"})
	}
	return append(rows, []string{"left", left.String()})
}
