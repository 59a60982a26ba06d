package slacktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/channel/platformtest"
)

// Channel is a room of any type. Its exported fields do not change.
type Channel struct {
	*platformtest.Room[Details]
	ID   string
	Type string // im, mpim, channel or group

	platform *Platform

	// Owned by the platform's mu.
	ephemeral map[string][]string // ephemeral messages by user id
}

// Message is a message of a channel. Its ID is its timestamp, its Thread the timestamp of the
// thread's root and its Source the text as sent.
type Message = platformtest.Message[Details]

// Details has the fields that only messages of Slack have.
type Details struct {
	Section string // text of the section block

	metadata map[string]any
	extra    map[string]any // additional JSON fields
}

// Person is a user.
type Person struct {
	ID   string
	Name string

	platform *Platform
}

// Person creates a person.
func (p *Platform) Person(name string) *Person {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := &Person{ID: fmt.Sprintf("U0P%d", p.nextNumber()), Name: name, platform: p}
	p.people[one.ID] = one
	return one
}

// Private returns the direct message channel of a person with the bot.
func (p *Person) Private() *Channel { return p.platform.channel("D"+p.ID[1:], "im") }

// Channel creates a channel that the bot is in.
func (p *Platform) Channel(name string) *Channel {
	return p.channel("C0"+strings.ToUpper(name), "channel")
}

// Group creates a group direct message with the bot.
func (p *Platform) Group(name string) *Channel { return p.channel("G0"+strings.ToUpper(name), "mpim") }

func (p *Platform) channel(id, kind string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.channels[id] == nil {
		p.channels[id] = &Channel{Room: platformtest.NewRoom[Details](&p.mu), ID: id, Type: kind, platform: p,
			ephemeral: map[string][]string{}}
	}
	return p.channels[id]
}

// scope returns the scope that the channel's history requires.
func (c *Channel) scope() string {
	return map[string]string{"im": "im:history", "mpim": "mpim:history", "channel": "channels:history",
		"group": "groups:history"}[c.Type]
}

// Ephemeral returns the texts shown to one person alone.
func (c *Channel) Ephemeral(p *Person) []string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return slices.Clone(c.ephemeral[p.ID])
}

// replies returns the replies to a message. mu must be held.
func (c *Channel) replies(ts string) (all []*Message) {
	for _, m := range c.All() {
		if m.Thread == ts && m.ID != ts {
			all = append(all, m)
		}
	}
	return all
}

// MessageOptions holds the properties of a message besides its text.
type MessageOptions struct {
	Thread    string // timestamp of the message it replies to
	Broadcast bool   // also sent to the channel
	File      string // name of an attached file
	Content   []byte
	Forwarded string // text of a forwarded message by Bob
	Subtype   string // subtype of the event
	Bot       bool   // sent by another bot
	OnlyEvent string // send only this event of a mention: "message" or "app_mention"
}

// Sends sends a message as the person and returns its timestamp.
func (p *Person) Sends(c *Channel, text string, how ...MessageOptions) string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h MessageOptions
	if len(how) > 0 {
		h = how[0]
	}
	extra := map[string]any{}
	m := &Message{ID: c.platform.nextTimestamp(), Thread: h.Thread, From: p.ID, Text: text, Source: text, At: time.Now(),
		Details: Details{extra: extra}}
	switch {
	case h.Subtype != "":
		extra["subtype"] = h.Subtype
	case h.Broadcast:
		extra["subtype"] = "thread_broadcast"
	case h.File != "":
		extra["subtype"] = "file_share"
	}
	if h.Bot {
		extra["bot_id"] = "B0OTHER"
	}
	if h.File != "" {
		extra["files"] = []any{c.platform.attachFile(h)}
	}
	if h.Forwarded != "" {
		extra["attachments"] = []any{map[string]any{"is_share": true, "author_name": "Bob", "text": h.Forwarded},
			map[string]any{"text": "a preview"}}
	}
	c.Add(m)
	body := event(m, c)
	if at := c.Find(h.Thread); at != nil {
		body["parent_user_id"] = at.From
	}
	if c.Type != "im" && strings.Contains(text, "<@"+BotID+">") && h.OnlyEvent != "message" {
		mention := map[string]any{"type": "app_mention", "user": p.ID, "text": text, "ts": m.ID, "channel": c.ID,
			"event_ts": m.ID}
		if h.Thread != "" {
			mention["thread_ts"] = h.Thread
		}
		c.platform.event(mention)
	}
	if h.OnlyEvent != "app_mention" {
		c.platform.event(body)
	}
	return m.ID
}

