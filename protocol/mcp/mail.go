package mcp

import (
	"context"
	"strconv"
	"time"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Inbox is what a program may know of an inbox without reading its messages.
type Inbox struct{ box box }

// NewInbox returns the inbox in a thread. Its first call creates the thread if it does not exist.
func NewInbox(c *client.Client, thread string) *Inbox {
	return &Inbox{box{c: c, thread: thread, make: true}}
}

// Waiting returns how many messages wait, the one at the head included.
func (i *Inbox) Waiting(ctx context.Context) (int, error) {
	if _, err := i.box.open(ctx); err != nil {
		return 0, err
	}
	runs, _, err := i.box.waiting(ctx)
	return len(runs), err
}

// LastRead returns when a reader last removed a message, or nil if none has.
func (i *Inbox) LastRead(ctx context.Context) (*time.Time, error) {
	q := client.ListQuery{Q: "status:completed thread:" + client.Quote(i.box.thread), Limit: 50}
	page, err := i.box.c.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	var last *time.Time
	for _, r := range page.Items { // the newest runs, commands among them
		if at := r.FinishedAt; at != nil && !inbox.IsCommand(r.Options) && (last == nil || at.After(*last)) {
			last = at
		}
	}
	return last, nil
}

// Follow calls changed with the run of the message at the head, or with "" if the inbox is empty: now, and after each
// change until ctx ends, when it returns the cause of ctx. It holds one stream. An error of code unavailable means that
// the caller may begin again.
func (i *Inbox) Follow(ctx context.Context, changed func(head string)) error {
	t, err := i.box.open(ctx)
	if err != nil {
		return err
	}
	if err := i.report(ctx, changed); err != nil {
		return err
	}
	q := client.FollowQuery{Thread: i.box.thread, After: strconv.FormatInt(t.LastSeq, 10)}
	for ev, err := range i.box.c.Follow(ctx, q) {
		if err != nil {
			return err
		}
		if ev.Gap == nil && (ev.Entry == nil || !movesHead(ev.Entry.Kind)) {
			continue
		}
		if err := i.report(ctx, changed); err != nil {
			return err
		}
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "the stream of thread %q ended", i.box.thread)
}

// report calls changed with the head. Between two messages there is no head for a moment: then the thread is not idle,
// and an entry that follows moves the head.
func (i *Inbox) report(ctx context.Context, changed func(head string)) error {
	k, err := i.box.head(ctx)
	switch {
	case err != nil:
		return err
	case k != nil:
		changed(k.Run)
		return nil
	}
	t, err := i.box.c.Thread(ctx, i.box.thread)
	if err == nil && t.Status == api.ThreadIdle {
		changed("")
	}
	return err
}

// movesHead reports whether an entry of this kind can change what is at the head of an inbox.
func movesHead(kind string) bool {
	switch kind {
	case entry.KindTicketOpened, entry.KindTicketDecided, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		return true
	}
	return false
}

// waiting returns the runs of all messages in the inbox in order, and the ticket of the first, nil if it has not
// reached the head.
func (b *box) waiting(ctx context.Context) (runs []string, head *api.Ticket, err error) {
	head, err = b.head(ctx)
	if err != nil {
		return nil, nil, err
	}
	queued, err := b.queue(ctx)
	if err != nil {
		return nil, nil, err
	}
	runs = make([]string, 0, len(queued)+1)
	if head != nil {
		runs = append(runs, head.Run)
	}
	for _, r := range queued {
		if head == nil || r.ID != head.Run {
			runs = append(runs, r.ID)
		}
	}
	return runs, head, nil
}
