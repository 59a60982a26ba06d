package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/project"
	"mailroom/store"
)

// maxRecipients bounds the agents named in the answer to a broadcast.
const maxRecipients = 1000

// Notified is the result of a Notify. To lists the recipients, ordered by name; of a broadcast, the
// first maxRecipients with an inbox.
type Notified struct {
	Seq int64
	To  []string
}

// Notify sends a notification to agents of a project and creates the project if there is none.
// Named agents without an inbox get one.
func (ps Projects) Notify(ctx context.Context, in project.Notify) (Notified, error) {
	if err := in.Check(); err != nil {
		return Notified{}, err
	}
	notify := func(tx *transaction, p *project.State) (Notified, error) {
		return tx.notify(p, in)
	}
	return onProject(ctx, ps.ledger, "notify", in.Project, in.Size(), notify)
}

func (tx *transaction) notify(p *project.State, in project.Notify) (Notified, error) {
	if err := tx.rows.loadKey(p.Thread, in.Key); err != nil {
		return Notified{}, err
	}
	if err := p.CheckAccess(in.By, "from", in.From); err != nil {
		return Notified{}, err
	}
	to, err := tx.findRecipients(p, &in)
	if err != nil {
		return Notified{}, err
	}
	repeat := p.Thread.Keys.Has(in.Key)
	if !repeat {
		if err := tx.checkNotifyQuota(p, &in, to); err != nil {
			return Notified{}, err
		}
	}
	before := p.Thread.LastSeq
	seq, err := p.Notify(in, tx.now())
	if err != nil {
		return Notified{}, err
	}
	if _, err := tx.ensureInbox(p, in.From, in.By); err != nil {
		return Notified{}, err
	}
	for _, name := range to.missing {
		tx.addInbox(p, name, project.Inbox{Read: before})
	}
	if !repeat {
		project.CountUnread(p.Thread, in.By.Name, to.inboxes)
	}
	return Notified{Seq: seq, To: to.names}, nil
}

// recipients are the recipients of a notification.
type recipients struct {
	names   []string // names as in Notified
	missing []string // names without an inbox
	inboxes int64    // inboxes that receive it
	begins  int64    // inboxes created with it
}

// findRecipients determines the recipients of a notification. The cost of a broadcast grows with
// maxRecipients, not with the number of inboxes, which the project's row has.
func (tx *transaction) findRecipients(p *project.State, in *project.Notify) (to recipients, err error) {
	sender, err := tx.cursors(store.CursorQuery{Channel: p.Thread.ID, Identities: []string{in.From}})
	if err != nil {
		return to, err
	}
	if len(sender) == 0 {
		to.begins = 1
	}
	if len(in.To) == 0 {
		boxes, err := tx.cursors(store.CursorQuery{Channel: p.Thread.ID, Limit: maxRecipients + 1})
		for _, c := range boxes {
			if c.Identity != in.From {
				to.names = append(to.names, c.Identity)
			}
		}
		slices.Sort(to.names)
		to.names = to.names[:min(len(to.names), maxRecipients)]
		to.inboxes = p.Thread.Inboxes - int64(len(sender))
		return to, err
	}
	names := slices.Clone(in.To)
	slices.Sort(names)
	to.names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == in.From })
	if len(to.names) == 0 {
		return to, nil
	}
	boxes, err := tx.cursors(store.CursorQuery{Channel: p.Thread.ID, Identities: to.names})
	there := map[string]bool{}
	for _, c := range boxes {
		there[c.Identity] = true
	}
	for _, name := range to.names {
		if !there[name] {
			to.missing = append(to.missing, name)
		}
	}
	to.inboxes = int64(len(to.names))
	to.begins += int64(len(to.missing))
	return to, err
}

// checkNotifyQuota is checkQuota for a notification: its size counts for the project's owner, and
// its inboxes for the sender.
func (tx *transaction) checkNotifyQuota(p *project.State, in *project.Notify, to recipients) error {
	if err := tx.checkProjectQuota(p, in.By, in.Size()); err != nil {
		return err
	}
	if err := p.CheckInboxLimit(to.begins); err != nil {
		return err
	}
	return tx.checkQuota(in.By.Name, auth.Use{Notifications: to.inboxes})
}

// Received is a notification in an inbox.
type Received struct {
	Seq int64
	At  time.Time
	project.Notification
}

// InboxQuery selects an agent's unread notifications, oldest first. With Consume they are marked as
// read. The first token that reads an inbox becomes its reader.
type InboxQuery struct {
	Project string
	Agent   string
	By      *auth.Token
	Limit   int // most notifications to return, at least 1
	Bytes   int // total size, unless the first is larger; 0: mailroom.MaxPage
	Consume bool
	After   int64 // without Consume: only seqs above it
}

