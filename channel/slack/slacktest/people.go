package slacktest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Channel is a room of any kind. Its exported fields are not changed once it is used.
type Channel struct {
	ID   string
	Type string // im, mpim, channel or group

	platform *Platform

	// Owned by the platform's mu.
	messages []*Message
	told     map[string][]string // to one person alone, by their id
	refuses  string              // why nothing can be sent there, in the platform's words; "" if it can
}

// Message is one that is in a channel.
type Message struct {
	TS      string
	Thread  string // the message that it replies to; "" for none
	User    string
	Text    string // as it was sent
	Shown   string // as it is read, of the bot's
	Section string // of the blocks
	Buttons []Button
	Edits   int
	Bot     bool

	metadata map[string]any
	more     map[string]any // that events and histories show
}

// Button is one under a message.
type Button struct{ Words, Value, Action string }

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
	one := &Person{ID: fmt.Sprintf("U0P%d", p.number()), Name: name, platform: p}
	p.people[one.ID] = one
	return one
}

// Private is the room of a person with the bot.
func (p *Person) Private() *Channel { return p.platform.channel("D"+p.ID[1:], "im") }

// Channel makes a channel that the bot is in.
func (p *Platform) Channel(name string) *Channel {
	return p.channel("C0"+strings.ToUpper(name), "channel")
}

// Group makes a room of a few people with the bot.
func (p *Platform) Group(name string) *Channel { return p.channel("G0"+strings.ToUpper(name), "mpim") }

func (p *Platform) channel(id, kind string) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.channels[id] == nil {
		p.channels[id] = &Channel{ID: id, Type: kind, platform: p, told: map[string][]string{}}
	}
	return p.channels[id]
}

// scope is what its history needs.
func (c *Channel) scope() string {
	return map[string]string{"im": "im:history", "mpim": "mpim:history", "channel": "channels:history", "group": "groups:history"}[c.Type]
}

// Refuse has nothing taken for a channel, for a reason in the platform's words; ""
// takes all again.
func (c *Channel) Refuse(word string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	c.refuses = word
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

// Replies are the bot's messages, as they are now.
func (c *Channel) Replies() []Message {
	return slices.DeleteFunc(c.Messages(), func(m Message) bool { return !m.Bot })
}

// Texts are those of the bot's messages, as they are read.
func (c *Channel) Texts() (texts []string) {
	for _, m := range c.Replies() {
		texts = append(texts, m.Shown)
	}
	return texts
}

// Told is what a person alone was told in a channel.
func (c *Channel) Told(p *Person) []string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	return slices.Clone(c.told[p.ID])
}

// Remove takes a message away; the bot hears nothing of it.
func (c *Channel) Remove(ts string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.TS == ts })
}

// find is a message, or nil. It is within mu.
func (c *Channel) find(ts string) *Message {
	for _, m := range c.messages {
		if ts != "" && m.TS == ts {
			return m
		}
	}
	return nil
}

// replies are those to a message. It is within mu.
func (c *Channel) replies(ts string) (all []*Message) {
	for _, m := range c.messages {
		if m.Thread == ts && m.TS != ts {
			all = append(all, m)
		}
	}
	return all
}

// Said is how something is said, beside its text.
type Said struct {
	Thread    string // message that it replies to
	Broadcast bool   // and in the channel too
	File      string // name of a file that comes with it
	Kind      string // of the file; "" is text/plain
	Content   []byte
	Forwards  string // what somebody else has said, of whom it has the name Bob
	Subtype   string // as events have it
	Bot       bool   // another bot says it
	Only      string // of the events of a mention, that one: "message" or "app_mention"
}

// Says has somebody say something, and returns the time of the message.
func (p *Person) Says(c *Channel, text string, how ...Said) string {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	var h Said
	if len(how) > 0 {
		h = how[0]
	}
	m := &Message{TS: c.platform.now(), Thread: h.Thread, User: p.ID, Text: text, more: map[string]any{}}
	switch {
	case h.Subtype != "":
		m.more["subtype"] = h.Subtype
	case h.Broadcast:
		m.more["subtype"] = "thread_broadcast"
	case h.File != "":
		m.more["subtype"] = "file_share"
	}
	if h.Bot {
		m.more["bot_id"] = "B0OTHER"
	}
	if h.File != "" {
		m.more["files"] = []any{c.platform.attach(h)}
	}
	if h.Forwards != "" {
		m.more["attachments"] = []any{map[string]any{"is_share": true, "author_name": "Bob", "text": h.Forwards}, map[string]any{"text": "a preview"}}
	}
	c.messages = append(c.messages, m)
	body := m.event(c)
	if at := c.find(h.Thread); at != nil {
		body["parent_user_id"] = at.User
	}
	if c.Type != "im" && strings.Contains(text, "<@"+BotID+">") && h.Only != "message" {
		mention := map[string]any{"type": "app_mention", "user": p.ID, "text": text, "ts": m.TS, "channel": c.ID, "event_ts": m.TS}
		if h.Thread != "" {
			mention["thread_ts"] = h.Thread
		}
		c.platform.event(mention)
	}
	if h.Only != "app_mention" {
		c.platform.event(body)
	}
	return m.TS
}

