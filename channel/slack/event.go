package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/chat"
	"mailroom/internal/lazyregexp"
)

// message is a message as events and histories have it, with only the fields that are used.
type message struct {
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	Channel    string `json:"channel"` // empty in a history
	User       string `json:"user"`
	BotID      string `json:"bot_id"` // id of the bot that sent the message
	Text       string `json:"text"`
	TS         string `json:"ts"`
	Thread     string `json:"thread_ts"`      // the thread's root; set on replies and on a root with replies
	ParentUser string `json:"parent_user_id"` // author of the thread's root
	Files      []file `json:"files"`
	Edited     *struct {
		TS string `json:"ts"`
	} `json:"edited"`
	Attachments []struct {
		Share    bool   `json:"is_share"` // a forwarded message; otherwise a link preview
		Author   string `json:"author_name"`
		AuthorID string `json:"author_id"`
		Text     string `json:"text"`
	} `json:"attachments"`
	LatestReply string `json:"latest_reply"` // set on a thread's root in a history
	Metadata    struct {
		Type    string `json:"event_type"`
		Payload struct {
			Key string `json:"key"`
		} `json:"event_payload"`
	} `json:"metadata"`

	// Set on message_changed and message_deleted.
	EventTS   string   `json:"event_ts"`
	DeletedTS string   `json:"deleted_ts"`
	Message   *message `json:"message"`
	Previous  *message `json:"previous_message"`
}

// messageID returns the id of a message: its timestamp is unique only within its channel.
func messageID(channel, ts string) string { return channel + ":" + ts }

// splitMessageID returns the channel and the timestamp of a message id. ok is false if it is
// malformed.
func splitMessageID(id string) (channel, ts string, ok bool) {
	channel, ts, ok = strings.Cut(id, ":")
	return channel, ts, ok && channel != "" && timestampPattern().MatchString(ts)
}

var timestampPattern = lazyregexp.New(`^[0-9]{1,12}\.[0-9]{1,9}$`)

// timeOf returns the time of a timestamp, in whole milliseconds.
func timeOf(ts string) time.Time {
	seconds, fraction, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	milliseconds, _ := strconv.ParseInt((fraction + "000")[:3], 10, 64) // zero for no number
	return time.Unix(s, milliseconds*int64(time.Millisecond))
}

// isBefore reports whether timestamp a is earlier than b. Timestamps are seconds with six
// decimals, so the one with fewer digits before the point is earlier.
func isBefore(a, b string) bool {
	if i, j := strings.IndexByte(a, '.'), strings.IndexByte(b, '.'); i != j {
		return i < j
	}
	return a < b
}

// errEventsDropped stands for app_rate_limited, which Slack sends instead of events.
var errEventsDropped = errors.New("events dropped by Slack: the app has exceeded its hourly event limit")

