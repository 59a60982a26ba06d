package discord

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf16"

	"mailroom/channel/chat"
)

// The types below hold what Discord sends, with only the fields that are used.

type user struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Global   string `json:"global_name"` // display name outside of servers
	Bot      bool   `json:"bot"`
	System   bool   `json:"system"`
}

// member is a user's membership in a server.
type member struct {
	Nick string `json:"nick"`
	User *user  `json:"user"` // set in interactions
}

func (u *user) user(in *member) chat.User {
	nick := ""
	if in != nil {
		nick = in.Nick
	}
	return chat.User{ID: u.ID, Name: cmp.Or(nick, u.Global, u.Username)}
}

// Channel types that are handled specially.
const (
	roomPrivate       = 1
	roomNewsThread    = 10
	roomThread        = 11
	roomPrivateThread = 12
	roomForum         = 15 // contains threads, not messages
	roomMedia         = 16 // as above
)

// room is a channel or a thread.
type room struct {
	ID     string `json:"id"`
	Type   int    `json:"type"`
	Parent string `json:"parent_id"`       // the channel of a thread; the category of a channel
	Last   string `json:"last_message_id"` // the message may have been deleted
}

func (r *room) thread() bool {
	return r.Type == roomNewsThread || r.Type == roomThread || r.Type == roomPrivateThread
}

type role struct {
	ID   string `json:"id"`
	Tags struct {
		Bot string `json:"bot_id"` // the bot that owns the role
	} `json:"tags"`
}

type roleChange struct {
	Server string `json:"guild_id"`
	Role   role   `json:"role"`
}

// server is a server, which the API calls a guild.
type server struct {
	ID          string `json:"id"`
	Unavailable bool   `json:"unavailable"`
	Channels    []room `json:"channels"`
	Threads     []room `json:"threads"`
	Roles       []role `json:"roles"`
}

type deletion struct {
	ID      string   `json:"id"`
	IDs     []string `json:"ids"`
	Channel string   `json:"channel_id"`
	Server  string   `json:"guild_id"`
}

const interactionComponent = 3

type interaction struct {
	ID      string   `json:"id"`
	App     string   `json:"application_id"`
	Type    int      `json:"type"`
	Token   string   `json:"token"`
	Channel string   `json:"channel_id"`
	Room    *room    `json:"channel"`
	Server  string   `json:"guild_id"`
	Member  *member  `json:"member"`
	User    *user    `json:"user"`
	Message *message `json:"message"`
	Data    struct {
		ID string `json:"custom_id"`
	} `json:"data"`
}

// Types of messages that people write.
const (
	messageDefault = 0
	messageReply   = 19
)

type message struct {
	ID        string          `json:"id"`
	Type      int             `json:"type"`
	Channel   string          `json:"channel_id"`
	RoomType  *int            `json:"channel_type"` // only events have it
	Server    string          `json:"guild_id"`     // only events have it; "" in private channels
	Author    *user           `json:"author"`
	Member    *member         `json:"member"`
	Webhook   string          `json:"webhook_id"`
	Content   *string         `json:"content"`
	Edited    string          `json:"edited_timestamp"`
	Mentions  []user          `json:"mentions"`
	Roles     []string        `json:"mention_roles"`
	ReplyTo   *message        `json:"referenced_message"`
	Files     []attachment    `json:"attachments"`
	Forwarded []snapshot      `json:"message_snapshots"` // forwarded messages
	Stickers  []sticker       `json:"sticker_items"`
	Poll      *poll           `json:"poll"`
	Nonce     json.RawMessage `json:"nonce"` // a string or a number
}

type snapshot struct {
	Message message `json:"message"`
}

type attachment struct {
	Name     string `json:"filename"`
	MimeType string `json:"content_type"`
	Size     int64  `json:"size"`
	URL      string `json:"url"`
}

// nonce returns the nonce of a message, "" if it has none.
func (m *message) nonce() string {
	var text string
	if err := json.Unmarshal(m.Nonce, &text); err != nil {
		return strings.Trim(string(m.Nonce), `"`) // a number
	}
	return text
}

// isFromPerson reports whether a person wrote the message.
func (m *message) isFromPerson() bool {
	author := m.Author
	return m.ID != "" && m.Channel != "" && author != nil && !author.Bot && !author.System && m.Webhook == "" &&
		(m.Type == messageDefault || m.Type == messageReply)
}

// messageEvent converts a message of a person. It reports false for any other message.
func (c *connection) messageEvent(m *message) (e chat.Event, ok bool) {
	if !m.isFromPerson() {
		return e, false
	}
	e.Room, e.User = c.room(m.Server, m.Channel, ""), m.Author.user(m.Member)
	text := m.content()
	if text == "" {
		text = m.describe()
	}
	e.Files = c.files(m.Files)
	role := c.shared.role(m.Server)
	e.Text = stripMention(text, c.bot, role)
	e.Addressed = !e.Room.Group || m.addresses(c.bot, role)
	c.readContext(&e, m)
	return e, text != "" || len(e.Files) > 0 || len(m.Forwarded) > 0
}

// addresses reports whether a message mentions the bot or its role, or replies to the bot. Discord lists mentions
// in quotations too, which address nothing.
func (m *message) addresses(bot account, role string) bool {
	own := withoutQuotes(m.content())
	for _, u := range m.Mentions {
		if u.ID == bot.ID && (strings.Contains(own, "<@"+bot.ID+">") || strings.Contains(own, "<@!"+bot.ID+">")) {
			return true
		}
	}
	for _, r := range m.Roles {
		if r == role && strings.Contains(own, "<@&"+role+">") {
			return true
		}
	}
	return m.ReplyTo != nil && m.ReplyTo.Author != nil && m.ReplyTo.Author.ID == bot.ID
}

// stripMention removes mentions of the bot from the beginning of a text, and replaces those
// within it by its name.
func stripMention(text string, bot account, role string) string {
	marks := []string{"<@" + bot.ID + ">", "<@!" + bot.ID + ">"}
	if role != "" {
		marks = append(marks, "<@&"+role+">")
	}
	for found := true; found; {
		found = false
		for _, m := range marks {
			rest, ok := strings.CutPrefix(strings.TrimSpace(text), m)
			if ok {
				text, found = strings.TrimLeft(rest, ":, \t\r\n"), true
			}
		}
	}
	for _, m := range marks {
		text = strings.ReplaceAll(text, m, "@"+bot.Username)
	}
	return text
}

// room returns the room of a channel or thread. parent is the channel of a thread, "" without a
// parent or if the shared state has it.
func (c *connection) room(server, channel, parent string) chat.Room {
	if parent = cmp.Or(parent, c.shared.parent(channel)); parent != "" {
		return chat.Room{Chat: parent, Topic: channel, Group: true}
	}
	return chat.Room{Chat: channel, Group: server != ""}
}

func (c *connection) recordThreads(all ...room) {
	for _, r := range all {
		if r.thread() && r.Parent != "" {
			c.shared.setThread(r.ID, r.Parent, r.Type == roomPrivateThread)
		}
	}
}

func (c *connection) recordRole(server string, r role) {
	if r.Tags.Bot == c.bot.ID {
		c.shared.setRole(server, r.ID)
	}
}

// utf16Units returns the length of a text in UTF-16 code units.
func utf16Units(text string) (n int) {
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
