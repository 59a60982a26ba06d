package telegramtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// Chat is a private chat, a group or a channel. Its exported fields do not change.
type Chat struct {
	ID    int64
	Type  string // private, group, supergroup or channel
	Title string

	platform *Platform

	// Owned by the platform's mu.
	messages      []*Message
	next          int64  // id of its next message
	rejection     string // description of the error for all sends; "" if sends succeed
	rejectionCode int    // error_code of the rejection
	topics        []int64
	admin         bool  // the bot is an admin
	moved         int64 // id of the supergroup that this group migrated to; 0 if it did not
	last          queuedUpdate
}

// Message is a message of a chat.
type Message struct {
	ID      int64
	Text    string // visible text
	HTML    string // as the bot sent it, "" for plain text
	Topic   int64
	Buttons []Button
	ReplyTo int64 // id of the message it replies to
	Edits   int
	Bot     bool // sent by the bot
	At      time.Time

	sender string
	body   map[string]any // JSON in updates and responses
}

// Button is a button of a message.
type Button struct{ Label, Data string }

// Person is a user.
type Person struct {
	ID   int64
	Name string

	platform *Platform
}

// Person creates a person.
func (p *Platform) Person(name string) *Person {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.people++
	return &Person{ID: 1000 + p.people, Name: name, platform: p}
}

// Private returns the private chat of a person with the bot.
func (p *Person) Private() *Chat {
	return p.platform.Chat(p.ID, "private", p.Name)
}

// Chat returns the chat with an id, and creates it if needed.
func (p *Platform) Chat(id int64, kind, title string) *Chat {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.chats[id] == nil {
		p.chats[id] = &Chat{ID: id, Type: kind, Title: title, platform: p, next: 1}
	}
	return p.chats[id]
}

// Group creates a supergroup.
func (p *Platform) Group(title string) *Chat {
	p.mu.Lock()
	id := -1001000000000 - int64(len(p.chats))
	p.mu.Unlock()
	return p.Chat(id, "supergroup", title)
}

// Refuse rejects all sends to a chat with an error; "" accepts them again.
func (c *Chat) Refuse(code int, words string) {
	c.platform.Update(func() { c.rejectionCode, c.rejection = code, words })
}

// Topic creates a topic and returns its id.
func (c *Chat) Topic() int64 {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	c.next++
	c.topics = append(c.topics, c.next-1)
	return c.next - 1
}

// MigrateTo migrates the group to a supergroup with another id.
func (c *Chat) MigrateTo(by *Person, is *Chat) {
	c.platform.Update(func() {
		c.moved = is.ID
		body := c.messageBody(by, 0)
		body["migrate_to_chat_id"] = is.ID
		c.platform.push(c, "message", body)
	})
}

// Messages returns copies of all messages of the chat.
func (c *Chat) Messages() []Message {
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

// Replies returns the bot's messages in their current form.
func (c *Chat) Replies() []Message {
	return slices.DeleteFunc(c.Messages(), func(m Message) bool { return !m.Bot })
}

// Texts returns the texts of the bot's messages.
func (c *Chat) Texts() (texts []string) {
	for _, m := range c.Replies() {
		texts = append(texts, m.Text)
	}
	return texts
}

// Delete deletes a message. Telegram does not tell bots about deletions.
func (c *Chat) Delete(id int64) {
	c.platform.Update(func() { c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.ID == id }) })
}

// MessageOptions holds the properties of a message besides its text.
type MessageOptions struct {
	Topic   int64
	ReplyTo int64  // id of a message of the chat
	File    string // name of an attached document; the text becomes its caption
	Content []byte // of the file
	Photo   bool   // the file is a photo
}

// Sends sends a message as the person and returns its id.
func (p *Person) Sends(c *Chat, text string, how ...MessageOptions) int64 {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h MessageOptions
	if len(how) > 0 {
		h = how[0]
	}
	body := c.messageBody(p, h.Topic)
	field, marks := "text", "entities"
	if h.File != "" {
		field, marks = "caption", "caption_entities"
		c.platform.attachFile(body, h)
	}
	if text != "" {
		body[field] = text
	}
	if found := entities(text); len(found) > 0 {
		body[marks] = found
	}
	if h.Topic != 0 {
		body["is_topic_message"] = true
	}
	if m := c.find(h.ReplyTo); m != nil {
		body["reply_to_message"] = m.body
	}
	m := &Message{ID: c.next, Text: text, Topic: h.Topic, ReplyTo: h.ReplyTo, At: time.Now(), sender: p.Name, body: body}
	c.next++
	c.messages = append(c.messages, m)
	kind := "message"
	if c.Type == "channel" {
		kind = "channel_post"
	}
	c.platform.push(c, kind, body)
	return m.ID
}

