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
	*receiving
	late *waiting // the event that it takes out of the backlog; nil: it takes new ones
}

// position is what is saved of a bot's position.
type position struct {
	At string `json:"at"`
}

// begin is where the platform is to go on.
func (in *inbound) begin(ctx context.Context) (string, error) {
	raw, err := in.link.Position(ctx, in.traits.BotID)
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
	if in.late != nil {
		return channel.Cursor{}
	}
	raw, err := json.Marshal(position{At: e.Position})
	if err != nil {
		panic(err) // it is text
	}
	return channel.Cursor{Identity: in.traits.BotID, Position: raw}
}

// pass moves the position over an event of which nothing more is to be taken.
func (in *inbound) pass(ctx context.Context, e *Event, why string) error {
	in.link.Log().Debug("passed over", "kind", string(e.Kind), "key", e.Key, "chat", e.Room.Chat, "reason", why)
	return in.link.MoveCursor(ctx, in.cursor(e))
}

const maxID = 300 // bytes of what a platform names things by

// take is the [EventHandler] of the connection.
func (in *inbound) take(ctx context.Context, e Event) error {
	for _, id := range []string{e.Key, e.Room.Chat, e.Room.Topic, e.User.ID, e.TargetID} {
		if len(id) > maxID || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
			return in.pass(ctx, &e, "what it is named by cannot be kept")
		}
	}
	if e.Key == "" || e.Room.Chat == "" {
		return in.pass(ctx, &e, "it has no name")
	}
	e.Text, e.User.Name = clean(e.Text), oneLine(e.User.Name)
	tier, err := in.tier(ctx, &e)
	if err != nil {
		return err
	}
	if waits, err := in.waits(ctx, &e, tier); err != nil || waits {
		return err
	}
	return in.handle(ctx, &e, tier)
}

// tier is what the user of an event may do now.
func (in *inbound) tier(ctx context.Context, e *Event) (Tier, error) {
	kept, err := in.link.ReadValue(ctx, keptPeople)
	if err != nil {
		return TierStranger, err
	}
	let, err := readPeople(kept)
	if err != nil {
		return TierStranger, channel.Fatal(err)
	}
	return in.options.Access.tier(e.User.ID, e.Room, let), nil
}

// handle does what an event asks for.
func (in *inbound) handle(ctx context.Context, e *Event, tier Tier) error {
	switch {
	case e.Kind == EventDeleted: // the platform says who may
		return in.amended(ctx, e)
	case e.Kind == EventInvited || e.Kind == EventUnreadable:
		return in.before(ctx, e, tier)
	case tier == TierStranger:
		return in.stranger(ctx, e)
	case e.Kind == EventButton:
		return in.tapped(ctx, e, tier)
	case e.Kind == EventEdited:
		return in.amended(ctx, e)
	case e.Kind == EventMessage:
		return in.said(ctx, e, tier)
	}
	return in.pass(ctx, e, "nobody knows what it is")
}

// phrase reads what was said, and says why it is not for this bot; "" if it is.
func (in *inbound) phrase(e *Event) (p phrase, why string) {
	p = read(e.Text, in.traits.BotName)
	switch {
	case p.foreign:
		return p, "it is to another bot"
	case e.Room.Group && !e.Addressed && !p.named && !in.options.Access.AllGroupMessages:
		return p, "it is not to the bot"
	}
	return p, ""
}

// said takes what was said by somebody who may.
func (in *inbound) said(ctx context.Context, e *Event, tier Tier) error {
	p, why := in.phrase(e)
	switch {
	case why != "":
		return in.pass(ctx, e, why)
	case p.near != "":
		return in.answer(ctx, e, fmt.Sprintf("There is no such command; did you mean %s? To say it to the agent, put %s before it.", in.traits.command(p.near), in.traits.command(cmdQueue)), nil)
	case p.command == "":
		return in.talk(ctx, e, p.text, in.options.Access.BusyMode)
	}
	if done, err := in.answered(ctx, e); done || err != nil {
		return in.again(ctx, e, err)
	}
	if tier < needs(p.command) {
		return in.answer(ctx, e, in.adminsOnly(p.command), nil)
	}
	return in.command(ctx, e, p, tier)
}

func (in *inbound) adminsOnly(command string) string {
	return fmt.Sprintf("Only an admin may %s. Who runs the server can make you one.", in.traits.command(command))
}

// again passes over what was done before.
func (in *inbound) again(ctx context.Context, e *Event, err error) error {
	if err != nil {
		return err
	}
	return in.pass(ctx, e, "it was answered before")
}

