package alert

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// A target has limits of its own, such as some hundred messages a day, and all owners share them. So a token gets a
// number of messages an hour. Further alerts wait until the hour ends, and then one message combines them.

const (
	// sendsAnHour is how many messages of one token a target gets in an hour. The operator has no bound.
	sendsAnHour = 60
	window      = time.Hour
)

// sent counts the messages of one token to one target within an hour. The agent of the target keeps it in the state of
// the token's delivery thread.
type sent struct {
	Since time.Time `json:"since,omitzero"` // begin of the hour
	Count int       `json:"count,omitempty"`
	// Through is when the last combined message was sent. This message covers all alerts that are older.
	Through time.Time `json:"through,omitzero"`
}

// verdict says what happens to an alert of a token.
type verdict int

const (
	sendAlone     verdict = iota
	sendTogether          // one message combines the alert with the alerts that wait behind it
	countedBefore         // an earlier combined message covers the alert
	waitForHour
)

// next decides about an alert that was made at madeAt, and counts the alert if it is sent. The parameter others says
// whether more alerts of the same token wait in the thread.
func (s *sent) next(madeAt, now time.Time, others bool) verdict {
	full := s.Count >= sendsAnHour
	switch over := now.Sub(s.Since) >= window; {
	case !madeAt.After(s.Through):
		return countedBefore
	case !over && full:
		return waitForHour
	case over:
		*s = sent{Since: now.UTC(), Count: 1, Through: s.Through}
		if full && others {
			s.Through = now.UTC()
			return sendTogether
		}
	default:
		s.Count++
	}
	return sendAlone
}

// bound applies the bound to the alert of a run. It returns the alert to send, and the state after it was sent;
// done says that the run ends without sending, with err.
func (a *Agent) bound(
	ctx context.Context, s mailroom.Session, what *Alert, about *subject,
) (out *Alert, after targetState, done bool, err error) {
	run, m := s.Run(), a.state(s)
	after = targetState{Sent: m.Sent}
	owner := reserved.Owner(run.Thread)
	if owner == auth.Operator {
		return what, after, false, nil
	}
	waiting, now := 0, time.Now()
	if m.Sent.Count >= sendsAnHour && now.Sub(m.Sent.Since) >= window {
		err = a.options.Ledger.View(ctx, func(r store.Reader) error {
			counts, err := r.Count(store.CountQuery{Thread: run.Thread, Set: store.RunsQueued, Most: maxTogether})
			waiting = counts.Sum()
			return err
		})
		if err != nil {
			return nil, after, true, err
		}
	}
	madeAt := run.CreatedAt
	if what.Reminder > 0 && run.NotBefore.After(madeAt) { // no message before that covers it
		madeAt = run.NotBefore
	}
	switch after.Sent.next(madeAt, now, waiting > 0) {
	case countedBefore:
		return nil, after, true, s.Stream(ctx, "Combined with other alerts in one message.")
	case waitForHour:
		until := m.Sent.Since.Add(window)
		return nil, after, true, &mailroom.Failure{
			Class: mailroom.ClassUnavailable, RetryAfter: until.Sub(now),
			Err: fmt.Errorf("%d alerts of token %s were sent within the hour: one message combines the next ones at %s",
				m.Sent.Count, owner, inZone(until, what.Zone)),
		}
	case sendTogether:
		*about = subject{}
		return &Alert{
			Kind: KindReply, Text: TextNone, At: what.At, Zone: what.Zone, Thread: what.Thread, Count: waiting + 1, Owner: owner,
		}, after, false, nil
	}
	return what, after, false, nil
}

// maxTogether bounds how many waiting alerts the store counts, for the number in a combined message.
const maxTogether = 100_000
