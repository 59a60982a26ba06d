package config

import (
	"mailroom"
	"mailroom/channel/chat"
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
	MaxFile  int  // bytes of a file that is kept
}

// What is read in groups.
const (
	GroupsAddressed  = "addressed"
	GroupsEverything = "everything"
)

func defaultChat() Chat {
	return Chat{Pairing: true, Busy: string(mailroom.ModeQueue), Groups: GroupsAddressed, Previews: true, MaxFile: chat.DefaultMaxFileSize}
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
		{"groups", "What is read in groups: addressed is what is said to the bot, everything is all.", oneOf(&c.Groups, GroupsAddressed, GroupsEverything)},
		{"previews", "Show what the agent writes while it writes it, where messages can be edited.", flag(&c.Previews)},
		{"per_user", "Each user in a group has a conversation of their own.", flag(&c.PerUser)},
		{"max_file", "Largest file sent along that is kept for the agent, in the folder files of the data folder.", size(&c.MaxFile, 1<<10, 1<<30)},
	}
}

// AccessPolicy is what the settings say to a platform.
func (c *Chat) AccessPolicy() chat.AccessPolicy {
	return chat.AccessPolicy{
		Admins: c.Admins, Users: c.Users, Chats: c.Chats, Pairing: c.Pairing, BusyMode: mailroom.Mode(c.Busy),
		AllGroupMessages: c.Groups == GroupsEverything, PerUser: c.PerUser, MaxFileSize: int64(c.MaxFile),
	}
}