// InboxPage is one page of an inbox.
type InboxPage struct {
	Found []Received
	Next  int64 // the After of the next page; 0: none
}

// Inbox returns an agent's unread notifications. The first call creates the inbox of an agent in an
// existing project. With Consume it creates the project too, so that the agent gets what is sent later.
func (ps Projects) Inbox(ctx context.Context, in InboxQuery) (InboxPage, error) {
	if in.Bytes == 0 {
		in.Bytes = mailroom.MaxPage
	}
	thread, err := project.ThreadID(in.Project)
	if err != nil {
		return InboxPage{}, err
	}
	if in.Consume {
		in.After = 0
	}
	for {
		found, err := ps.readInbox(ctx, thread, in)
		if err != nil || len(found.Found) > 0 || found.Next == 0 {
			return found, err
		}
		if !in.Consume { // a consuming read has moved the inbox
			in.After = found.Next
		}
	}
}

// readInbox reads a bounded part of an inbox. An empty result with Next means that this part has
// only notifications for others.
func (ps Projects) readInbox(ctx context.Context, thread string, in InboxQuery) (InboxPage, error) {
	if !in.Consume {
		if found, ok, err := ps.viewInbox(ctx, thread, in); ok || err != nil {
			return found, err
		}
	}
	return onProject(ctx, ps.ledger, "inbox", in.Project, 0, func(tx *transaction, p *project.State) (InboxPage, error) {
		box, err := tx.openInbox(p, in.Agent, in.By)
		if err != nil {
			return InboxPage{}, err
		}
		found, upto, err := readUnread(tx.rows.stored, thread, box, in)
		if err != nil || !in.Consume || upto <= box.Read {
			return found, err
		}
		for _, one := range found.Found {
			project.CountUnread(p.Thread, one.By, -1)
		}
		box.Advance(upto)
		tx.saveInbox(thread, in.Agent, box)
		return found, nil
	})
}

// viewInbox reads an existing inbox without a write transaction. ok is false if a transaction is
// needed.
func (ps Projects) viewInbox(ctx context.Context, thread string, in InboxQuery) (found InboxPage, ok bool, err error) {
	err = ps.ledger.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if ok = err == nil && (len(rows) == 0 || !in.By.CanSee(rows[0])); err != nil || ok {
			return err
		}
		cursors, err := r.Cursors(store.CursorQuery{Channel: thread, Identities: []string{in.Agent}})
		if err != nil || len(cursors) == 0 {
			return err
		}
		box, err := project.DecodeInbox(rows[0], cursors[0])
		if err != nil || box.Owner == "" {
			return err
		}
		if err := box.CheckReader(in.By); err != nil {
			return err
		}
		ok = true
		found, _, err = readUnread(r, thread, box, in)
		return err
	})
	return found, ok, err
}

// Acknowledge marks notifications of an agent as read, by their seqs.
func (ps Projects) Acknowledge(ctx context.Context, projectName, agent string, by *auth.Token, seqs []int64) error {
	acknowledge := func(tx *transaction, p *project.State) (struct{}, error) {
		last := p.Thread.LastSeq
		if p.IsHidden(by) { // answers as if the project had no notifications
			last = 0
		}
		for _, seq := range seqs {
			if seq < 1 || seq > last {
				return struct{}{}, mailroom.Errorf(mailroom.CodeInvalid, "no notification %d in project %q", seq, projectName)
			}
		}
		found, err := findInbox(tx, p, agent, by)
		if err != nil {
			return struct{}{}, err
		}
		box := found.box
		read, err := tx.unreadAt(p, agent, box, seqs)
		if err != nil {
			return struct{}{}, err
		}
		if err := box.Acknowledge(seqs...); err != nil {
			return struct{}{}, err
		}
		first, upto, err := readUnread(tx.rows.stored, p.Thread.ID, box,
			InboxQuery{Agent: agent, Limit: 1, Bytes: mailroom.MaxPage})
		if err != nil {
			return struct{}{}, err
		}
		createInbox(tx, p, agent, by, found) // from here on no check refuses the operation
		for _, n := range read {
			project.CountUnread(p.Thread, n.By, -1)
		}
		if len(first.Found) > 0 {
			upto = first.Found[0].Seq - 1
		}
		box.Advance(upto)
		tx.saveInbox(p.Thread.ID, agent, box)
		return struct{}{}, nil
	}
	_, err := onProject(ctx, ps.ledger, "acknowledge", projectName, 0, acknowledge)
	return err
}

