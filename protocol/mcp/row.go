package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Row is a message of an inbox.
type Row struct {
	Activity    string       `json:"activity_id"` // the run
	Kind        string       `json:"kind"`
	Text        string       `json:"text"`
	Peer        string       `json:"peer_id"`              // thread to delegate an answer to; "" for a person
	Workspace   string       `json:"arrival_workspace_id"` // the thread
	CreatedAt   time.Time    `json:"created_at"`
	Sender      string       `json:"sender"`
	Delegation  string       `json:"delegation_id,omitempty"` // for a result: the delegated run
	Status      string       `json:"status,omitempty"`        // for a result: the status of the run
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file in a message.
type Attachment struct {
	URI      string `json:"uri"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
}

// row returns the message of a run, or nil if all of it was retracted. If head is set, the run is at the head of the
// inbox and may have received further messages.
func (b *box) row(ctx context.Context, run string, head bool) (*Row, error) {
	r, err := b.c.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	messages, err := b.messages(ctx, r.Messages)
	if err != nil {
		return nil, err
	}
	if head {
		more, err := b.addedMessages(ctx, r, messages)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	if len(messages) == 0 {
		return nil, nil
	}
	row := &Row{
		Activity: r.ID, Kind: inbox.KindOf(r.Origin), Workspace: b.thread,
		CreatedAt: messages[0].CreatedAt, Sender: messages[0].Sender,
	}
	if row.Kind == inbox.FromPeer && r.Parent != nil {
		parent, err := b.c.Run(ctx, *r.Parent)
		if err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return nil, err
		}
		row.Peer = parent.Thread
	}
	return row, b.addContent(ctx, row, messages)
}

// messages returns the messages that were not retracted or superseded.
func (b *box) messages(ctx context.Context, ids []string) ([]mailroom.Message, error) {
	var out []mailroom.Message
	for _, id := range ids {
		m, err := b.c.Message(ctx, b.thread, id)
		if err != nil {
			return nil, err
		}
		if m.State != mailroom.MessageRetracted && m.State != mailroom.MessageSuperseded {
			out = append(out, m)
		}
	}
	return out, nil
}

// addedMessages returns the messages that a run received after it started.
func (b *box) addedMessages(ctx context.Context, r api.Run, known []mailroom.Message) ([]mailroom.Message, error) {
	q := client.EntriesQuery{Run: r.ID, Kinds: []string{entry.KindMessage}, Limit: 500}
	if len(known) > 0 {
		q.After = known[0].Seq - 1
	}
	var ids []string
	for e, err := range b.c.EachEntry(ctx, b.thread, q) {
		if err != nil {
			return nil, err
		}
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			return nil, mailroom.Errorf(mailroom.CodeInternal, "read entry %d of thread %q: %w", e.Seq, b.thread, err)
		}
		if m.Role != mailroom.RoleAssistant && !slices.Contains(r.Messages, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return b.messages(ctx, ids)
}

// addContent adds the content of the messages to the row.
func (b *box) addContent(ctx context.Context, row *Row, messages []mailroom.Message) error {
	var texts []string
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p.Type {
			case "text":
				texts = append(texts, p.Text)
			case "file":
				row.Attachments = append(row.Attachments, Attachment{URI: p.URI, Name: p.Name, MimeType: p.MimeType})
			case "data":
				text, err := b.dataText(ctx, row, p.Data)
				if err != nil {
					return err
				}
				texts = append(texts, text)
			}
		}
	}
	row.Text = strings.Join(texts, "\n")
	return nil
}

// dataText returns a data part as text: the result of a delegation as its reply, anything else as JSON.
func (b *box) dataText(ctx context.Context, row *Row, raw json.RawMessage) (string, error) {
	var end struct {
		Run, Thread string
		Status      mailroom.Status
		Reply       *string
		Cut         bool
		Error       *mailroom.RunError
		Reason      mailroom.Reason
	}
	if row.Kind != inbox.FromResult || json.Unmarshal(raw, &end) != nil || end.Run == "" {
		var plain bytes.Buffer
		if json.Compact(&plain, raw) != nil {
			return string(raw), nil
		}
		return plain.String(), nil
	}
	row.Peer, row.Delegation, row.Status = end.Thread, end.Run, string(end.Status)
	if end.Cut { // the message has only its beginning
		r, err := b.c.Run(ctx, end.Run)
		if err != nil {
			return "", err
		}
		end.Reply = r.Reply
	}
	switch {
	case end.Reply != nil && end.Status == mailroom.StatusCompleted:
		return *end.Reply, nil
	case end.Error != nil:
		return fmt.Sprintf("(%s failed: %s)", row.Sender, end.Error.Message), nil
	case end.Status != mailroom.StatusCompleted:
		return fmt.Sprintf("(%s ended %s)", row.Sender, cmp.Or(string(end.Reason), string(end.Status))), nil
	}
	return fmt.Sprintf("(%s returned empty output)", row.Sender), nil
}

// Rows is the result of inbox_peek.
type Rows struct {
	Items []*Row `json:"items"`
	Total int    `json:"total"` // messages in the inbox
}

// peekSize is the amount of text, in bytes, after which no more messages are added.
const peekSize = 1 << 20

// peek returns the message at the head of the inbox and the messages behind it, in order.
func (b *box) peek(ctx context.Context, limit int) (Rows, error) {
	out := Rows{Items: []*Row{}}
	if _, err := b.open(ctx); err != nil {
		return out, err
	}
	runs, k, err := b.waiting(ctx)
	if err != nil {
		return out, err
	}
	out.Total = len(runs)
	size := 0
	for _, run := range runs[:min(limit, len(runs))] {
		row, err := b.row(ctx, run, k != nil && run == k.Run)
		if err != nil {
			return out, err
		}
		if row == nil {
			continue
		}
		out.Items = append(out.Items, row)
		if size += len(row.Text); size >= peekSize {
			break
		}
	}
	return out, nil
}

// queue returns the runs that are due and have not started, in the order in which they will start.
// Commands are not messages and are excluded.
func (b *box) queue(ctx context.Context) ([]api.Run, error) {
	var all []api.Run
	q := client.ListQuery{Q: "status:queued thread:" + client.Quote(b.thread), Limit: 500}
	for r, err := range client.Each(ctx, b.c.Runs, q) {
		if err != nil {
			return nil, err
		}
		if r.Attempt == 0 && !isScheduled(r) && !inbox.IsCommand(r.Options) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Run) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Place, b.Place))
	})
	return all, nil
}
