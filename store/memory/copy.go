package memory

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// The functions of this file copy rows that enter or leave the store, so that neither side sees the
// other's later changes.

// cut cuts times to what a store keeps: UTC and whole microseconds.
func cut(times ...*time.Time) {
	for _, t := range times {
		*t = t.UTC().Truncate(time.Microsecond)
	}
}

// cutOptional returns a copy of a time that may be missing, as a zero time is.
func cutOptional(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	v := *t
	cut(&v)
	return &v
}

// cloneText copies JSON. A column does not distinguish an empty text from none.
func cloneText(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return nil
	}
	return bytes.Clone(text)
}

func copyThread(t *mailroom.Thread) *mailroom.Thread {
	c := *t
	cut(&c.Due.At, &c.HeldAt, &c.CreatedAt, &c.UpdatedAt, &c.DeletedAt)
	c.Metadata = cloneText(t.Metadata)
	c.State = maps.Clone(t.State)
	c.Unread = maps.Clone(t.Unread)
	c.BlobBytes = maps.Clone(t.BlobBytes)
	c.Uploads = slices.Clone(t.Uploads)
	c.Meters = slices.Clone(t.Meters)
	for i := range c.Uploads {
		cut(&c.Uploads[i].WrittenAt)
	}
	c.Budgets = slices.Clone(t.Budgets)
	for i := range c.Budgets {
		cut(&c.Budgets[i].Begin, &c.Budgets[i].End, &c.Budgets[i].Limit.Until)
	}
	for agent, state := range c.State {
		c.State[agent] = bytes.Clone(state)
	}
	return &c
}

func copyTicket(k *mailroom.Ticket) *mailroom.Ticket {
	c := *k
	c.Arguments = cloneText(k.Arguments)
	c.Answer = cloneText(k.Answer)
	cut(&c.OpenedAt)
	c.ExpiresAt = cutOptional(k.ExpiresAt)
	c.DecidedAt = cutOptional(k.DecidedAt)
	return &c
}

func copyRun(r *mailroom.Run) *mailroom.Run {
	c := *r
	cut(&c.NotBefore, &c.Deadline, &c.AvailableAt, &c.ClaimEnds, &c.OutageSince, &c.CreatedAt, &c.StartedAt, &c.FinishedAt,
		&c.Counted.At, &c.JoinUntil, &c.JoinSince, &c.WaitsSince, &c.Labelled.At)
	c.Options = cloneText(r.Options)
	c.Metadata = maps.Clone(r.Metadata)
	c.Inputs = slices.Clone(r.Inputs)
	c.Steers = slices.Clone(r.Steers)
	for i, s := range c.Steers {
		if s.Own != nil {
			c.Steers[i].Own = copyRun(s.Own)
		}
	}
	c.Checkpoint = cloneText(r.Checkpoint)
	c.Reply = copyOf(r.Reply)
	c.Error = copyOf(r.Error)
	c.Caller = copyOf(r.Caller)
	if c.Budget = copyOf(r.Budget); c.Budget != nil {
		cut(&c.Budget.Limit.Until, &c.Budget.Grant.Until)
	}
	c.Joined = maps.Clone(r.Joined)
	c.Lineage = slices.Clone(r.Lineage)
	c.Spent = slices.Clone(r.Spent)
	if c.Wait = copyOf(r.Wait); c.Wait != nil {
		c.Wait.Names = slices.Clone(r.Wait.Names)
	}
	return &c
}

func copyKey(k store.SubmitKey) store.SubmitKey {
	k.Result.Superseded = slices.Clone(k.Result.Superseded)
	k.Result.Stopping = copyOf(k.Result.Stopping)
	return k
}

func copyWorker(w *store.Worker) *store.Worker {
	c := *w
	cut(&c.StartedAt, &c.LeaseUntil)
	c.Agents, c.Duties = slices.Clone(w.Agents), slices.Clone(w.Duties)
	return &c
}

func copyToken(t *auth.Token) *auth.Token {
	c := *t
	cut(&c.CreatedAt, &c.UsedAt, &c.RevokedAt)
	c.Terms = t.Terms.Stored()
	c.Scopes, c.Agents, c.Quotas = slices.Clone(t.Scopes), slices.Clone(t.Agents), maps.Clone(t.Quotas)
	c.Terms.Scopes, c.Terms.Threads = slices.Clone(c.Terms.Scopes), slices.Clone(c.Terms.Threads)
	return &c
}

// copyEntry decodes a copy of the entry's bytes, so that it returns what a store returns that keeps
// only the bytes.
func copyEntry(e mailroom.Entry) (mailroom.Entry, error) {
	return entry.Parse(bytes.Clone(e.Raw))
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
