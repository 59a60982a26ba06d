package board

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/issues/feed"
)

// maxMessage bounds the text of an issue for its agent, in bytes.
const maxMessage = 512 << 10

// issueText returns the text of an issue for its agent.
func issueText(it Issue, agent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nIssue %s", oneLine(it.Title), oneLine(it.Name))
	if it.URL != "" {
		fmt.Fprintf(&b, ", %s", it.URL)
	}
	if len(it.Labels) > 0 {
		fmt.Fprintf(&b, ", labelled %s", oneLine(strings.Join(it.Labels, ", ")))
	}
	fmt.Fprintf(&b, ". %s\n", claimText("It", agent))
	if body := strings.TrimSpace(it.Body); body != "" {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	return truncate(b.String())
}

// claimText is the text for an agent about what the server does with its issue.
func claimText(issue, agent string) string {
	return fmt.Sprintf("%s is claimed for you, %s. Your replies become comments of the issue; do not close it yourself.",
		issue, agent)
}

// editText is the message about an edit for the agent of an issue.
func editText(it Issue) string {
	return truncate(fmt.Sprintf("Issue %s was edited while you work on it. It says now:\n\n# %s\n\n%s\n",
		oneLine(it.Name), oneLine(it.Title), strings.TrimSpace(it.Body)))
}

// failureText returns the comment for a run that failed or was cancelled.
func failureText(command string, run *mailroom.Run) string {
	return feed.FailureText(run) + fmt.Sprintf(
		"\n\nTo resume: %s run retry %s\nTo start over, after adding details if needed: remove the label that marks the "+
			"issue as blocked, or move it back to a state in which it may start", command, run.ID)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func truncate(text string) string {
	const end = "\n… (truncated)\n"
	if len(text) <= maxMessage {
		return text
	}
	at := maxMessage - len(end)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + end
}
