package entry

import (
	"strconv"
	"strings"
)

// MessageID returns the id of the n-th message that an attempt of a run writes, counted from 1: <run>.<attempt>-<n>.
//
// It is known before the first word of the message is streamed. Its number shows a reader that the text of a message
// has come before the entry of the message before. The format is promised: stored text and cursors within a message
// depend on it, over restarts and versions.
func MessageID(run string, attempt, n int) string {
	return messagePrefix(run, attempt) + strconv.Itoa(n)
}

// MessageNumber is the inverse of [MessageID]: n if id is that of the n-th message of this attempt.
func MessageNumber(id, run string, attempt int) (n int, ok bool) {
	number, ok := strings.CutPrefix(id, messagePrefix(run, attempt))
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number {
		return 0, false
	}
	return n, true
}

func messagePrefix(run string, attempt int) string { return run + "." + strconv.Itoa(attempt) + "-" }
