package discordtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of channels.
const (
	typeText    = 0
	typePrivate = 1
	typeThread  = 11
)

// Channel is a channel, a thread or a private one. Its exported fields are not changed
// once it is used.
type Channel struct {
	ID     string
	Type   int
	Name   string
	Parent string // the channel of a thread

	platform *Platform

	// Owned by the platform's mu.
	messages  []*Message
	last      string
	hidden    bool  // the bot is not told that it is there
	rejection Fault // of what is sent there; Status 0: it is taken
}

// Message is one that is in a channel.
type Message struct {
	ID      string
	Text    string
	Buttons []Button
	ReplyTo string // the message it is a reply to
	Edits   int
	Bot     bool // the bot wrote it
	Flags   int
	Nonce   string
	At      time.Time

	sender string
	body   map[string]any
}

// Button is one under a message.
type Button struct{ Label, Data string }

// Person talks.
type Person struct {
	ID   string
	Name string

	platform *Platform
}

// Person makes somebody.
func (p *Platform) Person(name string) *Person {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.people++
	return &Person{ID: strconv.Itoa(500100200300400000 + p.people), Name: name, platform: p}
}

// Private is the channel of a person with the bot.
func (p *Person) Private() *Channel {
	p.platform.mu.Lock()
	defer p.platform.mu.Unlock()
	id := "4" + p.ID[1:]
	if p.platform.channels[id] == nil {
		p.platform.channels[id] = &Channel{ID: id, Type: typePrivate, Name: p.Name, platform: p.platform}
	}
	return p.platform.channels[id]
}

// Channel makes a channel of the server, of which the bot is told when it comes.
func (p *Platform) Channel(name string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Channel{ID: p.nextID(), Type: typeText, Name: name, platform: p}
	p.channels[c.ID] = c
	return c
}

// Thread makes a thread of a channel. Of a quiet one the bot is not told.
func (c *Channel) Thread(name string, quiet bool) *Channel {
	p := c.platform
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &Channel{ID: p.nextID(), Type: typeThread, Name: name, Parent: c.ID, platform: p, hidden: quiet}
	p.channels[t.ID] = t
	if !quiet {
		p.push("THREAD_CREATE", t.body())
	}
	return t
}

// Remove has a channel there no more.
func (c *Channel) Remove() {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	delete(c.platform.channels, c.ID)
}

// Refuse has nothing taken for a channel; a Status of 0 takes all again.
func (c *Channel) Refuse(f Fault) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	c.rejection = f
}

// body is the channel as the bot is told of it. It is within mu.
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

// Messages are those of the channel, the bot's and those of people.
func (c *Channel) Messages() []Message {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var all []Message
	for _, m := range c.messages {
		copied := *m
		copied.Buttons = slices.Clone(m.Buttons)
		all = append(all, copied)
	}
	return all
}

// Replies are the bot's messages, as they are read now.
func (c *Channel) Replies() []Message {
	return slices.DeleteFunc(c.Messages(), func(m Message) bool { return !m.Bot })
}

// Texts are those of the bot's messages.
func (c *Channel) Texts() (texts []string) {
	for _, m := range c.Replies() {
		texts = append(texts, m.Text)
	}
	return texts
}

// MessageOptions is how something is said, beside its text.
type MessageOptions struct {
	ReplyTo   string // id of a message of the channel
	File      string // name of a file that comes with it
	Content   []byte // of the file
	Bot       bool   // another bot says it
	Webhook   bool   // nobody says it: a program does
	Type      int    // of the message: what the platform says by itself has others than 0
	Forwarded string // text of a message that is passed on
}

// Sends has somebody say something, and returns the id of the message.
func (p *Person) Sends(c *Channel, text string, how ...MessageOptions) string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h MessageOptions
	if len(how) > 0 {
		h = how[0]
	}
	m := &Message{ID: c.platform.nextID(), Text: text, ReplyTo: h.ReplyTo, At: time.Now(), sender: p.Name}
	m.body = map[string]any{
		"id": m.ID, "type": h.Type, "channel_id": c.ID, "content": text, "timestamp": m.At.Format(time.RFC3339Nano), "edited_timestamp": nil,
		"author": map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "global_name": p.Name}, "attachments": []any{},
	}
	if h.Bot {
		m.body["author"].(map[string]any)["bot"] = true
	}
	if h.Webhook {
		m.body["webhook_id"] = p.ID
	}
	if h.File != "" {
		m.body["attachments"] = []any{c.platform.attachFile(c, h)}
	}
	if h.Forwarded != "" {
		m.body["message_snapshots"] = []any{map[string]any{"message": map[string]any{"type": 0, "content": h.Forwarded, "attachments": []any{}}}}
		m.body["message_reference"] = map[string]any{"type": 1, "message_id": "1"}
	}
	setMentions(m.body, text)
	if of := c.find(h.ReplyTo); of != nil {
		m.body["type"], m.body["referenced_message"] = 19, of.body
	}
	c.add(m)
	return m.ID
}

