package outbound

import (
	"fmt"
	"regexp"
	"strings"

	"mailroom"
	"mailroom/internal/lazyregexp"
	"mailroom/thread"
)

// renderEnding describes a run that ended without a reply, after its unfinished text.
func renderEnding(run *mailroom.Run, partial, command string) string {
	retry := "To retry, send the message again or run on the server: " + command + " run retry " + run.ID
	var why string
	switch {
	case run.Status == mailroom.StatusCompleted:
		why, retry = fmt.Sprintf("(%s ended without a reply.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled && run.Reason == mailroom.ReasonInterrupted:
		why, retry = fmt.Sprintf("(%s was interrupted by a later message.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled && run.Reason == mailroom.ReasonDeadline:
		why = fmt.Sprintf("(%s did not end before its deadline.)", run.Agent)
	case run.Status == mailroom.StatusCancelled:
		why = fmt.Sprintf("(%s was stopped.)", run.Agent)
	default:
		why = fmt.Sprintf("(%s failed: %s)", run.Agent, failureText(run.Error))
	}
	var lines []string
	for _, l := range []string{strings.TrimRight(partial, " \t\r\n"), why, retry} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// exitPattern matches the start of a program's error, before the program's own output.
var exitPattern = lazyregexp.New(`^\S+(?: \S+)? ended with (exit status [0-9]{1,3}|signal: [a-z ]{1,32})(?::|$)`)

// againPattern matches the end of an error that says when the agent works again, see [thread.AgainAt].
var againPattern = lazyregexp.New(regexp.QuoteMeta(thread.AgainAt) + `([-0-9]{10})T([:0-9]{5}):[0-9]{2}Z\)$`)

// failureText describes an error to a chat: its class, how a program exited, and when it works again. The error's
// message may quote output with paths and keys of the server. Users with access to the run find
// it there.
func failureText(e *mailroom.RunError) string {
	if e == nil {
		return "unknown error"
	}
	text := string(e.Class)
	line, _, _ := strings.Cut(e.Message, "\n")
	if m := exitPattern().FindStringSubmatch(line); m != nil {
		text += ", " + m[1]
	}
	if m := againPattern().FindStringSubmatch(e.Message); m != nil {
		text += ", works again on " + m[1] + " at " + m[2] + " UTC"
	}
	return text
}