// attach keeps a file. It is within mu.
func (p *Platform) attach(h Said) map[string]any {
	if h.Kind == "" {
		h.Kind = "text/plain"
	}
	id := fmt.Sprintf("F0%d", p.number())
	p.files[id] = stored{name: h.File, kind: h.Kind, content: h.Content}
	return p.fileBody(id, p.files[id])
}

func (p *Platform) fileBody(id string, f stored) map[string]any {
	at := "http://" + p.addr + "/files/" + id
	return map[string]any{
		"id": id, "name": f.name, "title": f.name, "mimetype": f.kind, "size": len(f.content), "mode": "hosted",
		"url_private": at, "url_private_download": at, "permalink": "https://work.slack.com/files/" + id + "/" + f.name,
	}
}

// Edits has somebody change what they have said.
func (p *Person) Edits(c *Channel, ts, text string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(ts)
	was := m.body(false)
	at := c.platform.now()
	m.Text = text
	m.more["edited"] = map[string]any{"user": p.ID, "ts": at}
	c.change(was, m.body(false), at)
}

// change tells of a change. It is within mu.
func (c *Channel) change(was, is map[string]any, at string) {
	c.platform.event(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": c.Type, "ts": at, "event_ts": at,
		"message": is, "previous_message": was,
	})
}

// Unfurls has the platform show what a link in a message leads to.
func (c *Channel) Unfurls(ts string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(ts)
	is := m.body(false)
	is["attachments"] = []any{map[string]any{"title": "a page"}}
	c.change(m.body(false), is, c.platform.now())
}

// Deletes has somebody delete a message. What was replied to leaves a trace.
func (p *Person) Deletes(c *Channel, ts string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	was := c.find(ts).body(false)
	at := c.platform.now()
	if len(c.replies(ts)) > 0 {
		c.change(was, map[string]any{
			"type": "message", "subtype": "tombstone", "user": slackbot, "text": "This message was deleted.", "ts": ts, "thread_ts": ts, "hidden": true,
		}, at)
		return
	}
	c.messages = slices.DeleteFunc(c.messages, func(m *Message) bool { return m.TS == ts })
	c.platform.event(map[string]any{
		"type": "message", "subtype": "message_deleted", "hidden": true, "channel": c.ID, "channel_type": c.Type, "ts": at, "event_ts": at,
		"deleted_ts": ts, "previous_message": was,
	})
}

const slackbot = "USLACKBOT"

// Taps has somebody press a button of a message, by its words.
func (p *Person) Taps(c *Channel, ts, words string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	m := c.find(ts)
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Words == words })
	if i < 0 {
		panic(fmt.Sprintf("message %s has no button %q: %+v", ts, words, m.Buttons)) // a mistake in a test
	}
	p.tap(c, m, m.Buttons[i])
}

// TapsValue presses a button that need not be there any more.
func (p *Person) TapsValue(c *Channel, ts, value string) {
	c.platform.mu.Lock()
	defer c.platform.mu.Unlock()
	p.tap(c, c.find(ts), Button{Value: value, Action: "mailroom_0"})
}

func (p *Person) tap(c *Channel, m *Message, b Button) {
	container := map[string]any{"type": "message", "message_ts": m.TS, "channel_id": c.ID, "is_ephemeral": false}
	if m.Thread != "" {
		container["thread_ts"] = m.Thread
	}
	c.platform.push("interactive", map[string]any{
		"type": "block_actions", "team": map[string]any{"id": TeamID}, "api_app_id": AppID, "trigger_id": "1.2.3",
		"user":      map[string]any{"id": p.ID, "username": strings.ToLower(p.Name), "team_id": TeamID},
		"container": container, "channel": map[string]any{"id": c.ID}, "message": m.body(false),
		"actions": []any{map[string]any{
			"type": "button", "action_id": b.Action, "block_id": "b", "value": b.Value, "action_ts": fmt.Sprintf("%d.%06d", time.Now().Unix(), c.platform.number()),
		}},
	})
}
