package channel

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// Refusal is the body of the entry that records the first refusal of a delivery.
type Refusal struct {
	Reason string `json:"reason"`
}

// HandleRefusal classifies a platform's refusal of a delivery. A refusal counts as an outage until the time patience
// has passed since the first refusal, because a platform may refuse good requests (404, 400, 401) while it is
// redeployed. The first refusal is an entry of the given kind in the delivery's log, so that a restart of the server
// does not reset the clock. A manual retry of the delivery resets it.
func (h *Host) HandleRefusal(
	ctx context.Context, s mailroom.Session, kind string, patience time.Duration, refusal error,
) error {
	run := s.Run()
	var first time.Time
	err := h.View(ctx, func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 1,
			Kinds: []string{kind, entry.KindRetried},
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
		if err := s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}},
			NoProgress: true}); err != nil {
			return err
		}
	}
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: mailroom.AsFailure(refusal).RetryAfter,
		Err: refusal}
}
