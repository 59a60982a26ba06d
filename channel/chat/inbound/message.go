package inbound

import (
	"context"
	"errors"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

// messages submits to the agent what users write, and passes their edits on while the agent has not read the message.
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
	return m.submitParts(ctx, e, c.Since, messageKey(e.Key), content, mode)
}

// hold keeps the run that a message may join waiting while its files are downloaded.
func (m *messages) hold(ctx context.Context, e *event) error {
	c, err := m.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	return m.host.HoldJoin(ctx, m.conversations.words(&e.Event, c.Since), e.sender, e.Written)
}

// submitParts submits the content of a message under a key to the conversation that began with since.
func (m *messages) submitParts(
	ctx context.Context, e *event, since, key string, content []mailroom.Part, mode mailroom.Mode,
) error {
	if len(content) == 0 {
		return m.answers.skip(ctx, e, "empty message")
	}
	taken, err := m.host.Submit(ctx, channel.Inbound{
		Chat: m.conversations.words(&e.Event, since), Room: e.Room.Words(m.answers.bot), Key: key, Parts: content,
		Sender: e.sender, Agent: m.agent, Mode: mode, Join: e.join, Written: e.Written,
		Metadata: labels(e), NoRetry: true, Cursor: m.answers.cursor(e),
	})
	switch mailroom.CodeOf(err) {
	case "":
		m.watch(taken.Thread, e.Room, taken.Seq)
	case mailroom.CodeConflict: // submitted before with other content: the first submit stands
		return m.answers.skip(ctx, e, "submitted before")
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeForbidden,
		mailroom.CodeQuotaExceeded, mailroom.CodeNotFound:
		m.host.Log().Warn("message rejected; its author gets the reason in the chat", "key", e.Key, "error", err)
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
	if e.fetched != nil {
		own := m.files.parts(ctx, text, nil)
		return withContext(m.host.Name(), e, m.isShared(e.Room), append(own, e.fetched...))
	}
	files := e.Files
	if e.fetching != nil {
		ctx = e.fetching
	} else {
		files = withoutFetch(files)
	}
	return withContext(m.host.Name(), e, m.isShared(e.Room), m.files.parts(ctx, text, files))
}

// isShared reports whether the conversations of a room have several authors.
func (m *messages) isShared(r chat.Room) bool { return r.Group && !m.conversations.perUser }
