package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
)

// Refusal is the body of the entry that tells of the first refusal of a delivery.
type Refusal struct {
	Reason string `json:"reason"`
}

// HandleRefusal decides what it means for a delivery that the platform has refused it: an
// outage, until a refusal comes that is patience later than the first one. While a
// platform is redeployed it may refuse good requests (404, 400, 401). The first refusal
// is an entry of a kind in the delivery's log, so that a restart changes nothing; a
// delivery that is retried by hand begins again.
func (l *Host) HandleRefusal(ctx context.Context, s mailroom.Session, kind string, patience time.Duration, refusal error) error {
	run := s.Run()
	var first time.Time
	err := l.View(ctx, func(r mailroom.Reader) error {
		entries, err := r.Entries(mailroom.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 1,
			Kinds: []string{kind, mailroom.KindRetried},
		})
		if len(entries) > 0 && entries[0].Kind == kind {
			first = entries[0].At
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !first.IsZero() && time.Since(first) >= patience:
		return refusal
	case first.IsZero():
		body, err := json.Marshal(Refusal{Reason: truncateError(refusal)})
		if err != nil {
			return fmt.Errorf("encode %s: %w", kind, err)
		}
		if err := s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true}); err != nil {
			return err
		}
	}
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: mailroom.AsFailure(refusal).RetryAfter, Err: refusal}
}