// attachFile stores a file and returns its JSON. mu must be held.
func (p *Platform) attachFile(h MessageOptions) map[string]any {
	id := fmt.Sprintf("F0%d", p.nextNumber())
	p.files[id] = storedFile{name: h.File, content: h.Content}
	return p.fileBody(id, p.files[id])
}

func (p *Platform) fileBody(id string, f storedFile) map[string]any {
	at := "http://" + p.Addr + "/files/" + id
	return map[string]any{
		"id": id, "name": f.name, "title": f.name, "mimetype": "text/plain", "size": len(f.content), "mode": "hosted",
		"url_private": at, "url_private_download": at, "permalink": "https://work.slack.com/files/" + id + "/" + f.name,
	}
}

// Edits edits a message of the person.
func (p *Person) Edits(c *Channel, ts, text string) {
	c.platform.Update(func() {
		m := c.Find(ts)
		was := messageBody(m, false)
		at := c.platform.nextTimestamp()
		m.Text, m.Source = text, text
		m.Details.extra["edited"] = map[string]any{"user": p.ID, "ts": at}
		c.pushChange(was, messageBody(m, false), at)
	})
}

// pushChange sends a message_changed event. mu must be held.
func (c *Channel) pushChange(was, is map[string]any, at string) {
	c.platform.event(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Type, "ts": at,
		"event_ts": at,
		"message":  is, "previous_message": was,
	})
}

// Unfurl adds a link preview to a message, as Slack does.
func (c *Channel) Unfurl(ts string) {
	c.platform.Update(func() {
		m := c.Find(ts)
		is := messageBody(m, false)
		is["attachments"] = []any{map[string]any{"title": "a page"}}
		c.pushChange(messageBody(m, false), is, c.platform.nextTimestamp())
	})
}

// Deletes deletes a message. A message with replies leaves a tombstone.
func (p *Person) Deletes(c *Channel, ts string) {
	c.platform.Update(func() {
		was := messageBody(c.Find(ts), false)
		at := c.platform.nextTimestamp()
		if len(c.replies(ts)) > 0 {
			c.pushChange(was, map[string]any{
				"type": "message", "subtype": "tombstone", "user": slackbot, "text": "This message was deleted.", "ts": ts,
				"thread_ts": ts, "hidden": true,
			}, at)
			return
		}
		c.Drop(ts)
		c.platform.event(map[string]any{
			"type": "message", "subtype": "message_deleted", "hidden": true, "channel": c.ID, "channel_type": c.Type, "ts": at,
			"event_ts":   at,
			"deleted_ts": ts, "previous_message": was,
		})
	})
}

const slackbot = "USLACKBOT"

// Presses presses the button with a label.
func (p *Person) Presses(c *Channel, ts, label string) {
	c.platform.Update(func() {
		m, b := c.Button(ts, label)
		p.press(c, m, b)
	})
}

// PressesData presses a button by its value; the message may no longer have it.
func (p *Person) PressesData(c *Channel, ts, value string) {
	c.platform.Update(func() { p.press(c, c.Find(ts), platformtest.Button{Data: value, Name: "mailroom_0"}) })
}

func (p *Person) press(c *Channel, m *Message, b platformtest.Button) {
	container := map[string]any{"type": "message", "message_ts": m.ID, "channel_id": c.ID, "is_ephemeral": false}
	if m.Thread != "" {
		container["thread_ts"] = m.Thread
	}
	c.platform.push("interactive", map[string]any{
		"type": "block_actions", "team": map[string]any{"id": TeamID}, "api_app_id": AppID, "trigger_id": "1.2.3",
		"user":      map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "team_id": TeamID},
		"container": container, "channel": map[string]any{"id": c.ID}, "message": messageBody(m, false),
		"actions": []any{map[string]any{
			"type": "button", "action_id": b.Name, "block_id": "b", "value": b.Data,
			"action_ts": fmt.Sprintf("%d.%06d", time.Now().Unix(), c.platform.nextNumber()),
		}},
	})
}
