package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/command"
	"mailroom/channel/chat/limiter"
	"mailroom/channel/chat/pairing"
	"mailroom/entry"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/store"
)

// inbound handles events. An event may come twice, also with a crash anywhere in its first
// handling. So each step has an idempotency key or can be repeated, and the cursor moves with the
// last step.
type inbound struct {
	// Set by Receive.
	*adapter
	*receiver
	waiting *waitingEvent // the backlog event to handle; nil for a new event
}

// position is the stored form of a bot's position.
type position struct {
	At string `json:"at"`
}

// loadPosition returns the position at which the platform resumes.
func (in *inbound) loadPosition(ctx context.Context) (string, error) {
	raw, err := in.host.Position(ctx, in.caps.BotID)
	if raw == nil || err != nil {
		return "", err
	}
	var at position
	if err := json.Unmarshal(raw, &at); err != nil {
		return "", channel.Fatal(fmt.Errorf("decode the saved position: %w", err))
	}
	return at.At, nil
}

// cursor returns the cursor of an event. For a backlog event it has no position, because the
// position moved when the event entered the backlog.
func (in *inbound) cursor(e *chat.Event) channel.Cursor {
	if in.waiting != nil {
		return channel.Cursor{}
	}
	raw, err := json.Marshal(position{At: e.Position})
	if err != nil {
		panic(err) // a string always encodes
	}
	return channel.Cursor{Identity: in.caps.BotID, Position: raw}
}

// skip advances the cursor past an event that needs no processing.
func (in *inbound) skip(ctx context.Context, e *chat.Event, why string) error {
	in.host.Log().Debug("event skipped", "kind", string(e.Kind), "key", e.Key, "chat", e.Room.Chat, "reason", why)
	return in.host.MoveCursor(ctx, in.cursor(e))
}

const maxID = 300 // bytes of a platform's id

// receiveEvent is the connection's [EventHandler].
func (in *inbound) receiveEvent(ctx context.Context, e chat.Event) error {
	for _, id := range []string{e.Key, e.Room.Chat, e.Room.Topic, e.User.ID, e.TargetID} {
		if len(id) > maxID || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
			return in.skip(ctx, &e, "an id is too long or invalid")
		}
	}
	if e.Key == "" || e.Room.Chat == "" {
		return in.skip(ctx, &e, "no key or no chat")
	}
	e.Text, e.User.Name = sanitize(e.Text), display.Name(e.User.Name)
	tier, err := in.loadTier(ctx, &e)
	if err != nil {
		return err
	}
	if waits, err := in.enqueue(ctx, &e, tier); err != nil || waits {
		return err
	}
	return in.handle(ctx, &e, tier)
}

// loadTier returns the tier of an event's user.
func (in *inbound) loadTier(ctx context.Context, e *chat.Event) (chat.Tier, error) {
	paired, err := pairing.Load(ctx, in.host, in.host.Name())
	if err != nil {
		return chat.TierStranger, err
	}
	return paired.Tier(&in.options.Access, e.User.ID, e.Room), nil
}

// handle dispatches an event by its kind and the user's tier.
func (in *inbound) handle(ctx context.Context, e *chat.Event, tier chat.Tier) error {
	switch {
	case e.Kind == chat.EventDeleted: // the platform checks who may delete
		return in.handleEdit(ctx, e)
	case e.Kind == chat.EventInvited || e.Kind == chat.EventUnreadable:
		return in.handleInviteOrUnreadable(ctx, e, tier)
	case tier == chat.TierStranger:
		return in.handleStranger(ctx, e)
	case e.Kind == chat.EventButton:
		return in.handleButton(ctx, e, tier)
	case e.Kind == chat.EventEdited:
		return in.handleEdit(ctx, e)
	case e.Kind == chat.EventMessage:
		return in.handleMessage(ctx, e, tier)
	}
	return in.skip(ctx, e, "unknown kind")
}

