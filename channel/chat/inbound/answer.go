package inbound

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/digest"
	"mailroom/store"
)

// answers completes events that submit nothing, with or without an answer in their room. Both move
// the bot's cursor.
type answers struct {
	host *channel.Host
	bot  string // id of the bot
}

// position is the stored form of a bot's position.
type position struct {
	At string `json:"at"`
}

// position returns the position at which the platform resumes.
func (a *answers) position(ctx context.Context) (string, error) {
	raw, err := a.host.Position(ctx, a.bot)
	if raw == nil || err != nil {
		return "", err
	}
	var at position
	if err := json.Unmarshal(raw, &at); err != nil {
		return "", channel.Fatal(fmt.Errorf("decode the saved position: %w", err))
	}
	return at.At, nil
}

// cursor returns the cursor of an event. For an event of the backlog or of [albums] it has no position, because the
// position moved when the event was put there.
func (a *answers) cursor(e *event) channel.Cursor {
	if e.fetching != nil || e.passed {
		return channel.Cursor{}
	}
	raw, err := json.Marshal(position{At: e.Position})
	if err != nil {
		panic(err) // a string always encodes
	}
	return channel.Cursor{Identity: a.bot, Position: raw}
}

// skip moves the cursor past an event that needs no processing.
func (a *answers) skip(ctx context.Context, e *event, why string) error {
	a.host.Log().Debug("event skipped", "kind", string(e.Kind), "key", e.Key, "chat", e.Room.Chat, "reason", why)
	return a.host.MoveCursor(ctx, a.cursor(e))
}

// send sends an answer to an event's room once and moves the cursor. more are additional labels.
func (a *answers) send(ctx context.Context, e *event, text string, more map[string]string) error {
	metadata := labels(e)
	for k, v := range more {
		metadata[k] = v
	}
	at := a.cursor(e)
	return a.host.Answer(ctx, channel.Answer{Room: e.Room.Words(a.bot), Key: answerKey(e), Text: text, Metadata: metadata,
		Cursor: &at})
}

// skipSent skips an event that was answered before. It reports false if the event is new.
func (a *answers) skipSent(ctx context.Context, e *event) (bool, error) {
	if k, err := findKey(ctx, a.host, a.room(e), answerKey(e)); k == nil || err != nil {
		return false, err
	}
	return true, a.skip(ctx, e, "answered before")
}

// room returns the delivery thread of an event's room.
func (a *answers) room(e *event) string { return e.Room.DeliveryThread(a.host.Name(), a.bot) }

// answerKey returns the key of an event's answer.
func answerKey(e *event) string { return "answer:" + string(e.Kind) + ":" + messageKey(e.Key) }

// messageKey returns the submit key of a message. It bounds the length of the platform's id.
func messageKey(key string) string {
	const most = 150
	if utf8.RuneCountInString(key) > most {
		return digest.ID("said", key)
	}
	return key
}

// labels returns the run labels that identify the room and the author.
func labels(e *event) map[string]string {
	m := e.Room.Labels()
	m[chat.LabelUser], m[chat.LabelReply] = e.User.ID, e.Key
	if e.Kind == chat.EventEdited { // the key of an edit is no message
		m[chat.LabelReply] = e.TargetID
	}
	if e.User.Name != "" {
		m[chat.LabelName] = e.User.Name
	}
	return m
}

// findKey returns the result of a submit key in a thread, nil if it was never used.
func findKey(ctx context.Context, l channel.Viewer, thread, key string) (found *store.SubmitKey, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		keys, err := r.Keys(store.KeyQuery{Thread: thread, Keys: []string{key}})
		if len(keys) > 0 {
			found = &keys[0]
		}
		return err
	})
	return found, err
}
