package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
)

// inbound takes events. Every event may come twice, also with a crash at any point of the
// first time: what is done for it is done under its key, or can be done again, and the
// position moves with the last of it.
type inbound struct {
	// Set when it is made.
	*adapter
	*receiver
	waiting *waitingEvent // the event that it takes out of the backlog; nil: it takes new ones
}

// position is what is saved of a bot's position.
type position struct {
	At string `json:"at"`
}

// loadPosition is where the platform is to go on.
func (in *inbound) loadPosition(ctx context.Context) (string, error) {
	raw, err := in.host.Position(ctx, in.caps.BotID)
	if raw == nil || err != nil {
		return "", err
	}
	var at position
	if err := json.Unmarshal(raw, &at); err != nil {
		return "", channel.Fatal(fmt.Errorf("read the saved position: %w", err))
	}
	return at.At, nil
}

// cursor is the one that covers an event, without a position for one of the backlog: the
// position moved when the event got there.
func (in *inbound) cursor(e *Event) channel.Cursor {
	if in.waiting != nil {
		return channel.Cursor{}
	}
	raw, err := json.Marshal(position{At: e.Position})
	if err != nil {
		panic(err) // it is text
	}
	return channel.Cursor{Identity: in.caps.BotID, Position: raw}
}

// skip moves the position over an event of which nothing more is to be taken.
func (in *inbound) skip(ctx context.Context, e *Event, why string) error {
	in.host.Log().Debug("passed over", "kind", string(e.Kind), "key", e.Key, "chat", e.Room.Chat, "reason", why)
	return in.host.MoveCursor(ctx, in.cursor(e))
}

const maxID = 300 // bytes of what a platform names things by

// receiveEvent is the [EventHandler] of the connection.
func (in *inbound) receiveEvent(ctx context.Context, e Event) error {
	for _, id := range []string{e.Key, e.Room.Chat, e.Room.Topic, e.User.ID, e.TargetID} {
		if len(id) > maxID || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
			return in.skip(ctx, &e, "what it is named by cannot be kept")
		}
	}
	if e.Key == "" || e.Room.Chat == "" {
		return in.skip(ctx, &e, "it has no name")
	}
	e.Text, e.User.Name = sanitize(e.Text), oneLine(e.User.Name)
	tier, err := in.loadTier(ctx, &e)
	if err != nil {
		return err
	}
	if waits, err := in.enqueue(ctx, &e, tier); err != nil || waits {
		return err
	}
	return in.handle(ctx, &e, tier)
}

// loadTier is what the user of an event may do now.
func (in *inbound) loadTier(ctx context.Context, e *Event) (Tier, error) {
	kept, err := in.host.ReadValue(ctx, pairingKey)
	if err != nil {
		return TierStranger, err
	}
	let, err := decodePairing(kept)
	if err != nil {
		return TierStranger, channel.Fatal(err)
	}
	return in.options.Access.tier(e.User.ID, e.Room, let), nil
}

// handle does what an event asks for.
func (in *inbound) handle(ctx context.Context, e *Event, tier Tier) error {
	switch {
	case e.Kind == EventDeleted: // the platform says who may
		return in.handleEdit(ctx, e)
	case e.Kind == EventInvited || e.Kind == EventUnreadable:
		return in.handleUnanswerable(ctx, e, tier)
	case tier == TierStranger:
		return in.handleStranger(ctx, e)
	case e.Kind == EventButton:
		return in.handleButton(ctx, e, tier)
	case e.Kind == EventEdited:
		return in.handleEdit(ctx, e)
	case e.Kind == EventMessage:
		return in.handleMessage(ctx, e, tier)
	}
	return in.skip(ctx, e, "nobody knows what it is")
}

// parse reads what was said, and says why it is not for this bot; "" if it is.
func (in *inbound) parse(e *Event) (p parsedText, why string) {
	p = parseText(e.Text, in.caps.BotName)
	switch {
	case p.forOtherBot:
		return p, "it is to another bot"
	case e.Room.Group && !e.Addressed && !p.namesBot && !in.options.Access.AllGroupMessages:
		return p, "it is not to the bot"
	}
	return p, ""
}

// handleMessage takes what was said by somebody who may.
func (in *inbound) handleMessage(ctx context.Context, e *Event, tier Tier) error {
	p, why := in.parse(e)
	switch {
	case why != "":
		return in.skip(ctx, e, why)
	case p.suggestion != "":
		return in.answer(ctx, e, fmt.Sprintf("There is no such command; did you mean %s? To say it to the agent, put %s before it.", in.caps.commandText(p.suggestion), in.caps.commandText(cmdQueue)), nil)
	case p.command == "":
		return in.submitText(ctx, e, p.text, in.options.Access.BusyMode)
	}
	if done, err := in.wasAnswered(ctx, e); done || err != nil {
		return in.skipAnswered(ctx, e, err)
	}
	if tier < requiredTier(p.command) {
		return in.answer(ctx, e, in.adminsOnlyText(p.command), nil)
	}
	return in.runCommand(ctx, e, p, tier)
}