// parse parses a message. why is the reason why it is not for this bot, "" if it is.
func (in *inbound) parse(e *chat.Event) (p command.Parsed, why string) {
	p = command.Parse(e.Text, in.caps.BotName)
	switch {
	case p.ForOtherBot:
		return p, "addressed to another bot"
	case e.Room.Group && !e.Addressed && !p.NamesBot && !in.options.Access.AllGroupMessages:
		return p, "not addressed to the bot"
	}
	return p, ""
}

// handleMessage handles a message of an authorized user.
func (in *inbound) handleMessage(ctx context.Context, e *chat.Event, tier chat.Tier) error {
	p, why := in.parse(e)
	switch {
	case why != "":
		return in.skip(ctx, e, why)
	case p.Suggestion != "":
		return in.answer(ctx, e, fmt.Sprintf("Unknown command; did you mean %s? To send the text to the agent, start it with %s.", command.Text(in.caps, p.Suggestion), command.Text(in.caps, command.Queue)), nil)
	case p.Command == "":
		return in.submitText(ctx, e, p.Text, in.options.Access.BusyMode)
	}
	if done, err := in.wasAnswered(ctx, e); done || err != nil {
		return in.skipAnswered(ctx, e, err)
	}
	if tier < command.RequiredTier(p.Command) {
		return in.answer(ctx, e, in.adminsOnlyText(p.Command), nil)
	}
	return in.runCommand(ctx, e, p, tier)
}

func (in *inbound) adminsOnlyText(name string) string {
	return fmt.Sprintf("Only an admin may use %s. Ask the server's operator for access.", command.Text(in.caps, name))
}

// skipAnswered skips an event that was answered before.
func (in *inbound) skipAnswered(ctx context.Context, e *chat.Event, err error) error {
	if err != nil {
		return err
	}
	return in.skip(ctx, e, "answered before")
}

