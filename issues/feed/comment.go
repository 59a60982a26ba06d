package feed

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/display"
	"mailroom/issues/tracker"
)

// Limits of generated texts, in bytes.
const (
	maxMessage = 512 << 10 // an issue as sent to its agent
	maxComment = 64 << 10
	maxReason  = 200
	maxError   = 4 << 10
	maxShown   = 2000 // arguments of a question
)

// issueText returns an issue as sent to its agent.
func issueText(t *tracker.Tracker, it *tracker.Issue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nIssue %s, %s, priority %d", oneLine(it.Title), it.ID, cmp.Or(it.Type, "task"), it.Priority)
	if len(it.Labels) > 0 {
		fmt.Fprintf(&b, ", labelled %s", strings.Join(it.Labels, ", "))
	}
	fmt.Fprintf(&b,
		". It is claimed for you, %s. Your final reply becomes a comment and closes the issue; do not close it yourself. `bd show %s` shows its current state.\n", it.Assignee, it.ID)
	for _, part := range []struct{ title, text string }{
		{"", it.Description}, {"Design", it.Design}, {"Acceptance criteria", it.Acceptance}, {"Notes", it.Notes},
	} {
		if strings.TrimSpace(part.text) == "" {
			continue
		}
		if part.title != "" {
			fmt.Fprintf(&b, "\n## %s\n", part.title)
		}
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(part.text))
	}
	if len(it.Dependencies) > 0 {
		b.WriteString("\n## Depends on\n\n")
	}
	for _, d := range it.Dependencies {
		fmt.Fprintf(&b, "- %s (%s)", d.On, d.Type)
		if on, err := t.Find(d.On); err == nil && on.ID == d.On {
			fmt.Fprintf(&b, ": %s, %s", oneLine(on.Title), on.Status)
		}
		b.WriteByte('\n')
	}
	if len(it.Comments) > 0 {
		b.WriteString("\n## Comments\n")
	}
	for _, c := range it.Comments {
		fmt.Fprintf(&b, "\n%s, %s:\n\n%s\n", cmp.Or(c.Author, "unknown"), c.CreatedAt.UTC().Format("2006-01-02 15:04"),
			strings.TrimSpace(c.Text))
	}
	return truncate(b.String(), maxMessage, "\n… (truncated; see bd show "+it.ID+")\n")
}

// deliveryComment returns the author and the text of the comment for a delivery. The text is "" if the delivery needs
// no comment.
func (w *Watcher) deliveryComment(d channel.Delivery) (author, text string) {
	switch {
	case d.Ticket != nil:
		return systemAuthor, QuestionText(w.options.Command, d)
	case d.Ended:
		return systemAuthor, ""
	}
	return d.Run.Agent, CommentText(d.Text, d.Run, maxComment)
}

// replyText returns the reply of a run as a comment.
func replyText(run *mailroom.Run) string {
	if run.Reply == nil {
		return ""
	}
	return CommentText(*run.Reply, run, maxComment)
}

// CommentText returns a text of a run as a comment of at most most bytes.
func CommentText(text string, run *mailroom.Run, most int) string {
	return truncate(strings.TrimSpace(text), most, "\n… (truncated; full text in thread "+run.Thread+")")
}

// failureText returns the comment for a run that failed or was cancelled.
func (w *Watcher) failureText(it *tracker.Issue, run *mailroom.Run) string {
	return FailureText(run) + fmt.Sprintf(
		"\n\nTo resume: %s run retry %s\nTo start over, after adding details if needed: bd update %s --status open",
		w.options.Command, run.ID, it.ID)
}

// FailureText says how a run failed or was cancelled, as the beginning of a comment.
func FailureText(run *mailroom.Run) string {
	var b strings.Builder
	if run.Status == mailroom.StatusFailed {
		fmt.Fprintf(&b, "%s failed in attempt %d", run.Agent, run.Attempt)
		if run.Error != nil {
			fmt.Fprintf(&b, " (%s): %s", run.Error.Class, truncate(strings.TrimSpace(run.Error.Message), maxError, "…"))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "The run of %s was %s", run.Agent, cmp.Or(run.Reason, mailroom.ReasonCancelled))
	if run.StopBy != "" {
		fmt.Fprintf(&b, " by %s", run.StopBy)
	}
	fmt.Fprintf(&b, " in attempt %d", run.Attempt)
	return b.String()
}

// QuestionText returns the comment for the ticket of a delivery, or "" if no person decides it. command is how a person
// calls this program.
func QuestionText(command string, d channel.Delivery) string {
	k := d.Ticket
	if k.Kind != mailroom.TicketApproval && k.Kind != mailroom.TicketInput {
		return ""
	}
	asks := truncate(strings.TrimSpace(k.Prompt), maxComment/2, "… (truncated)")
	if !strings.HasPrefix(asks, d.Run.Agent+" asks ") { // as a program does that asks for a permission
		asks = d.Run.Agent + " asks: " + asks
	}
	lines := []string{asks}
	if k.Action != "" {
		shown := truncate(display.JSON(string(bytes.ToValidUTF8(k.Arguments, nil))), maxShown, "… (truncated)")
		lines = append(lines, strings.TrimSpace(k.Action+" "+shown))
	}
	lines = append(lines, "")
	if k.Kind == mailroom.TicketInput {
		lines = append(lines, fmt.Sprintf("To answer: %s answer %s TEXT", command, k.ID))
	} else {
		lines = append(lines, fmt.Sprintf("To allow it: %s approve %s", command, k.ID),
			fmt.Sprintf("To refuse it: %s deny %s", command, k.ID))
	}
	return strings.Join(lines, "\n")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// truncate shortens a text to at most most bytes, including the suffix end.
func truncate(text string, most int, end string) string {
	if len(text) <= most {
		return text
	}
	at := most - len(end)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + end
}