func (in *inbound) adminsOnlyText(command string) string {
	return fmt.Sprintf("Only an admin may %s. Who runs the server can make you one.", in.caps.commandText(command))
}

// skipAnswered passes over what was done before.
func (in *inbound) skipAnswered(ctx context.Context, e *Event, err error) error {
	if err != nil {
		return err
	}
	return in.skip(ctx, e, "it was answered before")
}

// submitText hands text to the agent.
func (in *inbound) submitText(ctx context.Context, e *Event, text string, mode mailroom.Mode) error {
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return err
	}
	if known, err := in.submittedBefore(ctx, e, c); err != nil {
		return err
	} else if known != nil {
		in.out.watchThread(known.Result.Thread, e.Room, known.Result.Seq)
		return in.skip(ctx, e, "it was taken before")
	}
	content := in.parts(ctx, e, text)
	if err := ctx.Err(); err != nil {
		return err // the files were not fetched because the connection ends
	}
	if len(content) == 0 {
		return in.skip(ctx, e, "it is empty")
	}
	taken, err := in.host.Submit(ctx, channel.Inbound{
		Chat: in.conversationWords(e, c.state.Since), Room: e.Room.words(in.caps.BotID), Key: messageKey(e.Key), Parts: content,
		Sender: in.sender(e), Agent: in.options.Agent, Mode: mode, Metadata: in.labels(e), NoRetry: true, Cursor: in.cursor(e),
	})
	switch mailroom.CodeOf(err) {
	case "":
		in.out.watchThread(taken.Thread, e.Room, taken.Seq)
	case mailroom.CodeConflict: // taken before, with other content: what was done then stands
		return in.skip(ctx, e, "it was taken before")
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeNotFound:
		in.host.Log().Warn("a message cannot be taken", "key", e.Key, "error", err)
		return in.answer(ctx, e, "Your message was not taken: "+reason(err)+".", nil)
	}
	return err
}

// reason is what a refusal says to people.
func reason(err error) string {
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		return e.Message
	}
	return "something went wrong"
}

// submittedBefore is what became of a message that was taken before, in this conversation or
// an earlier one of the room; nil if it is new.
func (in *inbound) submittedBefore(ctx context.Context, e *Event, c *conversation) (*mailroom.SubmitKey, error) {
	for _, since := range append([]string{c.state.Since}, c.state.Earlier...) {
		if known, err := in.findKey(ctx, in.threadID(e, since), messageKey(e.Key)); err != nil || known != nil {
			return known, err
		}
	}
	return nil, nil
}

