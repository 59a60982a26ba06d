package project

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
	"mailroom/thread"
)

// Notification is an event that an agent sends to other agents of its project, and the body of its
// log entry. All agents but the sender receive it, or only those in To.
type Notification struct {
	From  string          `json:"from"`
	By    string          `json:"by,omitempty"` // name of the token that sent it, set by Notify
	To    []string        `json:"to,omitempty"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// Limits of notifications.
const (
	MaxEvent   = 200     // characters
	MaxData    = 1 << 20 // bytes
	MaxTo      = 100     // names
	MaxPending = 1000    // notifications of an inbox read out of order
	MaxInboxes = 10_000  // inboxes of a project
	// LapseAfter is how long an unread notification stays in inboxes.
	LapseAfter = 30 * 24 * time.Hour
)

// Notify is a request to send a notification.
type Notify struct {
	Project string
	Notification
	By  *auth.Token // caller; owns the project if the request creates it
	Key string      // idempotency key, see Submit
}

// Check fills in defaults and validates in.
func (in *Notify) Check() error {
	switch {
	case in.Event == "" || !check.IsClean(in.Event) || utf8.RuneCountInString(in.Event) > MaxEvent:
		return check.Invalid("event", fmt.Sprintf("must be text of 1 to %d characters", MaxEvent), in.Event)
	case utf8.RuneCountInString(in.Key) > mailroom.MaxSubmitKey || !check.IsClean(in.Key):
		return check.Invalid("key", fmt.Sprintf("must be text of at most %d characters", mailroom.MaxSubmitKey), in.Key)
	case len(in.To) > MaxTo:
		return check.Invalid("to", fmt.Sprintf("has more than %d names", MaxTo), len(in.To))
	}
	for _, name := range in.To {
		if err := checkAgentName("to", name); err != nil {
			return err
		}
	}
	if len(in.Data) == 0 {
		in.Data = json.RawMessage("null")
	}
	return check.JSON("data", in.Data, MaxData)
}

// Size returns the size of the event and its data in bytes.
func (in *Notify) Size() int { return len(in.Event) + len(in.Data) }

// Notify appends the notification to the project's log and returns its seq. If the project's
// inboxes are known, the inboxes of the names in To must exist. A known Key returns the first seq.
func (p *State) Notify(in Notify, now time.Time) (seq int64, err error) {
	if err := in.Check(); err != nil {
		return 0, err
	}
	if err := p.CheckAccess(in.By, "from", in.From); err != nil {
		return 0, err
	}
	content := in.Notification
	content.By = ""
	sum := digest.Short(content)
	content.By = in.By.Name
	if out, repeat, err := p.Thread.Keys.Find(in.Key, sum); repeat || err != nil {
		return out.Seq, err
	}
	seq = p.appendEvent(in.By, entry.KindNotification, content, now)
	p.Thread.Keys.Record(in.Key, sum, store.Submitted{Thread: p.Thread.ID, Seq: seq,
		Disposition: store.DispositionNotified})
	return seq, nil
}

// Inbox records how far an agent has read a project's notifications. It is stored as the position
// of a Cursor whose channel is the project's thread and whose identity is the agent. An agent with
// an inbox is known in the project.
type Inbox struct {
	Owner string `json:"owner"` // name of the token that reads it; "" until the first read
	// Read is the seq up to which everything was read. Done lists later ones that were read out of
	// order, in ascending order.
	Read int64   `json:"read"`
	Done []int64 `json:"done,omitempty"`
}

// CheckReader returns an error unless the token may read the inbox.
func (b *Inbox) CheckReader(by *auth.Token) error {
	if b.Owner == "" || b.Owner == by.Name || by.Has(auth.PermissionAdmin) {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeForbidden, "this inbox belongs to another token: use a different agent name")
}

// Unread reports whether n, at entry seq, is addressed to agent and unread.
func (b *Inbox) Unread(agent string, seq int64, n *Notification) bool {
	_, done := slices.BinarySearch(b.Done, seq)
	return seq > b.Read && !done && n.From != agent && (len(n.To) == 0 || slices.Contains(n.To, agent))
}

// Acknowledge marks notifications as read. It refuses more than MaxPending that were read out of
// order.
func (b *Inbox) Acknowledge(seqs ...int64) error {
	done := slices.Clone(b.Done)
	for _, seq := range seqs {
		if seq > b.Read {
			done = append(done, seq)
		}
	}
	slices.Sort(done)
	if done = slices.Compact(done); len(done) > MaxPending {
		return mailroom.Errorf(mailroom.CodeTooLarge,
			"more than %d notifications were acknowledged before older ones: acknowledge the older ones first", MaxPending)
	}
	b.Done = done
	return nil
}

// Advance marks everything up to seq as read.
func (b *Inbox) Advance(seq int64) {
	b.Read = max(b.Read, seq)
	b.Done = slices.DeleteFunc(b.Done, func(s int64) bool { return s <= b.Read })
}

// DecodeInbox decodes the inbox stored in c, advanced past expired notifications.
func DecodeInbox(t *mailroom.Thread, c store.Cursor) (box Inbox, err error) {
	err = json.Unmarshal(c.Position, &box)
	box.Advance(t.Lapsed)
	return box, err
}

// Lapse removes the notifications up to entry seq from all inboxes of the project.
//
// Inboxes of agents that never return would use up the quota of every sender. Only time makes a
// notification lapse: if new notifications displaced old ones, one sender could push out the
// notifications of others.
func Lapse(t *thread.State, seq int64) {
	t.Lapsed = max(t.Lapsed, seq)
	t.Touch()
}

// UnreadIn counts the inboxes, keyed by agent, in which n, at entry seq, is unread.
func (n *Notification) UnreadIn(boxes map[string]Inbox, seq int64) (count int64) {
	if len(n.To) == 0 {
		for agent, box := range boxes {
			if box.Unread(agent, seq, n) {
				count++
			}
		}
		return count
	}
	for i, agent := range n.To {
		if box, ok := boxes[agent]; ok && !slices.Contains(n.To[:i], agent) && box.Unread(agent, seq, n) {
			count++
		}
	}
	return count
}

// CountUnread adds more, which may be negative, to the count of unread notifications sent by a
// token. Entries from before the token was recorded are not counted.
func CountUnread(t *thread.State, by string, more int64) {
	if by == "" || more == 0 {
		return
	}
	if t.Unread == nil {
		t.Unread = map[string]int64{}
	}
	if t.Unread[by] += more; t.Unread[by] == 0 {
		delete(t.Unread, by)
	}
	if len(t.Unread) == 0 {
		t.Unread = nil
	}
	t.Touch()
}

// CheckInboxLimit returns an error if the project cannot have so many more inboxes.
func (p *State) CheckInboxLimit(inboxes int64) error {
	if inboxes > 0 && p.Thread.Inboxes+inboxes > MaxInboxes {
		return mailroom.Errorf(mailroom.CodeTooLarge,
			"a project has at most %d inboxes, one per agent name: reuse names, or use another project", MaxInboxes)
	}
	return nil
}

// AddInbox counts a new inbox.
func (p *State) AddInbox() {
	p.Thread.Inboxes++
	p.Thread.Touch()
}
