package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
)

func reportCommand(con *command.Console) *cobra.Command {
	var since, until, agent string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say what agents did, asked and spent in a night",
		Long: `Say what agents did in a period, by default in the last 12 hours: the runs that ended, what they
spent, what waits for a decision, and the branches and pull requests that wait for a review.`,
		Example: `  mailroom report                     # the last 12 hours
  mailroom report --since 22:00
  mailroom report --since yesterday --until today
  mailroom report --since 2026-01-02T22:00:00Z --agent coder --markdown`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&since, "since", "12h", "begin: 22:00, a duration such as 12h, today, yesterday, or a time")
	cmd.Flags().StringVar(&until, "until", "", "end, as --since; default: now")
	cmd.Flags().StringVar(&agent, "agent", "", "only what this agent did")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print Markdown, for a message or an issue")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		now := time.Now()
		q := client.ReportQuery{Agent: agent}
		var err error
		if until != "" {
			if q.Until, err = reportTime("--until", until, now); err != nil {
				return err
			}
		}
		if q.Since, err = reportTime("--since", since, now); err != nil {
			return err
		}
		r, err := c.Sums().Report(cmd.Context(), q)
		switch {
		case err != nil:
			return err
		case *output == command.FormatJSON:
			return con.PrintJSON(r)
		case markdown:
			return con.Printf("%s", reportMarkdown(&r))
		}
		return con.Printf("%s", reportText(con, &r))
	})
}

// reportTime parses a time before now: a time of the day, the last one that has passed; a duration; a day; or a time.
// Times of the day and days are times of the clock on the wall, also when it is changed in between.
func reportTime(flag, text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	if clock, ok := alert.ParseClock(text); ok {
		at := time.Date(now.Year(), now.Month(), now.Day(), 0, int(clock), 0, 0, now.Location())
		if at.After(now) {
			at = time.Date(now.Year(), now.Month(), now.Day()-1, 0, int(clock), 0, 0, now.Location())
		}
		return at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, nil
	}
	return time.Time{}, mailroom.Errorf(mailroom.CodeInvalid,
		"unknown %s %q; use a time such as 22:00, a duration such as 12h, today, yesterday, or 2026-01-02T22:00:00Z",
		flag, text)
}

// reportWriter writes lines of a report, each safe for a terminal.
type reportWriter struct{ strings.Builder }

// line writes a line, behind an empty one if the format begins with a line break. Its arguments may be texts of agents.
func (w *reportWriter) line(format string, args ...any) {
	if rest, ok := strings.CutPrefix(format, "\n"); ok {
		w.WriteByte('\n')
		format = rest
	}
	w.WriteString(strings.TrimRight(display.Line(fmt.Sprintf(format, args...)), " "))
	w.WriteByte('\n')
}

// reportText returns a report for a terminal.
func reportText(con *command.Console, r *api.Report) string {
	w := &reportWriter{}
	w.line("From %s to %s: %s", con.When(&r.Since), con.When(&r.Until), runsText(&r.Runs))
	w.line("spent %s", spentText(&r.Spent, &r.OpenSpent))
	if r.LookedTo != nil {
		w.line("too many runs for one report: those that were submitted before %s are left out", con.When(r.LookedTo))
	}
	if len(r.Agents)+len(r.Questions.Items)+len(r.Branches)+len(r.Schedules) == 0 {
		w.line("no agent did anything in this time")
		return w.String()
	}
	questionsText(w, con, &r.Questions)
	branchesText(w, con, r)
	agentsText(w, con, r)
	schedulesText(w, r)
	return w.String()
}

