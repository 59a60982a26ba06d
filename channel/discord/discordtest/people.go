package discordtest

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/platformtest"
)

// Channel types.
const (
	typeText    = 0
	typePrivate = 1
	typeThread  = 11
)

// Channel is a channel, a thread or a private channel. Its exported fields do not change.
type Channel struct {
	*platformtest.Room[Details]
	ID     string
	Type   int
	Name   string
	Parent string // id of a thread's channel

	platform *Platform

	// Owned by the platform's mu.
	last   string
	hidden bool // no event announces it to the bot
}

// Message is a message of a channel.
type Message = platformtest.Message[Details]

// Details has the fields that only messages of Discord have.
type Details struct {
	Flags int
	Nonce string

	body map[string]any
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
	p.people++
	return &Person{ID: strconv.Itoa(500100200300400000 + p.people), Name: name, platform: p}
}

// Private returns the private channel of a person with the bot.
func (p *Person) Private() *Channel {
	p.platform.mu.Lock()
	defer p.platform.mu.Unlock()
	id := "4" + p.ID[1:]
	if p.platform.channels[id] == nil {
		p.platform.newChannel(id, typePrivate, p.Name)
	}
	return p.platform.channels[id]
}

// Channel creates a channel of the server. The bot learns of it with the next GUILD_CREATE.
func (p *Platform) Channel(name string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newChannel(p.nextID(), typeText, name)
}

// newChannel creates a channel. mu must be held.
func (p *Platform) newChannel(id string, kind int, name string) *Channel {
	c := &Channel{Room: platformtest.NewRoom[Details](&p.mu), ID: id, Type: kind, Name: name, platform: p}
	p.channels[id] = c
	return c
}

// Thread creates a thread of a channel. No event announces a hidden thread to the bot.
func (c *Channel) Thread(name string, hidden bool) *Channel {
	p := c.platform
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.newChannel(p.nextID(), typeThread, name)
	t.Parent, t.hidden = c.ID, hidden
	if !hidden {
		p.push("THREAD_CREATE", t.body())
	}
	return t
}

// Destroy removes a channel.
func (c *Channel) Destroy() {
	c.platform.Update(func() { delete(c.platform.channels, c.ID) })
}

// body builds the JSON of a channel. mu must be held.
func (c *Channel) body() map[string]any {
	b := map[string]any{"id": c.ID, "type": c.Type, "name": c.Name, "last_message_id": nil, "parent_id": nil}
	if c.last != "" {
		b["last_message_id"] = c.last
	}
	if c.Parent != "" {
		b["parent_id"] = c.Parent
		b["thread_metadata"] = map[string]any{"archived": false}
	}
	if c.Type != typePrivate {
		b["guild_id"] = ServerID
	}
	return b
}

// MessageOptions holds the properties of a message besides its text.
type MessageOptions struct {
	ReplyTo   string         // id of a message of the channel
	File      string         // name of an attached file
	Content   []byte         // of the file
	Bot       bool           // sent by another bot
	Webhook   bool           // sent by a webhook
	Type      int            // message type; system messages have types other than 0
	Forwarded string         // text of a forwarded message
	Fields    map[string]any // other JSON fields of the message
}

// Sends sends a message as the person and returns its id.
func (p *Person) Sends(c *Channel, text string, how ...MessageOptions) string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h MessageOptions
	if len(how) > 0 {
		h = how[0]
	}
	m := &Message{ID: c.platform.nextID(), From: p.Name, Text: text, ReplyTo: h.ReplyTo, At: time.Now()}
	body := map[string]any{
		"id": m.ID, "type": h.Type, "channel_id": c.ID, "content": text, "timestamp": m.At.Format(time.RFC3339Nano),
		"edited_timestamp": nil,
		"author":           map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "global_name": p.Name},
		"attachments":      []any{},
	}
	m.Details.body = body
	if h.Bot {
		body["author"].(map[string]any)["bot"] = true
	}
	if h.Webhook {
		body["webhook_id"] = p.ID
	}
	if h.File != "" {
		body["attachments"] = []any{c.platform.attachFile(c, h)}
	}
	if h.Forwarded != "" {
		body["message_snapshots"] = []any{map[string]any{"message": map[string]any{"type": 0, "content": h.Forwarded,
			"attachments": []any{}}}}
		body["message_reference"] = map[string]any{"type": 1, "message_id": "1"}
	}
	setMentions(body, text)
	maps.Copy(body, h.Fields)
	if of := c.Find(h.ReplyTo); of != nil {
		body["type"], body["referenced_message"] = 19, of.Details.body
	}
	c.add(m)
	return m.ID
}

// add adds a message and sends its event. mu must be held.
func (c *Channel) add(m *Message) {
	c.Add(m)
	c.last = m.ID
	body := c.event(m.Details.body)
	if m.Details.Nonce != "" {
		body["nonce"] = m.Details.Nonce
	} else {
		c.platform.lastMessage = body
	}
	c.platform.push("MESSAGE_CREATE", body)
}

