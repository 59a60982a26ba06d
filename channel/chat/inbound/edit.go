package inbound

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/store"
)

// maxVersions bounds the edits of one message that reach the agent after it has read the message.
const maxVersions = 10

// version is a message that was submitted, or an edit that was submitted as a message of its own because the
// agent had read what was before.
type version struct {
	number int // number of the edit; 0: the message itself
	key    string
	in     store.Submitted
}

// versionKey returns the submit key of a version. It depends on the message and not on the event of the edit,
// so that the next edit finds what it changes.
func versionKey(message string, number int) string { return messageKey(versionName(message, number)) }

func versionName(message string, number int) string {
	if number == 0 {
		return message
	}
	return fmt.Sprintf("edited:%d:%s", number, message)
}

// edit edits or deletes a message. If the agent has read it, a changed text is a new message. Only the author
// may edit a message, which not every platform enforces.
func (m *messages) edit(ctx context.Context, e *event, mode mailroom.Mode) error {
	c, err := m.conversations.load(ctx, &e.Event)
	if err != nil {
		return err
	}
	if e.Kind == chat.EventEdited && slices.Contains(c.Edits, editDigest(&e.Event)) {
		return m.answers.skip(ctx, e, "edited before")
	}
	first, since, err := m.firstVersion(ctx, e, &c)
	switch {
	case err != nil:
		return err
	case first.key == "":
		return m.editUnknown(ctx, e, c.Since, mode)
	}
	last, err := m.lastVersion(ctx, first, e.TargetID)
	if err != nil {
		return err
	}
	if e.Kind == chat.EventDeleted {
		_, err := m.host.Edit(ctx, channel.Edit{Chat: m.conversations.words(&e.Event, since), Key: last.key,
			Cursor: m.answers.cursor(e)})
		return err
	}
	sent, err := m.sent(ctx, first.in)
	switch {
	case err != nil:
		return err
	case sent.Sender != e.sender:
		return m.answers.skip(ctx, e, "not the author of the message")
	}
	if last.number > 0 {
		if sent, err = m.sent(ctx, last.in); err != nil {
			return err
		}
	}
	content, err := m.editedParts(ctx, e, last.number, contextParts(sent))
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return m.answers.skip(ctx, e, "the edit leaves no text")
	}
	out, err := m.host.Edit(ctx, channel.Edit{Chat: m.conversations.words(&e.Event, since), Key: last.key, Parts: content})
	switch mailroom.CodeOf(err) {
	case "":
	case mailroom.CodeInvalid, mailroom.CodeTooLarge:
		return m.answers.send(ctx, e, "Edit not accepted: "+reason(err)+".", nil)
	default:
		return err
	}
	unchanged := slices.EqualFunc(out.Now.Parts, content, sameContent) // an edit may not change the text
	if out.Changed || unchanged {
		if err := m.conversations.recordEdit(ctx, &e.Event); err != nil {
			return err
		}
	}
	switch {
	case out.Changed:
		return m.answers.skip(ctx, e, "edited before it was read")
	case out.Now.ID == "" || out.Now.State == mailroom.MessageRetracted || out.Now.State == mailroom.MessageSuperseded:
		return m.answers.skip(ctx, e, "the edited message was withdrawn")
	case unchanged:
		return m.answers.skip(ctx, e, "the edit changes nothing")
	case last.number >= maxVersions:
		return m.answers.skip(ctx, e, "too many edits of one message")
	}
	next := last.number + 1
	was := chat.Context{Kind: chat.ContextEdit, Author: e.User, Text: firstRunes(ownText(out.Now), chat.MaxContextText)}
	if content, err = m.editedParts(ctx, e, next, []mailroom.Part{contextPart(m.host.Name(), was)}); err != nil {
		return err
	}
	if err := m.submitParts(ctx, e, since, versionKey(e.TargetID, next), content, mode); err != nil {
		return err
	}
	return m.conversations.recordEdit(ctx, &e.Event)
}

// sameContent reports whether two parts show the same. The address of a file does not count: platforms give one
// file several.
func sameContent(a, b mailroom.Part) bool {
	return a.Type == b.Type && a.Text == b.Text && a.Name == b.Name && a.MimeType == b.MimeType
}

