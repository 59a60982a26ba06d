package mailroom

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Notification is what an agent tells the others of a project, and the body of its
// entry. All get it but the sender, or those in To.
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
	MaxPending = 1000    // that an inbox remembers as read before an older one
	MaxInboxes = 10_000  // of a project
	// LapseAfter is how long inboxes hold a notification that is not read.
	LapseAfter = 30 * 24 * time.Hour
)

// Notify asks to tell something.
type Notify struct {
	Project string
	Notification
	By  *Token // who asks, and owns the project if this makes it
	Key string // recognises a repeat, see Submit
}

// Check fills in defaults and refuses what breaks a rule by itself.
func (in *Notify) Check() error {
	switch {
	case in.Event == "" || !cleanText(in.Event) || utf8.RuneCountInString(in.Event) > MaxEvent:
		return invalid("event", fmt.Sprintf("must be text of 1 to %d characters", MaxEvent), in.Event)
	case utf8.RuneCountInString(in.Key) > MaxSubmitKey || !cleanText(in.Key):
		return invalid("key", fmt.Sprintf("must be text of at most %d characters", MaxSubmitKey), in.Key)
	case len(in.To) > MaxTo:
		return invalid("to", fmt.Sprintf("has more than %d names", MaxTo), len(in.To))
	}
	for _, name := range in.To {
		if err := checkAgentName("to", name); err != nil {
			return err
		}
	}
	if len(in.Data) == 0 {
		in.Data = json.RawMessage("null")
	}
	return checkJSON("data", in.Data, MaxData)
}

// Size is how many bytes it carries.
func (in *Notify) Size() int { return len(in.Event) + len(in.Data) }

// Notify writes it into the project's log and returns its seq. Who knows the
// project's inboxes must have those of the names in To made before. A Key seen
// before answers with the first seq.
func (p *Project) Notify(in Notify, now time.Time) (seq int64, err error) {
	if err := in.Check(); err != nil {
		return 0, err
	}
	if err := p.CheckAccess(in.By, "from", in.From); err != nil {
		return 0, err
	}
	told := in.Notification
	told.By = ""
	sum := digest(told)
	told.By = in.By.Name
	if k, ok := p.known[in.Key]; ok && in.Key != "" {
		out, err := p.answerRepeat(k, sum)
		return out.Seq, err
	}
	seq = p.appendEvent(in.By, KindNotification, told, now)
	if in.Key != "" {
		k := SubmitKey{Thread: p.ID, Key: in.Key, Digest: sum, Result: Submitted{Thread: p.ID, Seq: seq, Disposition: DispositionNotified}}
		p.known[in.Key] = k
		p.keys = append(p.keys, k)
	}
	return seq, nil
}

// Inbox is how far an agent has read a project's notifications: the position of its
// Cursor, whose channel is the project's thread and whose identity is the agent. An
// agent that has one is known in the project.
type Inbox struct {
	Owner string `json:"owner"` // the token that reads it; "" until one does
	// Read is the seq up to which nothing is left to be read, and Done are those
	// after it that were read out of turn.
	Read int64   `json:"read"`
	Done []int64 `json:"done,omitempty"`
}

// CheckReader refuses who is not the inbox's reader.
func (b *Inbox) CheckReader(by *Token) error {
	if b.Owner == "" || b.Owner == by.Name || by.Has(PermissionAdmin) {
		return nil
	}
	return Errorf(CodeForbidden, "this inbox is read with another token: give the agent a name of its own")
}

// Unread reports whether n, the entry seq, is for agent and was not read by it.
func (b *Inbox) Unread(agent string, seq int64, n *Notification) bool {
	_, done := slices.BinarySearch(b.Done, seq)
	return seq > b.Read && !done && n.From != agent && (len(n.To) == 0 || slices.Contains(n.To, agent))
}

// Acknowledge notes that some were read. It refuses to remember too many that were
// read before older ones.
func (b *Inbox) Acknowledge(seqs ...int64) error {
	done := slices.Clone(b.Done)
	for _, seq := range seqs {
		if seq > b.Read {
			done = append(done, seq)
		}
	}
	slices.Sort(done)
	if done = slices.Compact(done); len(done) > MaxPending {
		return Errorf(CodeTooLarge, "more than %d notifications were acknowledged before older ones: acknowledge the older ones first", MaxPending)
	}
	b.Done = done
	return nil
}

// Advance notes that nothing up to seq is left to be read.
func (b *Inbox) Advance(seq int64) {
	b.Read = max(b.Read, seq)
	b.Done = slices.DeleteFunc(b.Done, func(s int64) bool { return s <= b.Read })
}

// Inbox returns the inbox of the project that a cursor is, without what has lapsed.
func (t *Thread) Inbox(c Cursor) (box Inbox, err error) {
	err = json.Unmarshal(c.Position, &box)
	box.Advance(t.Lapsed)
	return box, err
}

// Lapse notes that no inbox of the project holds anything up to the entry seq.
func (t *ThreadState) Lapse(seq int64) {
	t.Lapsed = max(t.Lapsed, seq)
	t.touchRow()
}

// UnreadIn is how many of these inboxes, by agent, hold n, the entry seq, unread.
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

// CountUnread notes that the inboxes of the project hold more notifications of a token
// unread, below 0 fewer. Those of logs that do not tell the token count for nobody.
func (t *ThreadState) CountUnread(by string, more int64) {
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
	t.touchRow()
}

// CheckInboxLimit refuses more inboxes than a project may have.
func (p *Project) CheckInboxLimit(inboxes int64) error {
	if inboxes > 0 && p.Inboxes+inboxes > MaxInboxes {
		return Errorf(CodeTooLarge, "a project has at most %d inboxes, one for each name of an agent: use names again, or another project", MaxInboxes)
	}
	return nil
}

// AddInbox counts an inbox that the project did not have.
func (p *Project) AddInbox() {
	p.Inboxes++
	p.touchRow()
}
