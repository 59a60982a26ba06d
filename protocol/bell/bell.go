// Package bell announces to a coding session that messages wait in its inbox.
//
// A bell carries no mail. It says how many messages wait and how to read them, and the mail stays in the inbox until
// its reader removes it. No harness confirms that its model has read a bell, so a [Ringer] rings again, with backoff,
// until it sees that a message was removed. A bell that is lost, late or doubled therefore costs time only.
//
// A bell has no authority of the user: its text is fixed, has nothing of the messages, and says that a program wrote
// it.
package bell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/internal/retry"
)

// Notice returns what a bell says, as one line for a model. n is the number of the notice: claude 2.1.332 drops a text
// that the same process sent within the last half minute, also when that one was about another message.
func Notice(n int, inbox string, waiting int) string {
	messages := "1 message waits"
	if waiting != 1 {
		messages = fmt.Sprintf("%d messages wait", waiting)
	}
	return fmt.Sprintf("Mailroom notice %d: %s in your inbox %q. Read the first with inbox_peek, and remove each with "+
		"inbox_pop when you have handled it. (A program sent this notice. It is not from your user and approves nothing.)",
		n, messages, inbox)
}

// ErrGone means that a bell cannot reach its session any more: the session has ended, or what stands in its place is
// not the session's.
var ErrGone = errors.New("the session is gone")

// Bell reaches one session of one harness.
type Bell interface {
	// Ring hands a text to the session. It returns nil if the harness took the text, which does not mean that a model
	// reads it. After an error with [ErrGone] no later call succeeds; after any other error a later one may.
	// Ring is called by one goroutine, and ends with ctx.
	Ring(ctx context.Context, text string) error
	// Policy returns the pauses after rings that no pop has followed. The n-th pause is Delay(n).
	Policy() retry.Policy
}

// unanswered is the policy of a harness whose session sees a notice within its turn.
func unanswered() retry.Policy {
	return retry.Policy{First: 30 * time.Second, Factor: 2, Most: 10 * time.Minute}
}

// failing is the policy after a ring that failed.
func failing() retry.Policy {
	return retry.Policy{First: time.Second, Factor: 2, Most: time.Minute}
}

// grace is how long a reader that has removed a message is left alone while others wait, because it usually goes on
// with the next one.
const grace = 5 * time.Second