// parseEvent parses the message event in an envelope. ok is false for other events.
func parseEvent(payload json.RawMessage) (m message, ok bool, err error) {
	var outer struct {
		Type  string          `json:"type"`
		Event json.RawMessage `json:"event"`
	}
	if err := json.Unmarshal(payload, &outer); err != nil {
		return m, false, err
	}
	if outer.Type == "app_rate_limited" {
		return m, false, errEventsDropped
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(outer.Event, &kind); err != nil || kind.Type != "message" && kind.Type != "app_mention" {
		return m, false, err
	}
	if err := json.Unmarshal(outer.Event, &m); err != nil {
		return m, false, err
	}
	return m, true, nil
}

// toEvent converts a message, or a change of one, to an event. It reports false if there is
// nothing to handle.
func (c *connection) toEvent(m message) (e chat.Event, ok bool) {
	if m.Channel == "" {
		return e, false
	}
	switch m.Subtype {
	case "message_changed":
		return c.editEvent(m)
	case "message_deleted":
		if m.Previous == nil || !timestampPattern().MatchString(m.DeletedTS) {
			return e, false
		}
		return c.deleteEvent(m.Channel, *m.Previous, m.DeletedTS), true
	}
	return c.messageEvent(m)
}

// messageEvent converts a message of a person. It reports false for any other message.
func (c *connection) messageEvent(m message) (e chat.Event, ok bool) {
	switch m.Subtype {
	case "", "file_share", "thread_broadcast", "me_message":
	default:
		return e, false
	}
	if m.User == "" || m.BotID != "" || m.User == c.bot.ID || m.User == slackbot || !timestampPattern().MatchString(m.TS) {
		return e, false // two bots could answer each other forever
	}
	e = chat.Event{
		Kind: chat.EventMessage, Key: messageID(m.Channel, m.TS), Room: c.room(m),
		User: chat.User{ID: m.User}, Files: c.files(m.Files), Written: timeOf(m.TS),
	}
	e.Addressed = !e.Room.Group || m.ParentUser == c.bot.ID ||
		slices.Contains(mentionedUsers(withoutQuotes(m.Text)), c.bot.ID)
	e.Text = m.Text
	for _, s := range m.Attachments {
		if s.Share {
			e.Context = append(e.Context, chat.Context{
				Kind: chat.ContextForward, Author: chat.User{ID: s.AuthorID, Name: s.Author}, ByBot: s.AuthorID == c.bot.ID,
				Text: s.Text,
			})
		}
	}
	switch {
	case e.Text != "" || len(e.Files) > 0 || len(e.Context) > 0:
		return e, true
	case e.Room.Group || m.Edited != nil || m.Subtype != "":
		return e, false
	}
	seconds, _, _ := strings.Cut(m.TS, ".")
	return chat.Event{
		// about one answer in three hours
		Kind: chat.EventUnreadable, Key: "unreadable:" + seconds[:max(len(seconds)-4, 0)], Room: e.Room, User: e.User,
		Text: "I cannot read this kind of message. Please send it as text or as a file.",
	}, true
}

// withoutQuotes returns the lines of a text that are no quotation: ">" quotes a line, and ">>>"
// everything after it.
func withoutQuotes(text string) string {
	var own []string
	for line := range strings.SplitSeq(text, "\n") {
		switch trimmed := strings.TrimLeft(line, " \t\r"); {
		case strings.HasPrefix(trimmed, "&gt;&gt;&gt;"):
			return strings.Join(own, "\n")
		case strings.HasPrefix(trimmed, "&gt;"):
		default:
			own = append(own, line)
		}
	}
	return strings.Join(own, "\n")
}

// fullText returns the text of a message and of the messages forwarded with it.
func (m message) fullText() string {
	text := m.Text
	for _, s := range m.Attachments {
		if s.Share {
			text += "\n" + s.Text
		}
	}
	return text
}

// slackbot is the user id of Slackbot in every workspace.
const slackbot = "USLACKBOT"

// editEvent converts message_changed: an edit, or the tombstone that deleting a message with
// replies leaves.
func (c *connection) editEvent(m message) (e chat.Event, ok bool) {
	now, was := m.Message, m.Previous
	if now == nil {
		return e, false
	}
	if now.Subtype == "tombstone" {
		if was != nil {
			now = was
		}
		return c.deleteEvent(m.Channel, *now, m.Message.TS), timestampPattern().MatchString(m.Message.TS)
	}
	if was != nil && was.Text == now.Text && len(was.Files) == len(now.Files) {
		return e, false // Slack added a link preview
	}
	now.Channel = m.Channel
	if e, ok = c.messageEvent(*now); !ok {
		return e, false
	}
	at := m.EventTS
	if now.Edited != nil {
		at = now.Edited.TS
	}
	e.Kind, e.TargetID, e.Key = chat.EventEdited, e.Key, "edit:"+e.Key+":"+at
	return e, true
}

func (c *connection) deleteEvent(channel string, was message, ts string) chat.Event {
	was.Channel, was.TS = channel, ts
	of := messageID(channel, ts)
	return chat.Event{Kind: chat.EventDeleted, Key: "delete:" + of, TargetID: of, Room: c.room(was),
		User: chat.User{ID: was.User}}
}

// room returns where a message belongs. A message in a channel that is no reply starts a
// thread, unless Flat makes the channel one conversation.
func (c *connection) room(m message) chat.Room {
	r := chat.Room{Chat: m.Channel, Group: !isPrivate(m.Channel)}
	switch {
	case m.Thread != "" && m.Thread != m.TS:
		r.Topic = m.Thread
	case r.Group && !c.options.Flat:
		r.Topic = m.TS
	}
	return r
}

// isPrivate reports whether a conversation of Slack is a direct message with the bot.
func isPrivate(channel string) bool { return strings.HasPrefix(channel, "D") }

// parseButtonPress parses a button press from an interactive envelope. ok is false for other
// interactions.
func parseButtonPress(payload json.RawMessage) (e chat.Event, ok bool, err error) {
	var p struct {
		Type string `json:"type"`
		User struct {
			ID       string `json:"id"`
			Name     string `json:"name"`
			Username string `json:"username"`
		} `json:"user"`
		Container struct {
			Channel   string `json:"channel_id"`
			TS        string `json:"message_ts"`
			Thread    string `json:"thread_ts"`
			Ephemeral bool   `json:"is_ephemeral"`
		} `json:"container"`
		Message struct {
			Thread string `json:"thread_ts"`
		} `json:"message"`
		Actions []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
			TS    string `json:"action_ts"`
		} `json:"actions"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return e, false, err
	}
	at := p.Container
	if p.Type != "block_actions" || len(p.Actions) == 0 || p.Actions[0].Type != "button" || at.Channel == "" ||
		at.Ephemeral {
		return e, false, nil
	}
	act := p.Actions[0]
	e = chat.Event{
		Kind: chat.EventButton, Key: fmt.Sprintf("tap:%s:%s:%s", messageID(at.Channel, at.TS), p.User.ID, act.TS),
		Addressed: true,
		Room:      chat.Room{Chat: at.Channel, Group: !isPrivate(at.Channel)},
		User:      chat.User{ID: p.User.ID, Name: p.User.Username},
		TargetID:  messageID(at.Channel, at.TS), Data: act.Value,
	}
	if e.User.Name == "" {
		e.User.Name = p.User.Name
	}
	for _, thread := range []string{at.Thread, p.Message.Thread} {
		if thread != "" && thread != at.TS {
			e.Room.Topic = thread
		}
	}
	return e, true, nil
}
