package config

import (
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
)

// Chat is who may talk on the channel of a chat platform, and how.
type Chat struct {
	Admins  []string // ids of users, as the platform has them
	Users   []string
	Chats   []string // in which everybody may talk
	Pairing bool
	Busy    string // one of chat.BusyModes
	Groups  string // Addressed or Everything
	// Previews shows what the agent writes while it writes it, where messages can be
	// edited.
	Previews bool
	PerUser  bool // each user in a group has a conversation of their own
}

// What is read in groups.
const (
	Addressed  = "addressed"
	Everything = "everything"
)

func defaultChat() Chat {
	return Chat{Pairing: true, Busy: string(mailroom.ModeQueue), Groups: Addressed, Previews: true}
}

func (c *Chat) settings() []setting {
	var busy []string
	for _, m := range chat.BusyModes() {
		busy = append(busy, string(m))
	}
	return []setting{
		{"admins", "Ids of users who may also decide what the agent asks to do.", list(&c.Admins)},
		{"users", "Ids of users who may talk; nobody else may.", list(&c.Users)},
		{"chats", "Ids of chats in which everybody may talk.", list(&c.Chats)},
		{"pairing", "Give a stranger in private a code, for mailroom pair approve.", flag(&c.Pairing)},
		{"busy", "What a message does while the agent works: queue, steer, interrupt or collect.", oneOf(&c.Busy, busy...)},
		{"groups", "What is read in groups: addressed is what is said to the bot, everything is all.", oneOf(&c.Groups, Addressed, Everything)},
		{"previews", "Show what the agent writes while it writes it, where messages can be edited.", flag(&c.Previews)},
		{"per_user", "Each user in a group has a conversation of their own.", flag(&c.PerUser)},
	}
}

// Talk is what the settings say to a platform.
func (c *Chat) Talk() chat.Talk {
	return chat.Talk{
		Admins: c.Admins, Users: c.Users, Chats: c.Chats, Pairing: c.Pairing, Busy: mailroom.Mode(c.Busy),
		Everything: c.Groups == Everything, PerUser: c.PerUser,
	}
}

// ChannelKinds are all kinds of channels that a table can have.
func ChannelKinds() []string { return []string{KindIRC, KindPoll, KindTelegram} }

// IsChat reports whether people talk on the channel.
func (c *Channel) IsChat() bool { return c.Kind != KindPoll }

// HasToken reports whether it says where a token is.
func (c *Channel) HasToken() bool { return c.TokenEnv != "" || c.TokenFile != "" }

// KindTelegram is a bot of Telegram.
const KindTelegram = telegram.Kind

// Telegram is a bot.
type Telegram struct {
	API  string
	Poll time.Duration
}

func defaultTelegram() Telegram {
	return Telegram{API: telegram.DefaultAPI, Poll: telegram.DefaultPoll}
}

func (c *Telegram) settings() []setting {
	return []setting{
		{"api", "Address of the Bot API; another one is a Bot API server of one's own.", platform(&c.API)},
		{"poll", "How long the platform is to wait with its answer for something to arrive, in whole seconds. An answer is evidence for that long and up to 15s more.", duration(&c.Poll, time.Second, 50*time.Second)},
	}
}

// TelegramOptions are what the settings say to the platform. The token is read for
// each connection.
func (c *Channel) TelegramOptions() telegram.Options {
	o := telegram.Options{Token: c.Token, API: c.API, Poll: c.Poll}
	for _, w := range chat.Menu() {
		o.Commands = append(o.Commands, telegram.Command{Name: w.Name, Words: w.Words})
	}
	return o
}
