package doctor

import (
	"maps"

	"mailroom"
	"mailroom/entry"
	"mailroom/project"
	"mailroom/store"
)

// inboxes checks a project's numbers of inboxes and of unread notifications per token. In one view
// it reads the log from the lowest read position of the inboxes.
func (p *checker) inboxes() error {
	if _, ok := project.NameOf(p.t.ID); !ok {
		if p.t.Inboxes != 0 || len(p.t.Unread) > 0 {
			p.bad(Use, "its row has %d inboxes, but it is not a project", p.t.Inboxes)
		}
		return nil
	}
	rows, err := p.r.Cursors(store.CursorQuery{Channel: p.t.ID})
	if err != nil {
		return err
	}
	if p.t.Lapsed > p.t.LastSeq {
		p.bad(Use, "its row says that entries up to %d lapsed in inboxes, beyond the last entry %d", p.t.Lapsed, p.t.LastSeq)
	}
	boxes, from := map[string]project.Inbox{}, p.t.LastSeq
	for _, row := range rows {
		box, err := project.DecodeInbox(p.t, row)
		if err != nil {
			p.bad(Use, "the inbox of %q cannot be read: %v", row.Identity, err)
			return nil
		}
		boxes[row.Identity] = box
		from = min(from, box.Read)
	}
	if n := int64(len(rows)); n != p.t.Inboxes {
		p.bad(Use, "it has %d inboxes, its row says %d", n, p.t.Inboxes)
	}
	unread, err := p.unread(boxes, from)
	if err == nil && !maps.Equal(unread, p.t.Unread) {
		p.bad(Use, "its inboxes hold unread notifications %v, its row says %v", unread, p.t.Unread)
	}
	return err
}

// unread counts, by token, the notifications after the entry number after that their inbox in boxes has not read.
func (p *checker) unread(boxes map[string]project.Inbox, after int64) (map[string]int64, error) {
	unread := map[string]int64{}
	for {
		page, err := p.r.Entries(store.EntryQuery{Thread: p.t.ID, After: after, Kinds: []string{entry.KindNotification},
			Limit: batch, Bytes: mailroom.MaxPage})
		if err != nil || len(page) == 0 {
			return unread, err
		}
		for i := range page {
			after = page[i].Seq
			var n project.Notification
			if err := page[i].Decode(&n); err != nil {
				p.bad(Seq, "entry %d, %s, cannot be read: %v", after, page[i].Kind, err)
				continue
			}
			if held := n.UnreadIn(boxes, after); held > 0 && n.By != "" {
				unread[n.By] += held
			}
		}
	}
}
