package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom"
)

// maxTold is how many agents the answer to a notification for all names.
const maxTold = 1000

// Notified is the answer to a Notify. To are the agents with an inbox that get it, by
// name, of a notification for all the first maxTold.
type Notified struct {
	Seq int64
	To  []string
}

// Notify tells the agents of a project something, and makes the project if there is
// none. Those that it names have an inbox from then on.
func (l *Ledger) Notify(ctx context.Context, in mailroom.Notify) (Notified, error) {
	if err := in.Check(); err != nil {
		return Notified{}, err
	}
	return onProject(ctx, l, "notify", in.Project, func(b *batch, p *mailroom.Project) (Notified, error) {
		if err := b.know(p.Loaded, in.Key); err != nil {
			return Notified{}, err
		}
		if !p.Knows(in.Key) {
			if err := b.admitIn(p, in.By, in.Size()); err != nil {
				return Notified{}, err
			}
		}
		before := p.LastSeq
		seq, err := p.Notify(in, b.now)
		if err != nil {
			return Notified{}, err
		}
		if _, err := b.inbox(p, in.From, in.By); err != nil {
			return Notified{}, err
		}
		q := mailroom.CursorQuery{Channel: p.ID, Limit: maxTold + 1}
		if len(in.To) > 0 {
			names := slices.Clone(in.To)
			slices.Sort(names)
			q = mailroom.CursorQuery{Channel: p.ID, Identities: slices.Compact(names)}
		}
		boxes, err := b.cursors(q)
		if err != nil {
			return Notified{}, err
		}
		out := Notified{Seq: seq}
		for _, name := range in.To {
			if !slices.ContainsFunc(boxes, func(c mailroom.Cursor) bool { return c.Identity == name }) {
				boxes = append(boxes, b.saveInbox(p.ID, name, mailroom.Inbox{Read: before}))
			}
		}
		for _, c := range boxes {
			if c.Identity != in.From && (len(in.To) == 0 || slices.Contains(in.To, c.Identity)) {
				out.To = append(out.To, c.Identity)
			}
		}
		slices.Sort(out.To)
		out.To = slices.Compact(out.To)
		if len(in.To) == 0 && len(out.To) > maxTold {
			out.To = out.To[:maxTold]
		}
		return out, nil
	})
}

// Received is a notification in an inbox.
type Received struct {
	Seq int64
	At  time.Time
	mailroom.Notification
}

// ReadInbox asks for what an agent has not read, the oldest first. With Consume it
// counts as read once this was answered. Who reads an inbox first is its reader.
type ReadInbox struct {
	Project string
	Agent   string
	By      *mailroom.Token
	Limit   int // at least 1
	Bytes   int // of them together, unless the first has more; 0: mailroom.MaxPage
	Consume bool
	After   int64 // without Consume: only those with a greater seq
}

// Inboxed is what was read of an inbox.
type Inboxed struct {
	Found []Received
	Next  int64 // the After of what may follow; 0: nothing does
}

// Inbox returns what an agent has not read. Its inbox is there from the first time
// on that it is asked for; to look makes no project.
func (l *Ledger) Inbox(ctx context.Context, in ReadInbox) (Inboxed, error) {
	if in.Bytes == 0 {
		in.Bytes = mailroom.MaxPage
	}
	thread, err := mailroom.ProjectThread(in.Project)
	if err != nil {
		return Inboxed{}, err
	}
	if in.Consume {
		in.After = 0
	} else {
		if found, ok, err := l.peek(ctx, thread, in); ok || err != nil {
			return found, err
		}
	}
	return onProject(ctx, l, "inbox", in.Project, func(b *batch, p *mailroom.Project) (Inboxed, error) {
		box, err := b.openedBy(p, in.Agent, in.By)
		if err != nil {
			return Inboxed{}, err
		}
		found, upto, err := unread(b.tx, thread, box, in)
		if err != nil || !in.Consume || upto <= box.Read {
			return found, err
		}
		box.Advance(upto)
		b.saveInbox(thread, in.Agent, box)
		return found, nil
	})
}

// peek reads an inbox that is there, and whose reader asks, without a transaction
// that could write.
func (l *Ledger) peek(ctx context.Context, thread string, in ReadInbox) (found Inboxed, ok bool, err error) {
	err = l.View(ctx, func(r mailroom.Reader) error {
		rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{thread}})
		if ok = err == nil && len(rows) == 0; err != nil || ok || !in.By.Sees(rows[0]) {
			return err
		}
		cursors, err := r.Cursors(mailroom.CursorQuery{Channel: thread, Identities: []string{in.Agent}})
		if err != nil || len(cursors) == 0 {
			return err
		}
		box, err := openInbox(cursors[0])
		if err != nil || box.Owner == "" {
			return err
		}
		if err := box.MayRead(in.By); err != nil {
			return err
		}
		ok = true
		found, _, err = unread(r, thread, box, in)
		return err
	})
	return found, ok, err
}

