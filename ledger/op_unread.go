package ledger

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// unreadAt returns the notifications at seqs that are unread in an inbox. Consecutive seqs cost one
// query.
func (tx *transaction) unreadAt(p *project.State, agent string, box project.Inbox,
	seqs []int64) (found []Received, err error) {
	seqs = slices.Clone(seqs)
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	add := func(entries []mailroom.Entry) error {
		for i := range entries {
			one, ok, err := received(&entries[i])
			if err != nil {
				return err
			}
			if _, asked := slices.BinarySearch(seqs, one.Seq); ok && asked && box.Unread(agent, one.Seq, &one.Notification) {
				found = append(found, one)
			}
		}
		return nil
	}
	for i := 0; i < len(seqs); {
		end := i + 1
		for end < len(seqs) && seqs[end] == seqs[end-1]+1 {
			end++
		}
		page, err := tx.rows.stored.Entries(store.EntryQuery{Thread: p.Thread.ID, After: seqs[i] - 1, Before: seqs[end-1] + 1,
			Bytes: mailroom.MaxPage})
		if err != nil {
			return nil, err
		}
		if err := add(page); err != nil {
			return nil, err
		}
		if i = end; len(page) > 0 && page[len(page)-1].Seq < seqs[end-1] {
			i, _ = slices.BinarySearch(seqs, page[len(page)-1].Seq+1)
		}
	}
	return found, add(p.Thread.Entries()) // entries of this batch
}

// received decodes a notification without its data. ok is false for another entry.
func received(e *mailroom.Entry) (one Received, ok bool, err error) {
	one.Seq, one.At = e.Seq, e.At
	if e.Kind != entry.KindNotification {
		return one, false, nil
	}
	err = e.Decode(&one.Notification)
	one.Data = nil
	return one, err == nil, err
}

// uncountUnread subtracts notifications that are dropped from the counts of unread ones.
func (tx *transaction) uncountUnread(t *thread.State, gone []Received) error {
	if len(gone) == 0 || len(t.Unread) == 0 {
		return nil
	}
	rows, err := tx.cursors(store.CursorQuery{Channel: t.ID})
	if err != nil {
		return err
	}
	boxes := map[string]project.Inbox{}
	for _, c := range rows {
		box, err := project.DecodeInbox(&t.Thread, c)
		if err != nil {
			return err
		}
		if box.Read < gone[len(gone)-1].Seq {
			boxes[c.Identity] = box
		}
	}
	for i := range gone {
		project.CountUnread(t, gone[i].By, -gone[i].UnreadIn(boxes, gone[i].Seq))
	}
	return nil
}

// ExpireNotifications removes notifications older than age from the inboxes of a project, for
// agents that never read them. It uses small transactions of the lowest rank.
func (ps Projects) ExpireNotifications(ctx context.Context, thread string, age time.Duration) error {
	if due, err := ps.expiryDue(ctx, thread, age); err != nil || !due {
		return err
	}
	for more := true; more; {
		var err error
		o := op{name: "expire_notifications", rank: rankPurge, threads: []string{thread}}
		more, err = run(ctx, ps.ledger, o,
			func(tx *transaction) (bool, error) { return tx.expireNotifications(tx.rows.thread(thread), age) })
		if err != nil {
			return err
		}
	}
	return nil
}

// expiryDue reports whether a notification may have expired.
func (ps Projects) expiryDue(ctx context.Context, thread string, age time.Duration) (due bool, err error) {
	err = ps.ledger.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err != nil || len(rows) == 0 || len(rows[0].Unread) == 0 {
			return err
		}
		first, err := r.Entries(expiryQuery(rows[0], 1))
		due = len(first) > 0 && first[0].At.Before(r.Now().Add(-age))
		return err
	})
	return due, err
}

// expiryQuery selects the notifications that expire next.
func expiryQuery(t *mailroom.Thread, limit int) store.EntryQuery {
	return store.EntryQuery{Thread: t.ID, After: t.Lapsed, Kinds: []string{entry.KindNotification}, Limit: limit,
		Bytes: maxBytes}
}

func (tx *transaction) expireNotifications(t *thread.State, age time.Duration) (more bool, err error) {
	page, err := tx.rows.stored.Entries(expiryQuery(&t.Thread, purgeStep))
	if err != nil {
		return false, err
	}
	var gone []Received
	for i := range page {
		one, _, err := received(&page[i])
		if err != nil {
			return false, err
		}
		if !one.At.Before(tx.now().Add(-age)) {
			break
		}
		gone = append(gone, one)
	}
	if len(gone) == 0 {
		return false, nil
	}
	if err := tx.uncountUnread(t, gone); err != nil {
		return false, err
	}
	project.Lapse(t, gone[len(gone)-1].Seq)
	return len(gone) == len(page), nil
}
