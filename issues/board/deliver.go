package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/internal/digest"
	"mailroom/issues/feed"
	"mailroom/store"
)

// Kinds of the entries that deliveries append.
const (
	kindUnsent = "x.board.unsent" // note: the issue does not exist any more
	kindMark   = "x.board.mark"   // markNote: a mark was written
)

// note is the body of a kindUnsent entry.
type note struct {
	Reason string `json:"reason"`
}

// markNote is the body of a kindMark entry.
type markNote struct {
	Key  string `json:"key"` // submit key of the claim
	Run  string `json:"run"` // of the claim
	Mark Mark   `json:"mark"`
	// UpdatedAt is the issue's time of its last change after the mark was written, and Shown the digest of what it showed
	// then. An issue that shows something else since is a reopened one. Its time alone does not say that: it has
	// seconds, and comments change it too.
	UpdatedAt time.Time `json:"updated_at"`
	Shown     string    `json:"shown"`
}

// shown returns the digest of what decides whether an agent may start: not the comments, and not the time.
func shown(it Issue) string {
	return digest.Short([]any{it.State, it.Labels, it.Assignees, content(it)})
}

// lastMark returns the last end that was shown at the issue of a thread; zero: none.
func lastMark(rd store.Reader, thread string) (m markNote, err error) {
	entries, err := rd.Entries(store.EntryQuery{Thread: channel.DeliveryThreadID(thread), Kinds: []string{kindMark},
		Backward: true, Limit: 1})
	if err != nil || len(entries) == 0 {
		return m, err
	}
	if err := entries[0].Decode(&m); err != nil {
		return markNote{}, nil // written by another version
	}
	return m, nil
}

// Deliver implements [channel.Adapter]. A message or a question becomes a comment, which is looked up by its hidden key
// before it is written again. A mark of the feed itself shows the state of a claim. The issue is read again before
// each write.
func (c *connection) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	id, err := issueOf(c.host.Name(), d.Run.Thread)
	if err != nil {
		return httpcall.Permanent(err)
	}
	it, reason, err := c.readFor(ctx, id, d)
	switch {
	case err != nil:
		return httpcall.Unavailable(err)
	case reason != "":
		c.host.Log().Info("comment not written; the thread has the text", "run", d.Run.ID, "reason", reason)
		return appendEntry(ctx, s, kindUnsent, note{Reason: reason})
	}
	labels := d.Run.Metadata
	if text := c.commentText(d); text != "" {
		if err := c.comment(ctx, s, id, text); err != nil {
			return err
		}
	}
	if labels[labelMark] != "" {
		if err := c.show(ctx, s, it, labels); err != nil {
			return err
		}
	}
	return nil
}

// readFor reads the issue of a delivery. reason says why nothing is written to it; "" if it can be written.
func (c *connection) readFor(ctx context.Context, id string, d channel.Delivery) (it Issue, reason string, err error) {
	it, err = c.board.Issue(ctx, id)
	native := d.Run.Metadata[labelNative]
	if native == "" && d.Origin != nil {
		native = d.Origin.Metadata[labelNative]
	}
	switch {
	case errors.Is(err, ErrGone):
		return it, ErrGone.Error(), nil
	case err != nil:
		return it, "", err
	case it.ID != id || native != "" && native != it.Native:
		return it, "another issue has its id now", nil
	}
	return it, "", nil
}

// commentText returns the comment for a delivery, "" for none.
func (c *connection) commentText(d channel.Delivery) string {
	switch {
	case d.Run.Metadata[labelMark] != "" && d.Run.Metadata[labelComment] == "", d.Ended:
		return ""
	case d.Ticket != nil:
		return feed.QuestionText(c.options.Command, d)
	}
	return feed.CommentText(d.Text, d.Run, maxComment)
}

// comment writes a comment once. If an earlier attempt does not know whether it wrote the comment, the comment is
// looked up first.
func (c *connection) comment(ctx context.Context, s mailroom.Session, id, text string) error {
	of := func(key string) Comment {
		return Comment{Issue: id, Key: key, Text: text, Since: s.Run().CreatedAt}
	}
	_, err := s.Do(ctx, mailroom.Effect{
		Name: "comment",
		Reconcile: func(ctx context.Context, key string) (json.RawMessage, bool, error) {
			found, err := c.board.FindComment(ctx, of(key))
			if err != nil {
				err = httpcall.Unavailable(err)
			}
			return nil, found, err
		},
	}, func(ctx context.Context, key string) (json.RawMessage, error) {
		return nil, c.board.Comment(ctx, of(key))
	})
	if err == nil {
		c.host.Sent()
	}
	return err
}

// show marks an issue. A run that was retried since keeps the mark of a claim, and an issue that a person closed, took
// over or took back by its labels keeps what that person set.
func (c *connection) show(ctx context.Context, s mailroom.Session, it Issue, labels map[string]string) error {
	m := Mark(labels[labelMark])
	running, err := c.running(ctx, labels[labelRun])
	switch {
	case err != nil:
		return err
	case running != (m == MarkWorking):
		return nil
	case m == MarkWorking && (it.State == StateClosed || !c.accepts(it)):
		return nil
	case m != MarkWorking && (it.State == StateClosed || !c.accepts(it)):
		m = MarkNone
	}
	value, err := s.Do(ctx, mailroom.Effect{Name: "mark", Idempotent: true},
		func(ctx context.Context, _ string) (json.RawMessage, error) {
			after, err := c.board.Mark(ctx, it, m)
			if err != nil {
				return nil, err
			}
			return json.Marshal(markNote{Key: labels[labelKey], Run: labels[labelRun], Mark: m,
				UpdatedAt: after.UpdatedAt, Shown: shown(after)})
		})
	if err != nil {
		return err
	}
	c.host.Sent()
	if m == MarkWorking {
		return nil
	}
	c.Hint() // the issue may be ready again
	return appendEntry(ctx, s, kindMark, value)
}

// running reports whether a run has not ended.
func (c *connection) running(ctx context.Context, id string) (running bool, err error) {
	err = c.host.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Runs(store.RunQuery{IDs: []string{id}})
		running = len(rows) > 0 && !rows[0].Status.Finished()
		return err
	})
	return running, err
}

func appendEntry(ctx context.Context, s mailroom.Session, kind string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return s.Append(ctx, mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: body}}, NoProgress: true})
}