// submitText submits text to the agent.
func (in *inbound) submitText(ctx context.Context, e *chat.Event, text string, mode mailroom.Mode) error {
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return err
	}
	if known, err := in.submittedBefore(ctx, e, c); err != nil {
		return err
	} else if known != nil {
		in.out.watchThread(known.Result.Thread, e.Room, known.Result.Seq)
		return in.skip(ctx, e, "submitted before")
	}
	content := in.parts(ctx, e, text)
	if err := ctx.Err(); err != nil {
		return err // the downloads were cut off by the end of the connection
	}
	if len(content) == 0 {
		return in.skip(ctx, e, "empty message")
	}
	taken, err := in.host.Submit(ctx, channel.Inbound{
		Chat: in.conversationWords(e, c.state.Since), Room: e.Room.Words(in.caps.BotID), Key: messageKey(e.Key), Parts: content,
		Sender: in.sender(e), Agent: in.options.Agent, Mode: mode, Metadata: in.labels(e), NoRetry: true, Cursor: in.cursor(e),
	})
	switch mailroom.CodeOf(err) {
	case "":
		in.out.watchThread(taken.Thread, e.Room, taken.Seq)
	case mailroom.CodeConflict: // submitted before with other content: the first submit stands
		return in.skip(ctx, e, "submitted before")
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeNotFound:
		in.host.Log().Warn("message rejected", "key", e.Key, "error", err)
		return in.answer(ctx, e, "Message not accepted: "+reason(err)+".", nil)
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

// submittedBefore returns the result of an earlier submit of a message, in the room's present or
// earlier conversations; nil if it is new.
func (in *inbound) submittedBefore(ctx context.Context, e *chat.Event, c *conversation) (*store.SubmitKey, error) {
	for _, since := range append([]string{c.state.Since}, c.state.Earlier...) {
		if known, err := in.findKey(ctx, in.threadID(e, since), messageKey(e.Key)); err != nil || known != nil {
			return known, err
		}
	}
	return nil, nil
}

// parts returns the parts of a message. Files are downloaded only for backlog events.
func (in *inbound) parts(ctx context.Context, e *chat.Event, text string) []mailroom.Part {
	files := e.Files
	if in.waiting != nil {
		ctx = in.waiting.fetching
	} else {
		files = withoutFetch(files)
	}
	parts := attachments{in.options.Files, in.options.Access.MaxFileSize}.parts(ctx, text, files)
	if e.Room.Group && !in.options.Access.PerUser {
		return withSpeaker(in.sender(e), e.User.Name, parts)
	}
	return parts
}

// sender returns the sender of an event as stored in messages.
func (in *inbound) sender(e *chat.Event) string { return in.host.Name() + ":" + e.User.ID }

// labels returns the run labels that identify the room and the author.
func (in *inbound) labels(e *chat.Event) map[string]string {
	m := e.Room.Labels()
	m[chat.LabelUser], m[chat.LabelReply] = e.User.ID, e.Key
	if e.User.Name != "" {
		m[chat.LabelName] = e.User.Name
	}
	return m
}

// messageKey returns the submit key of a message. It bounds the length of the platform's id.
func messageKey(key string) string {
	const most = 150
	if utf8.RuneCountInString(key) > most {
		return digest.ID("said", key)
	}
	return key
}

// answerKey returns the key of an event's answer.
func answerKey(e *chat.Event) string { return "answer:" + string(e.Kind) + ":" + messageKey(e.Key) }

// answer sends an answer to an event's room once and moves the cursor. more are additional
// labels.
func (in *inbound) answer(ctx context.Context, e *chat.Event, text string, more map[string]string) error {
	labels := in.labels(e)
	for k, v := range more {
		labels[k] = v
	}
	at := in.cursor(e)
	return in.host.Answer(ctx, channel.Answer{Room: e.Room.Words(in.caps.BotID), Key: answerKey(e), Text: text, Metadata: labels, Cursor: &at})
}

// wasAnswered reports whether an event was answered before.
func (in *inbound) wasAnswered(ctx context.Context, e *chat.Event) (bool, error) {
	k, err := in.findKey(ctx, in.deliveryThread(e), answerKey(e))
	return k != nil, err
}

// deliveryThread returns the delivery thread of an event's room.
func (in *inbound) deliveryThread(e *chat.Event) string {
	return channel.DeliveryThreadID(channel.ThreadID(in.host.Name(), e.Room.Words(in.caps.BotID)...))
}

// findKey returns the result of a submit key in a thread, nil if it was never used.
func (in *inbound) findKey(ctx context.Context, thread, key string) (found *store.SubmitKey, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		keys, err := r.Keys(thread, []string{key})
		if len(keys) > 0 {
			found = &keys[0]
		}
		return err
	})
	return found, err
}

// handleEdit edits or deletes a message that no run has read yet. Only its author may edit it,
// which not every platform enforces.
func (in *inbound) handleEdit(ctx context.Context, e *chat.Event) error {
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return err
	}
	for _, since := range append([]string{c.state.Since}, c.state.Earlier...) {
		thread := in.threadID(e, since)
		k, err := in.findKey(ctx, thread, messageKey(e.TargetID))
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		change := channel.Edit{Chat: in.conversationWords(e, since), Key: messageKey(e.TargetID), Cursor: in.cursor(e)}
		if e.Kind == chat.EventEdited {
			if own, err := in.isSender(ctx, thread, k.Result.Seq, in.sender(e)); err != nil || !own {
				return in.skipForeign(ctx, e, err)
			}
			p := command.Parse(e.Text, in.caps.BotName)
			text := p.Text
			if p.Command == command.Queue || p.Command == command.Steer {
				text = p.Rest
			}
			change.Parts = in.parts(ctx, e, text)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		_, err = in.host.Edit(ctx, change)
		switch mailroom.CodeOf(err) {
		case mailroom.CodeInvalid, mailroom.CodeTooLarge:
			return in.answer(ctx, e, "Edit not accepted: "+reason(err)+".", nil)
		}
		return err
	}
	return in.skip(ctx, e, "the edited message is unknown")
}

func (in *inbound) skipForeign(ctx context.Context, e *chat.Event, err error) error {
	if err != nil {
		return err
	}
	return in.skip(ctx, e, "not the author of the message")
}