// unreadPage is how many notifications one query reads.
const unreadPage = 200

// maxUnread is how many notifications one transaction or view reads, including those for others.
const maxUnread = 5000

// readUnread reads an inbox. Up to upto, it has no unread notification besides those returned.
func readUnread(r store.Reader, thread string, box project.Inbox,
	in InboxQuery) (out InboxPage, upto int64, err error) {
	rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
	if err != nil || len(rows) == 0 {
		return out, 0, err
	}
	size, looked := 0, 0
	for after := max(box.Read, in.After); ; looked += unreadPage {
		if looked >= maxUnread {
			out.Next = after
			return out, after, nil
		}
		page, err := r.Entries(store.EntryQuery{Thread: thread, After: after, Kinds: []string{entry.KindNotification},
			Limit: unreadPage, Bytes: in.Bytes})
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
			if size += len(e.Raw); size > in.Bytes && len(out.Found) > 0 {
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

// foundInbox is the inbox of an agent, or what a new one would be. A refusal undoes nothing, so looking
// for an inbox creates none.
type foundInbox struct {
	box    project.Inbox
	isNew  bool // the store has no row yet
	reader bool // the caller becomes the first reader
}

// findInbox returns the inbox of an agent, which by must be allowed to read.
func findInbox(tx *transaction, p *project.State, agent string, by *auth.Token) (foundInbox, error) {
	if err := p.CheckAccess(by, "agent", agent); err != nil {
		return foundInbox{}, err
	}
	found, err := lookUpInbox(tx, p, agent, by)
	if err != nil {
		return found, err
	}
	return found, found.box.CheckReader(by)
}

// lookUpInbox returns the inbox of an agent. A new inbox starts with the next notification.
func lookUpInbox(tx *transaction, p *project.State, agent string, by *auth.Token) (found foundInbox, err error) {
	rows, err := tx.cursors(store.CursorQuery{Channel: p.Thread.ID, Identities: []string{agent}})
	if err != nil {
		return found, err
	}
	found.box, found.isNew = project.Inbox{Read: p.Thread.LastSeq}, len(rows) == 0
	if !found.isNew {
		if found.box, err = project.DecodeInbox(&p.Thread.Thread, rows[0]); err != nil || found.box.Owner != "" {
			return found, err
		}
	}
	if err := tx.checkProjectQuota(p, by, 0); err != nil {
		return found, err
	}
	if found.isNew {
		if err := p.CheckInboxLimit(1); err != nil {
			return found, err
		}
	}
	found.reader, found.box.Owner = true, by.Name
	return found, nil
}

// createInbox creates what is missing of an inbox that was found, and its project.
func createInbox(tx *transaction, p *project.State, agent string, by *auth.Token, found foundInbox) {
	if !found.reader {
		return
	}
	p.Create(by, tx.now())
	if found.isNew {
		tx.addInbox(p, agent, found.box)
	} else {
		tx.saveInbox(p.Thread.ID, agent, found.box)
	}
}

// ensureInbox returns the inbox of an agent and creates it if there is none.
func (tx *transaction) ensureInbox(p *project.State, agent string, by *auth.Token) (project.Inbox, error) {
	found, err := lookUpInbox(tx, p, agent, by)
	if err == nil {
		createInbox(tx, p, agent, by, found)
	}
	return found.box, err
}

// checkInboxLimit returns an error if the agent has no inbox and the project has no room for
// another.
func (tx *transaction) checkInboxLimit(p *project.State, agent string) error {
	full := p.CheckInboxLimit(1)
	if full == nil {
		return nil
	}
	rows, err := tx.cursors(store.CursorQuery{Channel: p.Thread.ID, Identities: []string{agent}})
	if err != nil || len(rows) > 0 {
		return err
	}
	return full
}

func (tx *transaction) addInbox(p *project.State, agent string, box project.Inbox) {
	p.AddInbox()
	tx.saveInbox(p.Thread.ID, agent, box)
}

// openInbox returns the inbox of an agent, which by must be allowed to read, and creates it if there is
// none.
func (tx *transaction) openInbox(p *project.State, agent string, by *auth.Token) (project.Inbox, error) {
	found, err := findInbox(tx, p, agent, by)
	if err == nil {
		createInbox(tx, p, agent, by, found)
	}
	return found.box, err
}

func (tx *transaction) saveInbox(thread, agent string, box project.Inbox) {
	raw, err := json.Marshal(box)
	if err != nil {
		panic(err) // numbers and a name
	}
	tx.moveCursor(store.Cursor{Channel: thread, Identity: agent, Position: raw})
}