// add puts a message into a channel, and tells the bot. It is within mu.
func (c *Channel) add(m *Message) {
	c.messages = append(c.messages, m)
	c.last = m.ID
	body := c.event(m.body)
	if m.Nonce != "" {
		body["nonce"] = m.Nonce
	} else {
		c.platform.lastMessage = body
	}
	c.platform.push("MESSAGE_CREATE", body)
}

// event is the body of a message with what only events have. It is within mu.
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

// setMentions lists who is named in a text.
func setMentions(body map[string]any, text string) {
	users, roles := []any{}, []any{}
	for _, m := range mentionPattern.FindAllStringSubmatch(text, -1) {
		if m[1] == "&" {
			roles = append(roles, m[2])
		} else {
			users = append(users, map[string]any{"id": m[2], "username": "somebody"})
		}
	}
	body["mentions"], body["mention_roles"] = users, roles
}

// attachFile puts a file where it can be fetched. It is within mu.
func (p *Platform) attachFile(c *Channel, h MessageOptions) map[string]any {
	path := fmt.Sprintf("/attachments/%s/%d/%s?ex=1&is=2&hm=%x", c.ID, len(p.files)+1, h.File, len(p.files)+7)
	p.files[path] = h.Content
	f := map[string]any{"id": "1", "filename": h.File, "size": len(h.Content), "url": "http://" + p.host + path, "proxy_url": "http://nowhere.invalid/"}
	if strings.HasSuffix(h.File, ".txt") {
		f["content_type"] = "text/plain; charset=utf-8"
	}
	return f
}

// Edits has somebody change what they have said.
func (p *Person) Edits(c *Channel, id, text string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(id)
	m.Text, m.body = text, maps.Clone(m.body)
	m.Edits++
	m.body["content"], m.body["edited_timestamp"] = text, time.Now().Format(time.RFC3339Nano)
	setMentions(m.body, text)
	c.platform.push("MESSAGE_UPDATE", c.event(m.body))
}

// Unfurl is what the platform does with a link: it changes the message by itself.
func (c *Channel) Unfurl(id string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	body := c.event(c.find(id).body)
	body["embeds"] = []any{map[string]any{"url": "https://example.org"}}
	c.platform.push("MESSAGE_UPDATE", body)
}

// Deletes has messages deleted.
func (p *Person) Deletes(c *Channel, ids ...string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return slices.Contains(ids, m.ID) })
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
}

// Redeliver tells the bot another time what somebody has said last.
func (p *Platform) Redeliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push("MESSAGE_CREATE", p.lastMessage)
}

// PushEvent has the bot get an event as it is.
func (p *Platform) PushEvent(kind string, body map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(kind, body)
}

// ButtonPress is a button that was pressed.
type ButtonPress struct {
	token string
	at    time.Time

	// Owned by the platform's mu.
	deferred bool // it was acknowledged, and not answered
	answers  int
	text     string
	flags    int
	expired  bool
}

// Presses has somebody press a button of a message, by its words.
func (p *Person) Presses(c *Channel, id string, words string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(id)
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Label == words })
	if i < 0 {
		panic(fmt.Sprintf("message %s has no button %q: %+v", id, words, m.Buttons)) // a mistake in a test
	}
	return p.press(c, m, m.Buttons[i].Data)
}

// PressesData presses a button that need not be there any more.
func (p *Person) PressesData(c *Channel, id string, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return p.press(c, c.find(id), data)
}

func (p *Person) press(c *Channel, m *Message, data string) *ButtonPress {
	id := c.platform.nextID()
	t := &ButtonPress{token: "aW50ZXJhY3Rpb246" + id + "-secret", at: time.Now()}
	c.platform.presses[id] = t
	who := map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "global_name": p.Name}
	body := map[string]any{
		"id": id, "application_id": AppID, "type": 3, "token": t.token, "version": 1, "channel_id": c.ID, "channel": c.body(),
		"message": m.body, "data": map[string]any{"custom_id": data, "component_type": 2},
	}
	if c.Type == typePrivate {
		body["user"] = who
	} else {
		body["guild_id"], body["member"] = ServerID, map[string]any{"user": who}
	}
	c.platform.push("INTERACTION_CREATE", body)
	return t
}

// Expire has the answer to a tap come too late.
func (t *ButtonPress) Expire(p *Platform) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.expired = true
}

// Deferred says that who has pressed it was not told anything yet, and not that it failed.
func (t *ButtonPress) Deferred(p *Platform) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.deferred
}

// Answer is what who has pressed it was told, and how often; nobody else has seen it.
func (t *ButtonPress) Answer(p *Platform) (words string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.text, t.answers
}

// find is a message, or nil. It is within mu.
func (c *Channel) find(id string) *Message {
	for _, m := range c.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}