// event adds the fields that only events have. mu must be held.
func (c *Channel) event(of map[string]any) map[string]any {
	body := maps.Clone(of)
	body["channel_type"] = c.Type
	if c.Type != typePrivate {
		body["guild_id"] = ServerID
		body["member"] = map[string]any{"nick": nil}
	}
	return body
}

var mentionPattern = regexp.MustCompile(`<@(!|&)?([0-9]+)>`)

// setMentions lists the mentions of a text in a message's JSON.
func setMentions(body map[string]any, text string) {
	users, roles := []any{}, []any{}
	for _, m := range mentionPattern.FindAllStringSubmatch(text, -1) {
		if m[1] == "&" {
			roles = append(roles, m[2])
		} else {
			users = append(users, map[string]any{"id": m[2], "username": "person"})
		}
	}
	body["mentions"], body["mention_roles"] = users, roles
}

// attachFile stores a file and returns its JSON. mu must be held.
func (p *Platform) attachFile(c *Channel, h MessageOptions) map[string]any {
	path := fmt.Sprintf("/attachments/%s/%d/%s?ex=1&is=2&hm=%x", c.ID, len(p.files)+1, h.File, len(p.files)+7)
	p.files[path] = h.Content
	f := map[string]any{"id": "1", "filename": h.File, "size": len(h.Content), "url": "http://" + p.Addr + path,
		"proxy_url": "http://nowhere.invalid/"}
	if strings.HasSuffix(h.File, ".txt") {
		f["content_type"] = "text/plain; charset=utf-8"
	}
	return f
}

// Edits edits a message of the person.
func (p *Person) Edits(c *Channel, id, text string) {
	c.platform.Update(func() {
		m := c.Find(id)
		body := maps.Clone(m.Details.body)
		body["content"], body["edited_timestamp"] = text, time.Now().Format(time.RFC3339Nano)
		setMentions(body, text)
		m.Text, m.Details.body = text, body
		m.Edits++
		c.platform.push("MESSAGE_UPDATE", c.event(m.Details.body))
	})
}

// Unfurl adds a link preview to a message, as Discord does.
func (c *Channel) Unfurl(id string) {
	c.platform.Update(func() {
		body := c.event(c.Find(id).Details.body)
		body["embeds"] = []any{map[string]any{"url": "https://example.org"}}
		c.platform.push("MESSAGE_UPDATE", body)
	})
}

// Deletes makes the person delete messages.
func (p *Person) Deletes(c *Channel, ids ...string) {
	c.platform.Update(func() {
		c.Drop(ids...)
		body := map[string]any{"channel_id": c.ID}
		if c.Type != typePrivate {
			body["guild_id"] = ServerID
		}
		if len(ids) == 1 {
			body["id"] = ids[0]
			c.platform.push("MESSAGE_DELETE", body)
			return
		}
		body["ids"] = ids
		c.platform.push("MESSAGE_DELETE_BULK", body)
	})
}

// Redeliver sends the event of the latest message by a person once more.
func (p *Platform) Redeliver() {
	p.Update(func() { p.push("MESSAGE_CREATE", p.lastMessage) })
}

// PushEvent sends an event as is.
func (p *Platform) PushEvent(kind string, body map[string]any) {
	p.Update(func() { p.push(kind, body) })
}

// ButtonPress is a press of a button.
type ButtonPress struct {
	*platformtest.Press
	token string
	at    time.Time

	// Owned by the platform's mu.
	deferred bool // a deferred response was sent, and no answer yet
	flags    int
}

// Presses presses the button with a label.
func (p *Person) Presses(c *Channel, id string, label string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m, b := c.Button(id, label)
	return p.press(c, m, b.Data)
}

// PressesData presses a button by its data; the message may no longer have it.
func (p *Person) PressesData(c *Channel, id string, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return p.press(c, c.Find(id), data)
}

func (p *Person) press(c *Channel, m *Message, data string) *ButtonPress {
	id := c.platform.nextID()
	t := &ButtonPress{Press: platformtest.NewPress(&c.platform.mu), token: "aW50ZXJhY3Rpb246" + id + "-secret",
		at: time.Now()}
	c.platform.presses[id] = t
	who := map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "global_name": p.Name}
	body := map[string]any{
		"id": id, "application_id": AppID, "type": 3, "token": t.token, "version": 1, "channel_id": c.ID, "channel": c.body(),
		"message": m.Details.body, "data": map[string]any{"custom_id": data, "component_type": 2},
	}
	if c.Type == typePrivate {
		body["user"] = who
	} else {
		body["guild_id"], body["member"] = ServerID, map[string]any{"user": who}
	}
	c.platform.push("INTERACTION_CREATE", body)
	return t
}

// Deferred reports whether the press got a deferred response and no answer yet.
func (t *ButtonPress) Deferred(p *Platform) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.deferred
}
