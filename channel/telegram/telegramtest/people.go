package telegramtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"mailroom/channel/platformtest"
)

// Chat is a private chat, a group or a channel. Its exported fields do not change.
type Chat struct {
	*platformtest.Room[details]
	ID    int64
	Type  string // private, group, supergroup or channel
	Title string

	platform *Platform

	// Owned by the platform's mu.
	next   int64 // number of its next message
	topics []string
	admin  bool  // the bot is an admin
	moved  int64 // id of the supergroup that this group migrated to; 0 if it did not
	last   queuedUpdate
}

// Message is a message of a chat. Its ID is the number within the chat, and its Source is HTML, ""
// for plain text.
type Message = platformtest.Message[details]

type details struct {
	body map[string]any // JSON in updates and responses
}

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
		p.chats[id] = &Chat{Room: platformtest.NewRoom[details](&p.mu), ID: id, Type: kind, Title: title,
			platform: p, next: 1}
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

// Topic creates a topic and returns its id.
func (c *Chat) Topic() string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	id := c.nextID()
	c.topics = append(c.topics, id)
	return id
}

// DeleteTopic deletes a topic.
func (c *Chat) DeleteTopic(id string) {
	c.platform.Update(func() { c.topics = slices.DeleteFunc(c.topics, func(t string) bool { return t == id }) })
}

// nextID returns the id of the next message. mu must be held.
func (c *Chat) nextID() string {
	c.next++
	return strconv.FormatInt(c.next-1, 10)
}

// MigrateTo migrates the group to a supergroup with another id.
func (c *Chat) MigrateTo(by *Person, is *Chat) {
	c.platform.Update(func() {
		c.moved = is.ID
		body := c.messageBody(by, c.nextID(), "")
		body["migrate_to_chat_id"] = is.ID
		c.platform.push(c, "message", body)
	})
}

// MessageOptions holds the properties of a message besides its text.
type MessageOptions struct {
	Topic   string
	ReplyTo string         // id of a message of the chat
	File    string         // name of an attached document; the text becomes its caption
	Content []byte         // of the file
	Photo   bool           // the file is a photo
	Fields  map[string]any // other JSON fields of the message
}

// Sends sends a message as the person and returns its id.
func (p *Person) Sends(c *Chat, text string, how ...MessageOptions) string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h MessageOptions
	if len(how) > 0 {
		h = how[0]
	}
	id := c.nextID()
	body := c.messageBody(p, id, h.Topic)
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
	if h.Topic != "" {
		body["is_topic_message"] = true
	}
	if m := c.Find(h.ReplyTo); m != nil {
		body["reply_to_message"] = m.Details.body
	}
	maps.Copy(body, h.Fields)
	c.Add(&Message{ID: id, From: p.Name, Text: text, Thread: h.Topic, ReplyTo: h.ReplyTo, At: time.Now(),
		Details: details{body}})
	kind := "message"
	if c.Type == "channel" {
		kind = "channel_post"
	}
	c.platform.push(c, kind, body)
	return id
}

// Edits edits a message of the person.
func (p *Person) Edits(c *Chat, id string, text string) {
	c.platform.Update(func() {
		m := c.Find(id)
		m.Text = text
		body := clone(m.Details.body)
		body["text"], body["edit_date"] = text, time.Now().Unix()
		if found := entities(text); len(found) > 0 {
			body["entities"] = found
		}
		m.Details.body = body
		c.platform.push(c, "edited_message", body)
	})
}

// ButtonPress is a press of a button.
type ButtonPress = platformtest.Press

// Presses presses the button with a label.
func (p *Person) Presses(c *Chat, id string, label string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m, b := c.Button(id, label)
	return p.press(c, m.Details.body, b.Data)
}

// PressesData presses a button by its data; the message may no longer have it.
func (p *Person) PressesData(c *Chat, id string, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return p.press(c, c.Find(id).Details.body, data)
}

// PressesInaccessible presses a button of a message that the bot can no longer access: the
// update contains an InaccessibleMessage.
func (p *Person) PressesInaccessible(c *Chat, id string, label string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m, b := c.Button(id, label)
	return p.press(c, map[string]any{"chat": m.Details.body["chat"], "message_id": json.Number(id), "date": 0}, b.Data)
}

// PressesInaccessibleData presses a button with the data on an inaccessible message.
func (p *Person) PressesInaccessibleData(c *Chat, data string) *ButtonPress {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	chat := map[string]any{"id": c.ID, "type": c.Type, "title": c.Title}
	return p.press(c, map[string]any{"chat": chat, "message_id": 1, "date": 0}, data)
}

// MakeAdmin makes the bot an admin of the group.
func (c *Chat) MakeAdmin() {
	c.platform.Update(func() { c.admin = true })
}

func (p *Person) press(c *Chat, message map[string]any, data string) *ButtonPress {
	c.platform.nextPress++
	query := fmt.Sprintf("4382%014d", c.platform.nextPress)
	press := platformtest.NewPress(&c.platform.mu)
	c.platform.presses[query] = press
	c.platform.push(c, "callback_query", map[string]any{
		"id": query, "from": p.userBody(), "message": message, "data": data, "chat_instance": "1",
	})
	return press
}

// messageBody builds the common JSON of a message. mu must be held.
func (c *Chat) messageBody(by *Person, id, topic string) map[string]any {
	in := map[string]any{"id": c.ID, "type": c.Type, "title": c.Title}
	body := map[string]any{"message_id": json.Number(id), "chat": in, "date": time.Now().Unix()}
	if c.Type == "channel" {
		body["sender_chat"] = in
	} else {
		body["from"] = by.userBody()
	}
	if topic != "" {
		body["message_thread_id"] = json.Number(topic)
	}
	return body
}

func (p *Person) userBody() map[string]any {
	return map[string]any{"id": p.ID, "is_bot": false, "first_name": p.Name, "username": strings.ToLower(p.Name),
		"language_code": "en"}
}

// attachFile adds a file to the JSON of a message. mu must be held.
func (p *Platform) attachFile(body map[string]any, h MessageOptions) {
	id := fmt.Sprintf("BQACAgIAAx%06d", len(p.files)+1)
	p.files[id] = storedFile{path: "documents/file_" + fmt.Sprint(len(p.files)) + ".bin", name: h.File, content: h.Content}
	f := map[string]any{"file_id": id, "file_unique_id": "u" + id, "file_size": len(h.Content)}
	if h.Photo {
		small := map[string]any{"file_id": id + "-small", "file_unique_id": "s" + id, "file_size": 10, "width": 90,
			"height": 90}
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
			"type": kind, "offset": len(utf16.Encode([]rune(text[:at[2]]))),
			"length": len(utf16.Encode([]rune(text[at[2]:at[3]]))),
		})
	}
	return found
}
