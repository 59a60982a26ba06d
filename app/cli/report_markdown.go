package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/display"
)

// markdownMarks are the characters that Markdown, or HTML in it, gives a meaning.
const markdownMarks = "\\`*_{}[]()<>#+-.!|~&@:"

// plainMarkdown returns a text that Markdown shows unchanged, on one line, without a link, a mention or HTML.
func plainMarkdown(text string) string {
	var b strings.Builder
	word := false // the character before is a letter or a digit
	for _, r := range display.Line(text) {
		switch {
		case r == '-' && word: // only at the begin of a line it is more than text
			b.WriteByte('-')
		case r == '<' || r == '>' || r == '&' || r == '@' || r == ':':
			fmt.Fprintf(&b, "&#%d;", r)
		case strings.ContainsRune(markdownMarks, r):
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteRune(r)
		}
		word = unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return b.String()
}

// markdownTime is how Markdown shows a time.
const markdownTime = "2006-01-02 15:04 MST"

// reportMarkdown returns a report as Markdown.
func reportMarkdown(r *api.Report) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		for i, arg := range args {
			switch arg := arg.(type) {
			case string:
				args[i] = plainMarkdown(arg)
			case time.Time:
				args[i] = arg.Format(markdownTime)
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	line("## What agents did\n")
	line("From %s to %s: %s. Spent %s.", r.Since, r.Until, runsText(&r.Runs), spentText(&r.Spent, &r.OpenSpent))
	if r.LookedTo != nil {
		line("\nToo many runs for one report: those that were submitted before %s are left out.", *r.LookedTo)
	}
	if len(r.Questions.Items) > 0 {
		line("\n### Questions: %d open, %d decided\n", r.Questions.Open, r.Questions.Decided)
	}
	for i := range r.Questions.Items {
		k := &r.Questions.Items[i]
		outcome := "open"
		if k.State != mailroom.TicketOpen {
			outcome = outcomeText(k)
		}
		line("- %s in %s: %s (%s)", k.Agent, k.Thread, k.Text, outcome)
	}
	if r.Questions.More > 0 {
		line("- and %d more", r.Questions.More)
	}
	if len(r.Branches) > 0 {
		line("\n### Branches to review: %d\n", len(r.Branches)+r.MoreBranches)
	}
	for i := range r.Branches {
		b.WriteString(branchMarkdown(r.Branches[i]))
	}
	if r.MoreBranches > 0 {
		line("- and %d more", r.MoreBranches)
	}
	if r.MoreThreads > 0 {
		line("\nToo many threads: the branches of %d others were not looked up.", r.MoreThreads)
	}
	if len(r.Agents) > 0 {
		b.WriteString("\n### Agents\n\n| Agent | Done | Failed | Cancelled | Open | Spent | Last |\n")
		b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	}
	for i := range r.Agents {
		a := &r.Agents[i]
		last := ""
		if len(a.Items) > 0 {
			last = statusText(a.Items[0].Status) + ": " + a.Items[0].Text
		}
		if a.Paused != nil {
			last = "paused by " + a.Paused.By + ": " + a.Paused.Reason
		}
		line("| %s | %d | %d | %d | %d | %s | %s |", a.Agent, a.Runs.Completed, a.Runs.Failed, a.Runs.Cancelled,
			a.Runs.Waiting+a.Runs.Running+a.Runs.Queued, display.Cost(a.Spent.CostUSD, a.Spent.ComputedUSD), last)
	}
	if r.MoreAgents > 0 {
		line("\nAnd %d more agents.", r.MoreAgents)
	}
	for i := range r.Schedules {
		if i == 0 {
			b.WriteString("\n### Schedules\n\n")
		}
		line("- %s: %s", r.Schedules[i].Name, scheduleText(&r.Schedules[i]))
	}
	return b.String()
}

// branchMarkdown returns the line of a branch, with a link to its pull request.
func branchMarkdown(t api.ReportBranch) string {
	link := t.PullRequest
	t.PullRequest, t.Number = "", 0
	text := branchText(&t)
	if t.State != "" {
		text = t.State + ", " + text
	}
	if t.Unread != "" {
		text += "; a later look failed: " + t.Unread
	}
	branch := plainMarkdown(t.Branch)
	if link != "" {
		branch = fmt.Sprintf("[%s](<%s>)", branch, link)
	}
	return fmt.Sprintf("- %s of %s in %s: %s\n", branch, plainMarkdown(t.Agent), plainMarkdown(t.Thread),
		plainMarkdown(text))
}