// Acknowledge notes that an agent has read some notifications, by their seqs.
func (l *Ledger) Acknowledge(ctx context.Context, project, agent string, by *mailroom.Token, seqs []int64) error {
	_, err := onProject(ctx, l, "acknowledge", project, func(b *batch, p *mailroom.Project) (struct{}, error) {
		box, err := b.openedBy(p, agent, by)
		if err != nil {
			return struct{}{}, err
		}
		for _, seq := range seqs {
			if seq < 1 || seq > p.LastSeq {
				return struct{}{}, mailroom.Errorf(mailroom.Invalid, "there is no notification %d in project %q", seq, project)
			}
		}
		if err := box.Acknowledge(seqs...); err != nil {
			return struct{}{}, err
		}
		first, _, err := unread(b.tx, p.ID, box, ReadInbox{Agent: agent, Limit: 1, Bytes: mailroom.MaxPage})
		if err != nil {
			return struct{}{}, err
		}
		if len(first.Found) > 0 {
			box.Advance(first.Found[0].Seq - 1)
		}
		b.saveInbox(p.ID, agent, box)
		return struct{}{}, nil
	})
	return err
}

// unreadPage is how many notifications are looked at in one go.
const unreadPage = 200

// unread reads an inbox. Nothing up to upto is left besides what it found.
func unread(r mailroom.Reader, thread string, box mailroom.Inbox, in ReadInbox) (out Inboxed, upto int64, err error) {
	rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{thread}})
	if err != nil || len(rows) == 0 {
		return out, 0, err
	}
	size := 0
	for after := max(box.Read, in.After); ; {
		page, err := r.Entries(mailroom.EntryQuery{Thread: thread, After: after, Kinds: []string{mailroom.KindNotification}, Limit: unreadPage, Bytes: in.Bytes})
		if err != nil {
			return out, 0, err
		}
		for _, e := range page {
			one := Received{Seq: e.Seq, At: e.At}
			if err := e.Decode(&one.Notification); err != nil {
				return out, 0, err
			}
			if !box.Unread(in.Agent, e.Seq, &one.Notification) {
				after = e.Seq
				continue
			}
			if size += len(e.JSON()); size > in.Bytes && len(out.Found) > 0 {
				out.Next = after
				return out, after, nil
			}
			after = e.Seq
			if out.Found = append(out.Found, one); len(out.Found) == in.Limit {
				if after < rows[0].LastSeq {
					out.Next = after
				}
				return out, after, nil
			}
		}
		if len(page) == 0 {
			return out, rows[0].LastSeq, nil
		}
	}
}

// inbox returns the inbox of an agent of a project, which has one from now on. It
// begins with what is told next.
func (b *batch) inbox(p *mailroom.Project, agent string, by *mailroom.Token) (mailroom.Inbox, error) {
	rows, err := b.cursors(mailroom.CursorQuery{Channel: p.ID, Identities: []string{agent}})
	if err != nil {
		return mailroom.Inbox{}, err
	}
	box := mailroom.Inbox{Read: p.LastSeq}
	if len(rows) > 0 {
		if box, err = openInbox(rows[0]); err != nil || box.Owner != "" {
			return box, err
		}
	}
	if err := b.admitIn(p, by, 0); err != nil {
		return box, err
	}
	box.Owner = by.Name
	p.Enter(by, b.now)
	b.saveInbox(p.ID, agent, box)
	return box, nil
}

// openedBy is the inbox of an agent for who wants to read it.
func (b *batch) openedBy(p *mailroom.Project, agent string, by *mailroom.Token) (mailroom.Inbox, error) {
	if err := p.MayEnter(by, "agent", agent); err != nil {
		return mailroom.Inbox{}, err
	}
	box, err := b.inbox(p, agent, by)
	if err != nil {
		return box, err
	}
	return box, box.MayRead(by)
}

func (b *batch) saveInbox(thread, agent string, box mailroom.Inbox) mailroom.Cursor {
	raw, err := json.Marshal(box)
	if err != nil {
		panic(err) // numbers and a name
	}
	c := mailroom.Cursor{Channel: thread, Identity: agent, Position: raw}
	b.moveCursor(c)
	return c
}

func openInbox(c mailroom.Cursor) (box mailroom.Inbox, err error) {
	err = json.Unmarshal(c.Position, &box)
	return box, err
}

// cursors are those of a channel as this batch has left them.
func (b *batch) cursors(q mailroom.CursorQuery) ([]mailroom.Cursor, error) {
	channel := q.Channel
	rows, err := b.tx.Cursors(q)
	rows = slices.DeleteFunc(rows, func(c mailroom.Cursor) bool {
		return slices.ContainsFunc(b.changes.DropCursors, func(gone mailroom.Cursor) bool {
			return gone.Channel == channel && gone.Identity == c.Identity
		})
	})
	for _, moved := range b.changes.Cursors {
		if moved.Channel != channel || len(q.Identities) > 0 && !slices.Contains(q.Identities, moved.Identity) {
			continue
		}
		if i := slices.IndexFunc(rows, func(c mailroom.Cursor) bool { return c.Identity == moved.Identity }); i >= 0 {
			rows[i] = moved
		} else {
			rows = append(rows, moved)
		}
	}
	return rows, err
}
