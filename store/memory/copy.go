package memory

import (
	"bytes"
	"maps"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// The functions of this file copy rows that enter or leave the store, so that neither side sees the
// other's later changes.

func copyThread(t *mailroom.Thread) *mailroom.Thread {
	c := *t
	c.Metadata = bytes.Clone(t.Metadata)
	c.State = maps.Clone(t.State)
	c.Unread = maps.Clone(t.Unread)
	for agent, state := range c.State {
		c.State[agent] = bytes.Clone(state)
	}
	return &c
}

func copyTicket(k *mailroom.Ticket) *mailroom.Ticket {
	c := *k
	c.Arguments = bytes.Clone(k.Arguments)
	c.Answer = bytes.Clone(k.Answer)
	c.ExpiresAt = copyOf(k.ExpiresAt)
	c.DecidedAt = copyOf(k.DecidedAt)
	return &c
}

func copyRun(r *mailroom.Run) *mailroom.Run {
	c := *r
	c.Options = bytes.Clone(r.Options)
	c.Metadata = maps.Clone(r.Metadata)
	c.Inputs = slices.Clone(r.Inputs)
	c.Steers = slices.Clone(r.Steers)
	for i, s := range c.Steers {
		if s.Own != nil {
			c.Steers[i].Own = copyRun(s.Own)
		}
	}
	c.Checkpoint = bytes.Clone(r.Checkpoint)
	c.Reply = copyOf(r.Reply)
	c.Error = copyOf(r.Error)
	c.Caller = copyOf(r.Caller)
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
	c.Agents, c.Duties = slices.Clone(w.Agents), slices.Clone(w.Duties)
	return &c
}

func copyToken(t *auth.Token) *auth.Token {
	c := *t
	c.Scopes, c.Agents, c.Quotas = slices.Clone(t.Scopes), slices.Clone(t.Agents), maps.Clone(t.Quotas)
	c.Terms.Scopes, c.Terms.Threads = slices.Clone(t.Terms.Scopes), slices.Clone(t.Terms.Threads)
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