// parts are what the agent gets of what was said, as the text. Files are fetched for an
// event of the backlog only.
func (in *inbound) parts(ctx context.Context, e *Event, text string) []mailroom.Part {
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

// sender is who said it, as the ledger has it.
func (in *inbound) sender(e *Event) string { return in.host.Name() + ":" + e.User.ID }

// labels are the way back to who said it.
func (in *inbound) labels(e *Event) map[string]string {
	m := e.Room.labels()
	m[labelUser], m[labelReply] = e.User.ID, e.Key
	if e.User.Name != "" {
		m[labelName] = e.User.Name
	}
	return m
}

// messageKey is the key of something said; it bounds what platforms think of.
func messageKey(key string) string {
	const most = 150
	if utf8.RuneCountInString(key) > most {
		return mailroom.DeriveID("said", key)
	}
	return key
}

// answerKey is the key of the answer to an event.
func answerKey(e *Event) string { return "answer:" + string(e.Kind) + ":" + messageKey(e.Key) }

// answer says something about an event in its room, once, and is done with it. more
// are further labels.
func (in *inbound) answer(ctx context.Context, e *Event, text string, more map[string]string) error {
	labels := in.labels(e)
	for k, v := range more {
		labels[k] = v
	}
	at := in.cursor(e)
	return in.host.Answer(ctx, channel.Answer{Room: e.Room.words(in.caps.BotID), Key: answerKey(e), Text: text, Metadata: labels, Cursor: &at})
}

// wasAnswered reports whether an event was answered, and so done, before.
func (in *inbound) wasAnswered(ctx context.Context, e *Event) (bool, error) {
	k, err := in.findKey(ctx, in.deliveryThread(e), answerKey(e))
	return k != nil, err
}

// deliveryThread is the delivery thread of an event's room.
func (in *inbound) deliveryThread(e *Event) string {
	return channel.DeliveryThreadID(channel.ThreadID(in.host.Name(), e.Room.words(in.caps.BotID)...))
}

// findKey is what became of a key in a thread, nil if it was never used.
func (in *inbound) findKey(ctx context.Context, thread, key string) (found *mailroom.SubmitKey, err error) {
	err = in.host.View(ctx, func(r mailroom.Reader) error {
		keys, err := r.Keys(thread, []string{key})
		if len(keys) > 0 {
			found = &keys[0]
		}
		return err
	})
	return found, err
}

// handleEdit changes what was said, if nobody has read it. Who changes it must be who
// said it: not every platform looks.
func (in *inbound) handleEdit(ctx context.Context, e *Event) error {
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
		if e.Kind == EventEdited {
			if own, err := in.isSender(ctx, thread, k.Result.Seq, in.sender(e)); err != nil || !own {
				return in.skipForeign(ctx, e, err)
			}
			p := parseText(e.Text, in.caps.BotName)
			text := p.text
			if p.command == cmdQueue || p.command == cmdSteer {
				text = p.rest
			}
			change.Parts = in.parts(ctx, e, text)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		_, err = in.host.Edit(ctx, change)
		switch mailroom.CodeOf(err) {
		case mailroom.CodeInvalid, mailroom.CodeTooLarge:
			return in.answer(ctx, e, "Your change was not taken: "+reason(err)+".", nil)
		}
		return err
	}
	return in.skip(ctx, e, "what it changes was not taken")
}

func (in *inbound) skipForeign(ctx context.Context, e *Event, err error) error {
	if err != nil {
		return err
	}
	return in.skip(ctx, e, "somebody else said it")
}

// isSender reports whether the message at seq is of that sender.
func (in *inbound) isSender(ctx context.Context, thread string, seq int64, sender string) (own bool, err error) {
	err = in.host.View(ctx, func(r mailroom.Reader) error {
		found, err := r.Entries(mailroom.EntryQuery{Thread: thread, After: seq - 1, Before: seq + 1, Limit: 1})
		if err != nil || len(found) == 0 || found[0].Kind != mailroom.KindMessage {
			return err
		}
		var m mailroom.Message
		err = found[0].Decode(&m)
		own = m.Sender == sender
		return err
	})
	return own, err
}

// handleUnanswerable takes what comes before anything can be said: an invitation, or what cannot be
// read. Who may ask to be let in can do neither otherwise.
func (in *inbound) handleUnanswerable(ctx context.Context, e *Event, tier Tier) error {
	if tier == TierStranger && (e.Room.Group || !in.options.Access.Pairing) {
		return in.skip(ctx, e, "whoever does it may not talk")
	}
	if e.Kind == EventUnreadable {
		return in.answer(ctx, e, e.Text, nil)
	}
	if err := e.Accept(ctx); err != nil {
		return err
	}
	return in.skip(ctx, e, "the bot is there now")
}

// handleStranger takes what somebody said who may not talk: at most a request to be let in
// comes of it, in private.
func (in *inbound) handleStranger(ctx context.Context, e *Event) error {
	if e.Kind == EventButton { // a platform waits for an answer, and shows that it does
		in.ackButton(e, "You may not decide this.")
	}
	if e.Kind != EventMessage || e.Room.Group || e.User.ID == "" || !in.options.Access.Pairing {
		return in.skip(ctx, e, "whoever says it may not talk")
	}
	random := make([]byte, codeLength+saltLength)
	rand.Read(random) // it never fails
	code := newCode(random[:codeLength])
	salt := random[codeLength:]
	made := false
	err := updatePairing(ctx, in.host.UpdateValue, func(p *pairingState, now time.Time) bool {
		made = p.addRequest(pairRequest{
			User: e.User.ID, Name: e.User.Name, Room: e.Room, Bot: in.caps.BotID, Help: in.caps.commandText(cmdHelp), Event: e.Key, Salt: salt, Sum: codeSum(salt, code),
		}, now)
		return made
	})
	if err != nil {
		return err
	}
	if made {
		to := *e
		if !in.runBackground(backgroundTimeout, func(ctx context.Context) { in.sendCode(ctx, &to, code, salt) }) {
			in.recordCodeSent(ctx, e, salt, false)
		}
	}
	return in.skip(ctx, e, "whoever says it may not talk yet")
}

// backgroundTimeout bounds a call of the platform that goes on beside receiving.
const backgroundTimeout = 10 * time.Second

// sendCode sends a code, and keeps it nowhere. If it may not have arrived, the user can ask
// again at once and gets another one.
func (in *inbound) sendCode(ctx context.Context, e *Event, code string, salt []byte) {
	text := fmt.Sprintf("I do not know you. To let you talk to me, somebody runs this where the server is:\n%s pair approve %s\nThe code is good for %s.",
		in.options.Command, formatCode(code), "one hour")
	err := in.out.limiter.do(ctx, e.Room, in.caps, priorityQuestion, func(ctx context.Context) error {
		_, err := in.platform.Send(ctx, e.Room, Message{Text: text, Notice: true}, mailroom.DeriveID("pair", in.host.Name(), e.Key, code))
		return err
	})
	if err != nil {
		in.host.Log().Warn("pairing code could not be sent", "key", e.Key, "error", err)
	} else {
		in.host.Sent()
	}
	in.recordCodeSent(context.WithoutCancel(ctx), e, salt, err == nil)
}

// recordCodeSent notes whether a code was sent. Without the note it counts as not sent.
func (in *inbound) recordCodeSent(ctx context.Context, e *Event, salt []byte, sent bool) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	err := updatePairing(ctx, in.host.UpdateValue, func(p *pairingState, now time.Time) bool { return p.recordSent(e.User.ID, salt, sent, now) })
	if err != nil {
		in.host.Log().Debug("what became of a pairing code could not be kept", "key", e.Key, "error", err)
	}
}