// editUnknown handles the edit of a message that was not submitted. In a group, an edit that addresses the bot
// makes the message one to the bot. In private, the message was a command or came before the bot's time.
func (m *messages) editUnknown(ctx context.Context, e *event, since string, mode mailroom.Mode) error {
	p := chat.ParseText(e.Text, m.botName)
	switch {
	case e.Kind == chat.EventDeleted || !e.Room.Group || !e.Addressed && !p.NamesBot:
		return m.answers.skip(ctx, e, "the edited message is unknown")
	case p.Command != "" || p.ForOtherBot || p.Suggestion != "" || strings.TrimSpace(p.Text) == "":
		return m.answers.skip(ctx, e, "an edit is no command")
	}
	content := m.parts(ctx, e, editedMark+p.Text)
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.submitParts(ctx, e, since, versionKey(e.TargetID, 1), content, mode)
}

// editedMark begins the text of a message that is the edit of one that was read.
const editedMark = "edited: "

// editedParts returns the content of an edited message: as the message, or as the version of one that was read.
// Its context is not taken from the event, because not every platform repeats the context for an edit.
func (m *messages) editedParts(ctx context.Context, e *event, number int, in []mailroom.Part) ([]mailroom.Part, error) {
	p := chat.ParseText(e.Text, m.botName)
	text := p.Text
	if p.Command == chat.CommandQueue || p.Command == chat.CommandSteer {
		text = p.Rest
	}
	if number > 0 && strings.TrimSpace(text) != "" {
		text = editedMark + text
	}
	x := *e
	x.Context = nil
	content := m.parts(ctx, &x, text)
	if err := ctx.Err(); err != nil || len(content) == 0 {
		return nil, err
	}
	return append(content, in...), nil
}

// ownText returns the first text of a submitted message without the marks of its author and of an edit.
func ownText(sent mailroom.Message) string {
	if len(sent.Parts) == 0 || sent.Parts[0].Type != "text" {
		return ""
	}
	text := sent.Parts[0].Text
	if hasQuoteMark(sent.Parts[0]) { // below the line of the author
		_, text, _ = strings.Cut(text, "\n")
		text = unquote(text)
	}
	return strings.TrimPrefix(text, editedMark)
}

// unquote reverts [quote].
func unquote(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "> "), "\n> ", "\n")
}

// firstVersion returns the message that an edit changes and the Since of its conversation, the zero value if the
// message was not submitted. If only an edit of the message addressed the bot, that edit is the first version.
func (m *messages) firstVersion(
	ctx context.Context, e *event, c *conversation,
) (first version, since string, err error) {
	for n := range 2 {
		known, since, err := m.conversations.find(ctx, &e.Event, c, versionName(e.TargetID, n))
		if err != nil || known != nil {
			return version{n, versionKey(e.TargetID, n), found(known)}, since, err
		}
	}
	return version{}, "", nil
}

func found(known *store.SubmitKey) (in store.Submitted) {
	if known != nil {
		in = known.Result
	}
	return in
}

// lastVersion returns the newest version of a message.
func (m *messages) lastVersion(ctx context.Context, last version, message string) (version, error) {
	var keys []string
	for n := range maxVersions {
		keys = append(keys, versionKey(message, n+1))
	}
	err := m.host.View(ctx, func(r store.Reader) error {
		found, err := r.Keys(store.KeyQuery{Thread: last.in.Thread, Keys: keys})
		for _, k := range found {
			for n, key := range keys {
				if k.Key == key && n+1 > last.number {
					last = version{n + 1, key, k.Result}
				}
			}
		}
		return err
	})
	return last, err
}

// sent returns a submitted message.
func (m *messages) sent(ctx context.Context, in store.Submitted) (sent mailroom.Message, err error) {
	err = m.host.View(ctx, func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{Thread: in.Thread, After: in.Seq - 1, Before: in.Seq + 1, Limit: 1})
		if err != nil || len(found) == 0 || found[0].Kind != entry.KindMessage {
			return err
		}
		return found[0].Decode(&sent)
	})
	return sent, err
}