// Edits edits a message of the person.
func (p *Person) Edits(c *Chat, id int64, text string) {
	c.platform.Update(func() {
		m := c.find(id)
		m.Text, m.body = text, clone(m.body)
		m.body["text"], m.body["edit_date"] = text, time.Now().Unix()
		if found := entities(text); len(found) > 0 {
			m.body["entities"] = found
		}
		c.platform.push(c, "edited_message", m.body)
	})
}

// ButtonPress is a press of a button.
type ButtonPress struct {
	// Owned by the platform's mu.
	answers int
	text    string
	expired bool
}

// Presses presses the button with a label.
func (p *Person) Presses(c *Chat, id int64, label string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(id)
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Label == label })
	if i < 0 {
		panic(fmt.Sprintf("message %d has no button %q: %+v", id, label, m.Buttons)) // a mistake in a test
	}
	return p.press(c, m, m.Buttons[i].Data)
}

// PressesData presses a button by its data; the message may no longer have it.
func (p *Person) PressesData(c *Chat, id int64, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return p.press(c, c.find(id), data)
}

// PressesInaccessible presses a button of a message that the bot can no longer access: the
// update contains an InaccessibleMessage.
func (p *Person) PressesInaccessible(c *Chat, id int64, label string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := *c.find(id)
	m.body = map[string]any{"chat": m.body["chat"], "message_id": id, "date": 0}
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Label == label })
	return p.press(c, &m, m.Buttons[i].Data)
}

// PressesInaccessibleData presses a button with the data on an inaccessible message.
func (p *Person) PressesInaccessibleData(c *Chat, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	chat := map[string]any{"id": c.ID, "type": c.Type, "title": c.Title}
	return p.press(c, &Message{body: map[string]any{"chat": chat, "message_id": 1, "date": 0}}, data)
}

// MakeAdmin makes the bot an admin of the group.
func (c *Chat) MakeAdmin() {
	c.platform.Update(func() { c.admin = true })
}

func (p *Person) press(c *Chat, m *Message, data string) *ButtonPress {
	c.platform.nextPress++
	query := fmt.Sprintf("4382%014d", c.platform.nextPress)
	t := &ButtonPress{}
	c.platform.presses[query] = t
	c.platform.push(c, "callback_query", map[string]any{
		"id": query, "from": p.userBody(), "message": m.body, "data": data, "chat_instance": "1",
	})
	return t
}

// Expire makes answers to the press fail as too late.
func (t *ButtonPress) Expire(p *Platform) {
	p.Update(func() { t.expired = true })
}

// Answer returns the answer shown for the press, and the number of answers.
func (t *ButtonPress) Answer(p *Platform) (text string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.text, t.answers
}

// find returns a message, or nil. mu must be held.
func (c *Chat) find(id int64) *Message {
	for _, m := range c.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// messageBody builds the common JSON of a message. mu must be held.
func (c *Chat) messageBody(by *Person, topic int64) map[string]any {
	in := map[string]any{"id": c.ID, "type": c.Type, "title": c.Title}
	body := map[string]any{"message_id": c.next, "chat": in, "date": time.Now().Unix()}
	if c.Type == "channel" {
		body["sender_chat"] = in
	} else {
		body["from"] = by.userBody()
	}
	if topic != 0 {
		body["message_thread_id"] = topic
	}
	return body
}

func (p *Person) userBody() map[string]any {
	return map[string]any{"id": p.ID, "is_bot": false, "first_name": p.Name, "username": strings.ToLower(p.Name), "language_code": "en"}
}

// attachFile adds a file to the JSON of a message. mu must be held.
func (p *Platform) attachFile(body map[string]any, h MessageOptions) {
	id := fmt.Sprintf("BQACAgIAAx%06d", len(p.files)+1)
	p.files[id] = storedFile{path: "documents/file_" + fmt.Sprint(len(p.files)) + ".bin", name: h.File, content: h.Content}
	f := map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_size": len(h.Content)}
	if h.Photo {
		small := map[string]any{"file_id": id + "-small", "file_unique_id": "s" + id, "file_size": 10, "width": 90, "height": 90}
		f["width"], f["height"] = 1280, 960
		body["photo"] = []any{small, f}
		return
	}
	f["file_name"], f["mime_type"] = h.File, "application/octet-stream"
	if strings.HasSuffix(h.File, ".txt") {
		f["mime_type"] = "text/plain"
	}
	body["document"] = f
}

var entityPattern = regexp.MustCompile(`(?:^|\s)(/[A-Za-z0-9_]+(?:@[A-Za-z0-9_]+)?|@[A-Za-z0-9_]{4,})`)

// entities returns the commands and mentions of a text, with offsets in UTF-16 units.
func entities(text string) (found []any) {
	for _, at := range entityPattern.FindAllStringSubmatchIndex(text, -1) {
		kind := "mention"
		if text[at[2]] == '/' {
			kind = "bot_command"
		}
		found = append(found, map[string]any{
			"type": kind, "offset": len(utf16.Encode([]rune(text[:at[2]]))), "length": len(utf16.Encode([]rune(text[at[2]:at[3]]))),
		})
	}
	return found
}