// talk hands text to the agent.
func (in *inbound) talk(ctx context.Context, e *Event, text string, mode mailroom.Mode) error {
	c, err := in.conversation(ctx, e)
	if err != nil {
		return err
	}
	if known, err := in.heardBefore(ctx, e, c); err != nil {
		return err
	} else if known != nil {
		in.out.watch(known.Result.Thread, e.Room, known.Result.Seq)
		return in.pass(ctx, e, "it was taken before")
	}
	content := in.parts(ctx, e, text)
	if err := ctx.Err(); err != nil {
		return err // the files were not fetched because the connection ends
	}
	if len(content) == 0 {
		return in.pass(ctx, e, "it is empty")
	}
	taken, err := in.link.Submit(ctx, channel.Inbound{
		Chat: in.names(e, c.kept.Since), Room: e.Room.words(in.traits.BotID), Key: sayKey(e.Key), Parts: content,
		Sender: in.sender(e), Agent: in.options.Agent, Mode: mode, Metadata: in.labels(e), NoRetry: true, Cursor: in.cursor(e),
	})
	switch mailroom.CodeOf(err) {
	case "":
		in.out.watch(taken.Thread, e.Room, taken.Seq)
	case mailroom.CodeConflict: // taken before, with other content: what was done then stands
		return in.pass(ctx, e, "it was taken before")
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeNotFound:
		in.link.Log().Warn("a message cannot be taken", "key", e.Key, "error", err)
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

// heardBefore is what became of a message that was taken before, in this conversation or
// an earlier one of the room; nil if it is new.
func (in *inbound) heardBefore(ctx context.Context, e *Event, c *talking) (*mailroom.SubmitKey, error) {
	for _, since := range append([]string{c.kept.Since}, c.kept.Before...) {
		if known, err := in.known(ctx, in.thread(e, since), sayKey(e.Key)); err != nil || known != nil {
			return known, err
		}
	}
	return nil, nil
}

// parts are what the agent gets of what was said, as the text. Files are fetched for an
// event of the backlog only.
func (in *inbound) parts(ctx context.Context, e *Event, text string) []mailroom.Part {
	files := e.Files
	if in.late != nil {
		ctx = in.late.fetching
	} else {
		files = withhold(files)
	}
	parts := attachments{in.options.Files, in.options.Access.MaxFileSize}.parts(ctx, text, files)
	if e.Room.Group && !in.options.Access.PerUser {
		return spoken(in.sender(e), e.User.Name, parts)
	}
	return parts
}

// sender is who said it, as the ledger has it.
func (in *inbound) sender(e *Event) string { return in.link.Name() + ":" + e.User.ID }

// labels are the way back to who said it.
func (in *inbound) labels(e *Event) map[string]string {
	m := e.Room.labels()
	m[labelUser], m[labelReply] = e.User.ID, e.Key
	if e.User.Name != "" {
		m[labelName] = e.User.Name
	}
	return m
}

// sayKey is the key of something said; it bounds what platforms think of.
func sayKey(key string) string {
	const most = 150
	if utf8.RuneCountInString(key) > most {
		return mailroom.DeriveID("said", key)
	}
	return key
}

// answerKey is the key of the answer to an event.
func answerKey(e *Event) string { return "answer:" + string(e.Kind) + ":" + sayKey(e.Key) }

// answer says something about an event in its room, once, and is done with it. more
// are further labels.
func (in *inbound) answer(ctx context.Context, e *Event, text string, more map[string]string) error {
	labels := in.labels(e)
	for k, v := range more {
		labels[k] = v
	}
	at := in.cursor(e)
	return in.link.Answer(ctx, channel.Answer{Room: e.Room.words(in.traits.BotID), Key: answerKey(e), Text: text, Metadata: labels, Cursor: &at})
}

// answered reports whether an event was answered, and so done, before.
func (in *inbound) answered(ctx context.Context, e *Event) (bool, error) {
	k, err := in.known(ctx, in.delivery(e), answerKey(e))
	return k != nil, err
}

// delivery is the delivery thread of an event's room.
func (in *inbound) delivery(e *Event) string {
	return channel.DeliveryThreadID(channel.ThreadID(in.link.Name(), e.Room.words(in.traits.BotID)...))
}

// known is what became of a key in a thread, nil if it was never used.
func (in *inbound) known(ctx context.Context, thread, key string) (found *mailroom.SubmitKey, err error) {
	err = in.link.View(ctx, func(r mailroom.Reader) error {
		keys, err := r.Keys(thread, []string{key})
		if len(keys) > 0 {
			found = &keys[0]
		}
		return err
	})
	return found, err
}

// amended changes what was said, if nobody has read it. Who changes it must be who
// said it: not every platform looks.
func (in *inbound) amended(ctx context.Context, e *Event) error {
	c, err := in.conversation(ctx, e)
	if err != nil {
		return err
	}
	for _, since := range append([]string{c.kept.Since}, c.kept.Before...) {
		thread := in.thread(e, since)
		k, err := in.known(ctx, thread, sayKey(e.TargetID))
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		change := channel.Edit{Chat: in.names(e, since), Key: sayKey(e.TargetID), Cursor: in.cursor(e)}
		if e.Kind == EventEdited {
			if own, err := in.saidBy(ctx, thread, k.Result.Seq, in.sender(e)); err != nil || !own {
				return in.notTheirs(ctx, e, err)
			}
			p := read(e.Text, in.traits.BotName)
			text := p.text
			if p.command == cmdQueue || p.command == cmdSteer {
				text = p.rest
			}
			change.Parts = in.parts(ctx, e, text)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		_, err = in.link.Edit(ctx, change)
		switch mailroom.CodeOf(err) {
		case mailroom.CodeInvalid, mailroom.CodeTooLarge:
			return in.answer(ctx, e, "Your change was not taken: "+reason(err)+".", nil)
		}
		return err
	}
	return in.pass(ctx, e, "what it changes was not taken")
}

func (in *inbound) notTheirs(ctx context.Context, e *Event, err error) error {
	if err != nil {
		return err
	}
	return in.pass(ctx, e, "somebody else said it")
}

// saidBy reports whether the message at seq is of that sender.
func (in *inbound) saidBy(ctx context.Context, thread string, seq int64, sender string) (own bool, err error) {
	err = in.link.View(ctx, func(r mailroom.Reader) error {
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

// before takes what comes before anything can be said: an invitation, or what cannot be
// read. Who may ask to be let in can do neither otherwise.
func (in *inbound) before(ctx context.Context, e *Event, tier Tier) error {
	if tier == TierStranger && (e.Room.Group || !in.options.Access.Pairing) {
		return in.pass(ctx, e, "whoever does it may not talk")
	}
	if e.Kind == EventUnreadable {
		return in.answer(ctx, e, e.Text, nil)
	}
	if err := e.Accept(ctx); err != nil {
		return err
	}
	return in.pass(ctx, e, "the bot is there now")
}

// stranger takes what somebody said who may not talk: at most a request to be let in
// comes of it, in private.
func (in *inbound) stranger(ctx context.Context, e *Event) error {
	if e.Kind == EventButton { // a platform waits for an answer, and shows that it does
		in.toast(e, "You may not decide this.")
	}
	if e.Kind != EventMessage || e.Room.Group || e.User.ID == "" || !in.options.Access.Pairing {
		return in.pass(ctx, e, "whoever says it may not talk")
	}
	random := make([]byte, codeLength+saltLength)
	rand.Read(random) // it never fails
	code := newCode(random[:codeLength])
	salt := random[codeLength:]
	made := false
	err := changePeople(ctx, in.link.UpdateValue, func(p *people, now time.Time) bool {
		made = p.ask(request{
			User: e.User.ID, Name: e.User.Name, Room: e.Room, Bot: in.traits.BotID, Help: in.traits.command(cmdHelp), Event: e.Key, Salt: salt, Sum: sumOf(salt, code),
		}, now)
		return made
	})
	if err != nil {
		return err
	}
	if made {
		to := *e
		if !in.beside(asideTimeout, func(ctx context.Context) { in.tellCode(ctx, &to, code, salt) }) {
			in.codeSent(ctx, e, salt, false)
		}
	}
	return in.pass(ctx, e, "whoever says it may not talk yet")
}

// asideTimeout bounds a call of the platform that goes on beside receiving.
const asideTimeout = 10 * time.Second

// tellCode sends a code, and keeps it nowhere. If it may not have arrived, the user can ask
// again at once and gets another one.
func (in *inbound) tellCode(ctx context.Context, e *Event, code string, salt []byte) {
	text := fmt.Sprintf("I do not know you. To let you talk to me, somebody runs this where the server is:\n%s pair approve %s\nThe code is good for %s.",
		in.options.Command, showCode(code), "one hour")
	err := in.out.gates.pass(ctx, e.Room, in.traits, asking, func(ctx context.Context) error {
		_, err := in.platform.Send(ctx, e.Room, Message{Text: text, Notice: true}, mailroom.DeriveID("pair", in.link.Name(), e.Key, code))
		return err
	})
	if err != nil {
		in.link.Log().Warn("pairing code could not be sent", "key", e.Key, "error", err)
	} else {
		in.link.Sent()
	}
	in.codeSent(context.WithoutCancel(ctx), e, salt, err == nil)
}

// codeSent notes whether a code was sent. Without the note it counts as not sent.
func (in *inbound) codeSent(ctx context.Context, e *Event, salt []byte, sent bool) {
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	err := changePeople(ctx, in.link.UpdateValue, func(p *people, now time.Time) bool { return p.told(e.User.ID, salt, sent, now) })
	if err != nil {
		in.link.Log().Debug("what became of a pairing code could not be kept", "key", e.Key, "error", err)
	}
}
