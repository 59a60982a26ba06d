package tracker

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
	issues "mailroom/tracker"
)

// Bounds of what is written, in bytes.
const (
	maxMessage = 512 << 10 // of an issue as its agent reads it
	maxComment = 64 << 10
	maxReason  = 200
	maxError   = 4 << 10
	maxShown   = 2000 // of the arguments of a question
)

// issueText is an issue as its agent reads it.
func issueText(t *issues.Tracker, it *issues.Issue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nIssue %s, %s, priority %d", oneLine(it.Title), it.ID, cmp.Or(it.Type, "task"), it.Priority)
	if len(it.Labels) > 0 {
		fmt.Fprintf(&b, ", labelled %s", strings.Join(it.Labels, ", "))
	}
	fmt.Fprintf(&b, ". It is claimed for you, %s. What you say last becomes a comment and closes it, so you need not. `bd show %s` shows it as it is now.\n", it.Assignee, it.ID)
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
		fmt.Fprintf(&b, "\n%s, %s:\n\n%s\n", cmp.Or(c.Author, "somebody"), c.CreatedAt.UTC().Format("2006-01-02 15:04"), strings.TrimSpace(c.Text))
	}
	return truncate(b.String(), maxMessage, "\n… (the rest is cut; bd show "+it.ID+" has it)\n")
}

// deliveryComment are whose comment a delivery is, and what it says; "" if nothing.
func (w *Watcher) deliveryComment(d channel.Delivery) (author, text string) {
	switch {
	case d.Ticket != nil:
		return systemAuthor, w.questionText(d)
	case d.Ended:
		return systemAuthor, ""
	}
	return d.Run.Agent, commentText(d.Text, d.Run)
}

// replyText is what a run said last, as it is written.
func replyText(run *mailroom.Run) string {
	if run.Reply == nil {
		return ""
	}
	return commentText(*run.Reply, run)
}

func commentText(text string, run *mailroom.Run) string {
	return truncate(strings.TrimSpace(text), maxComment, "\n… (cut; all of it is in thread "+run.Thread+")")
}

// failureText is what a person reads of a run that came to nothing.
func (w *Watcher) failureText(it *issues.Issue, run *mailroom.Run) string {
	var b strings.Builder
	if run.Status == mailroom.StatusFailed {
		fmt.Fprintf(&b, "%s failed in attempt %d", run.Agent, run.Attempt)
		if run.Error != nil {
			fmt.Fprintf(&b, " (%s): %s", run.Error.Class, truncate(strings.TrimSpace(run.Error.Message), maxError, "…"))
		}
	} else {
		fmt.Fprintf(&b, "The run of %s was %s", run.Agent, cmp.Or(run.Reason, mailroom.ReasonCancelled))
		if run.StopBy != "" {
			fmt.Fprintf(&b, " by %s", run.StopBy)
		}
		fmt.Fprintf(&b, " in attempt %d", run.Attempt)
	}
	fmt.Fprintf(&b, "\n\nTo have it go on: %s run retry %s\nTo have it begin anew, maybe with more said: bd update %s --status open", w.options.Command, run.ID, it.ID)
	return b.String()
}

// questionText is what a person reads of a ticket; "" for one that nobody decides.
func (w *Watcher) questionText(d channel.Delivery) string {
	k := d.Ticket
	if k.Kind != mailroom.TicketApproval && k.Kind != mailroom.TicketInput {
		return ""
	}
	lines := []string{fmt.Sprintf("%s asks: %s", d.Run.Agent, truncate(strings.TrimSpace(k.Prompt), maxComment/2, "… (cut)"))}
	if k.Action != "" {
		shown := truncate(string(bytes.ToValidUTF8(k.Arguments, nil)), maxShown, "… (cut)")
		lines = append(lines, strings.TrimSpace(k.Action+" "+shown))
	}
	lines = append(lines, "")
	if k.Kind == mailroom.TicketInput {
		lines = append(lines, fmt.Sprintf("To answer: %s answer %s TEXT", w.options.Command, k.ID))
	} else {
		lines = append(lines, fmt.Sprintf("To allow it: %s approve %s", w.options.Command, k.ID), fmt.Sprintf("To refuse it: %s deny %s", w.options.Command, k.ID))
	}
	return strings.Join(lines, "\n")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// truncate bounds a text, and says with end that it did.
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
