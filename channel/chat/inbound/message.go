package inbound

import (
	"context"
	"errors"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/command"
	"mailroom/entry"
	"mailroom/store"
)

// messages submits what users write to the agent, and edits what it did not read yet.
type messages struct {
	host          *channel.Host
	botName       string // how users address the bot
	agent         string
	files         attachments
	answers       *answers
	conversations *conversations
	watch         func(thread string, at chat.Room, after int64)
}

// submit submits text to the agent.
func (m *messages) submit(ctx context.Context, e *event, text string, mode mailroom.Mode) error {
	c, err := m.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	if known, _, err := m.conversations.find(ctx, &e.Event, &c, e.Key); err != nil {
		return err
	} else if known != nil {
		m.watch(known.Result.Thread, e.Room, known.Result.Seq)
		return m.answers.skip(ctx, e, "submitted before")
	}
	content := m.parts(ctx, e, text)
	if err := ctx.Err(); err != nil {
		return err // the downloads were cut off by the end of the connection
	}
	if len(content) == 0 {
		return m.answers.skip(ctx, e, "empty message")
	}
	taken, err := m.host.Submit(ctx, channel.Inbound{
		Chat: m.conversations.words(&e.Event, c.Since), Room: e.Room.Words(m.answers.bot), Key: messageKey(e.Key), Parts: content,
		Sender: e.sender, Agent: m.agent, Mode: mode, Metadata: labels(e), NoRetry: true, Cursor: m.answers.cursor(e),
	})
	switch mailroom.CodeOf(err) {
	case "":
		m.watch(taken.Thread, e.Room, taken.Seq)
	case mailroom.CodeConflict: // submitted before with other content: the first submit stands
		return m.answers.skip(ctx, e, "submitted before")
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeNotFound:
		m.host.Log().Warn("message rejected", "key", e.Key, "error", err)
		return m.answers.send(ctx, e, "Message not accepted: "+reason(err)+".", nil)
	}
	return err
}

// reason returns the part of an error that a user sees.
func reason(err error) string {
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		return e.Message
	}
	return "internal error"
}

// parts returns the parts of a message. Files are downloaded only for backlog events.
func (m *messages) parts(ctx context.Context, e *event, text string) []mailroom.Part {
	files := e.Files
	if e.fetching != nil {
		ctx = e.fetching
	} else {
		files = withoutFetch(files)
	}
	parts := m.files.parts(ctx, text, files)
	if e.Room.Group && !m.conversations.perUser {
		return withSpeaker(e.sender, e.User.Name, parts)
	}
	return parts
}

// edit edits or deletes a message that no run has read yet. Only its author may edit it,
// which not every platform enforces.
func (m *messages) edit(ctx context.Context, e *event) error {
	c, err := m.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	known, since, err := m.conversations.find(ctx, &e.Event, &c, e.TargetID)
	switch {
	case err != nil:
		return err
	case known == nil:
		return m.answers.skip(ctx, e, "the edited message is unknown")
	}
	change := channel.Edit{Chat: m.conversations.words(&e.Event, since), Key: messageKey(e.TargetID), Cursor: m.answers.cursor(e)}
	if e.Kind == chat.EventEdited {
		switch own, err := m.isSender(ctx, known.Result, e.sender); {
		case err != nil:
			return err
		case !own:
			return m.answers.skip(ctx, e, "not the author of the message")
		}
		p := command.Parse(e.Text, m.botName)
		text := p.Text
		if p.Command == command.Queue || p.Command == command.Steer {
			text = p.Rest
		}
		change.Parts = m.parts(ctx, e, text)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	_, err = m.host.Edit(ctx, change)
	switch mailroom.CodeOf(err) {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge:
		return m.answers.send(ctx, e, "Edit not accepted: "+reason(err)+".", nil)
	}
	return err
}

// isSender reports whether a submitted message is of a sender.
func (m *messages) isSender(ctx context.Context, in store.Submitted, sender string) (own bool, err error) {
	err = m.host.View(ctx, func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{Thread: in.Thread, After: in.Seq - 1, Before: in.Seq + 1, Limit: 1})
		if err != nil || len(found) == 0 || found[0].Kind != entry.KindMessage {
			return err
		}
		var sent mailroom.Message
		err = found[0].Decode(&sent)
		own = sent.Sender == sender
		return err
	})
	return own, err
}