// runsText counts runs in words, without kinds that have no run.
func runsText(n *api.ReportRuns) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{n.Completed, "done"}, {n.Failed, "failed"}, {n.Cancelled, "cancelled"}, {n.Waiting, "waiting"},
		{n.Running, "running"}, {n.Queued, "queued"}, {n.Budget, "ended by a spent budget"},
	} {
		if part.n > 0 || part.what == "done" || part.what == "failed" {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

func spentText(ended, open *api.ReportSpent) string {
	text := fmt.Sprintf("%s, %d tokens read, %d written", display.Cost(ended.CostUSD, ended.ComputedUSD),
		ended.InputTokens, ended.OutputTokens)
	if open.CostUSD > 0 || open.InputTokens > 0 {
		text += fmt.Sprintf("; the open runs %s so far", display.Cost(open.CostUSD, open.ComputedUSD))
	}
	return text
}

func questionsText(w *reportWriter, con *command.Console, q *api.ReportQuestions) {
	if len(q.Items) == 0 {
		return
	}
	w.line("\nQuestions: %d open, %d decided", q.Open, q.Decided)
	for _, k := range q.Items {
		if k.State == mailroom.TicketOpen {
			w.line("  %s in %s asks since %s: %s", k.Agent, k.Thread, con.When(k.OpenedAt), asked(k))
			w.line("    decide: mailroom %s %s", decideWord(k.Kind), command.Quote(k.Ticket))
			continue
		}
		w.line("  %s in %s asked: %s", k.Agent, k.Thread, asked(k))
		w.line("    %s", outcomeText(&k))
	}
	if q.More > 0 {
		w.line("  and %d more: mailroom tickets", q.More)
	}
}

// asked returns what was asked, after the name of its agent. Questions of programs begin with "NAME asks to use".
func asked(k api.ReportQuestion) string { return strings.TrimPrefix(k.Text, k.Agent+" asks ") }

func decideWord(kind mailroom.TicketKind) string {
	if kind == mailroom.TicketApproval {
		return "approve"
	}
	return "answer"
}

// outcomeText says what became of a question.
func outcomeText(k *api.ReportQuestion) string {
	if k.State != mailroom.TicketDecided {
		return string(k.State)
	}
	verb := map[mailroom.Verdict]string{mailroom.VerdictApprove: "approved", mailroom.VerdictDeny: "denied"}[k.Decision]
	text := cmp.Or(verb, "answered") + " by " + k.DecidedBy
	if k.Reason != "" {
		text += ": " + k.Reason
	}
	return text
}

func branchesText(w *reportWriter, con *command.Console, r *api.Report) {
	if len(r.Branches) == 0 && r.MoreThreads == 0 {
		return
	}
	w.line("\nBranches to review: %d", len(r.Branches)+r.MoreBranches)
	for i := range r.Branches {
		b := &r.Branches[i]
		w.line("  %s of %s in %s: %s%s", b.Branch, b.Agent, b.Thread, branchText(b), staleText(con, b))
		if b.IsLocal() && b.Commits > 0 {
			w.line("    patch: mailroom worktrees patch %s", command.Quote(b.Thread))
		}
		if b.Unopened != "" {
			w.line("    try now: mailroom publish %s", command.Quote(b.Thread))
		}
	}
	if r.MoreBranches > 0 {
		w.line("  and %d more", r.MoreBranches)
	}
	if r.MoreThreads > 0 {
		w.line("  too many threads: the branches of %d others were not looked up", r.MoreThreads)
	}
}

// staleText says how old the state of a pull request is, if a later look at it failed.
func staleText(con *command.Console, b *api.ReportBranch) string {
	switch {
	case b.Unread == "":
		return ""
	case b.StateAt == nil:
		return "; its state is unknown: " + b.Unread
	}
	return fmt.Sprintf("; %s as of %s, a later look failed: %s", b.State, con.When(b.StateAt), b.Unread)
}

// branchText says what a branch has, and what has not worked.
func branchText(b *api.ReportBranch) string {
	text := fmt.Sprintf("%d commits", b.Commits)
	if b.Commits == 1 {
		text = "1 commit"
	}
	switch {
	case b.Number > 0:
		text += fmt.Sprintf(", %s #%d %s", pullWord(b), b.Number, b.PullRequest)
	case b.PullRequest != "":
		text += ", " + pullWord(b) + " " + b.PullRequest
	case b.Pushed != "":
		text += ", pushed to " + b.Pushed
	case b.Commits > 0:
		text += ", not pushed"
	}
	if b.Trouble != "" {
		text += "; " + b.Trouble
	}
	unopened := "no pull request"
	if b.Again {
		unopened = "no pull request yet, the server tries again"
	}
	for _, note := range []struct{ what, why string }{
		{"the push failed", b.Unpushed}, {unopened, b.Unopened}, {"changes are left in the worktree", b.Left},
	} {
		if note.why != "" {
			text += "; " + note.what + ": " + note.why
		}
	}
	return text
}

// pullWord is "pull request", behind its state.
func pullWord(b *api.ReportBranch) string { return strings.TrimSpace(b.State + " pull request") }

func agentsText(w *reportWriter, con *command.Console, r *api.Report) {
	for i := range r.Agents {
		a := &r.Agents[i]
		text := runsText(&a.Runs)
		if a.Spent != (api.ReportSpent{}) || a.OpenSpent != (api.ReportSpent{}) {
			text += "; " + spentText(&a.Spent, &a.OpenSpent)
		}
		w.line("\n%s: %s", a.Agent, text)
		if p := a.Paused; p != nil {
			w.line("  paused by %s since %s: %s", p.By, con.When(&p.At), cmp.Or(p.Reason, "no reason"))
		}
		for _, run := range a.Items {
			w.line("  %-9s %s in %s  %s", statusText(run.Status), run.ID, run.Thread, run.Text)
		}
		if a.More > 0 {
			w.line("  and %d more: mailroom runs --filter %s", a.More, command.Quote(reportFilter(r, a.Agent)))
		}
	}
	if r.MoreAgents > 0 {
		w.line("and %d more agents: mailroom agents", r.MoreAgents)
	}
}

// statusText is the word for a status in a report.
func statusText(s mailroom.Status) string {
	if s == mailroom.StatusCompleted {
		return "done"
	}
	return string(s)
}

// reportFilter is the filter of the runs of an agent that ended in the period.
func reportFilter(r *api.Report, agent string) string {
	return fmt.Sprintf("agent:%s finished:%s..%s", client.Quote(agent), r.Since.Format(time.RFC3339),
		r.Until.Format(time.RFC3339))
}

func schedulesText(w *reportWriter, r *api.Report) {
	for i := range r.Schedules {
		s := &r.Schedules[i]
		if i == 0 {
			w.line("\nSchedules")
		}
		w.line("  %s: %s", s.Name, scheduleText(s))
	}
	if r.MoreSchedules > 0 {
		w.line("  and %d more: mailroom schedule list", r.MoreSchedules)
	}
}

func scheduleText(s *api.ReportSchedule) string {
	text := fmt.Sprintf("%d sent, %d failed, %d skipped", s.Sent, s.Failed, s.Skipped)
	if s.More {
		text = "at least " + text
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	if s.Paused != nil {
		text += "; paused by " + s.Paused.By
		if s.Paused.Note != "" {
			text += ": " + s.Paused.Note
		}
	}
	return text
}