// isSender reports whether the message at seq is of a sender.
func (in *inbound) isSender(ctx context.Context, thread string, seq int64, sender string) (own bool, err error) {
	err = in.host.View(ctx, func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{Thread: thread, After: seq - 1, Before: seq + 1, Limit: 1})
		if err != nil || len(found) == 0 || found[0].Kind != entry.KindMessage {
			return err
		}
		var m mailroom.Message
		err = found[0].Decode(&m)
		own = m.Sender == sender
		return err
	})
	return own, err
}

// handleInviteOrUnreadable handles invitations and unreadable messages. They are allowed to authorized
// users, and in private to everyone who may ask for pairing.
func (in *inbound) handleInviteOrUnreadable(ctx context.Context, e *chat.Event, tier chat.Tier) error {
	if tier == chat.TierStranger && (e.Room.Group || !in.options.Access.Pairing) {
		return in.skip(ctx, e, "unauthorized user")
	}
	if e.Kind == chat.EventUnreadable {
		return in.answer(ctx, e, e.Text, nil)
	}
	if err := e.Accept(ctx); err != nil {
		return err
	}
	return in.skip(ctx, e, "joined the room")
}

// handleStranger handles an event of an unauthorized user. A private message may create a pairing
// request; anything else is dropped.
func (in *inbound) handleStranger(ctx context.Context, e *chat.Event) error {
	if e.Kind == chat.EventButton { // the platform shows a spinner until it gets an answer
		in.ackButton(e, "You may not decide this.")
	}
	if e.Kind != chat.EventMessage || e.Room.Group || e.User.ID == "" || !in.options.Access.Pairing {
		return in.skip(ctx, e, "unauthorized user")
	}
	request, code := pairing.Request{
		User: e.User.ID, Name: e.User.Name, Room: e.Room, Bot: in.caps.BotID, Help: command.Text(in.caps, command.Help), Event: e.Key,
	}.WithCode()
	made := false
	err := pairing.Update(ctx, in.host.UpdateValue, func(p *pairing.State, now time.Time) bool {
		made = p.AddRequest(request, now)
		return made
	})
	if err != nil {
		return err
	}
	if made {
		to := *e
		if !in.runBackground(pairing.SendTimeout, func(ctx context.Context) { in.sendCode(ctx, &to, code, request.Salt) }) {
			in.recordCodeSent(ctx, e, request.Salt, false)
		}
	}
	return in.skip(ctx, e, "pairing pending")
}

// sendCode sends a pairing code without storing it. If it may not have arrived, the user can
// request another one at once.
func (in *inbound) sendCode(ctx context.Context, e *chat.Event, code string, salt []byte) {
	text := fmt.Sprintf("I do not know you. To give you access, the operator runs this on the server:\n%s pair approve %s\nThe code is valid for %s.",
		in.options.Command, pairing.FormatCode(code), "one hour")
	err := in.out.limiter.Do(ctx, e.Room, in.caps, limiter.PriorityQuestion, func(ctx context.Context) error {
		_, err := in.platform.Send(ctx, e.Room, chat.Message{Text: text, Notice: true}, digest.ID("pair", in.host.Name(), e.Key, code))
		return err
	})
	if err != nil {
		in.host.Log().Warn("pairing code could not be sent", "key", e.Key, "error", err)
	} else {
		in.host.Sent()
	}
	in.recordCodeSent(context.WithoutCancel(ctx), e, salt, err == nil)
}

// recordCodeSent records whether a code was sent. Without the record it counts as not sent.
func (in *inbound) recordCodeSent(ctx context.Context, e *chat.Event, salt []byte, sent bool) {
	ctx, cancel := context.WithTimeout(ctx, pairing.SendTimeout)
	defer cancel()
	err := pairing.Update(ctx, in.host.UpdateValue, func(p *pairing.State, now time.Time) bool { return p.RecordSent(e.User.ID, salt, sent, now) })
	if err != nil {
		in.host.Log().Debug("could not record that a pairing code was sent", "key", e.Key, "error", err)
	}
}
