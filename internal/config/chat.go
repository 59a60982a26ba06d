package config

import (
	"mailroom"
	"mailroom/channel/chat"
)

// Chat holds the access and conversation settings of a chat channel.
type Chat struct {
	Admins  []string // user ids of the platform
	Users   []string
	Chats   []string // ids of chats in which every user may talk
	Pairing bool
	Busy    string // one of chat.BusyModes
	Groups  string // GroupsAddressed or GroupsEverything
	// Previews shows the agent's text while it is written, on platforms with edits.
	Previews bool
	PerUser  bool // each user in a group has a separate conversation
	MaxFile  int  // maximum size of a stored attachment, in bytes
}

// Values of groups: which messages in groups are processed.
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
		{"admins", "Ids of users who may talk and also decide the agent's requests for approval.", list(&c.Admins)},
		{"users", "Ids of users who may talk.", list(&c.Users)},
		{"chats", "Ids of chats in which every user may talk.", list(&c.Chats)},
		{"pairing", "Give an unknown user in a private chat a pairing code, for mailroom pair approve.", flag(&c.Pairing)},
		{"busy", "How to handle a message while the agent works: queue, steer, interrupt or collect.", oneOf(&c.Busy, busy...)},
		{"groups", "Which messages in groups are processed: addressed (to the bot) or everything.", oneOf(&c.Groups, GroupsAddressed, GroupsEverything)},
		{"previews", "Show the agent's text while it is written, on platforms with edits.", flag(&c.Previews)},
		{"per_user", "Each user in a group has a separate conversation.", flag(&c.PerUser)},
		{"max_file", "Maximum size of an attachment that is stored for the agent, in the folder files of the data folder.", size(&c.MaxFile, 1<<10, 1<<30)},
	}
}

// AccessPolicy returns the access policy of these settings.
func (c *Chat) AccessPolicy() chat.AccessPolicy {
	return chat.AccessPolicy{
		Admins: c.Admins, Users: c.Users, Chats: c.Chats, Pairing: c.Pairing, BusyMode: mailroom.Mode(c.Busy),
		AllGroupMessages: c.Groups == GroupsEverything, PerUser: c.PerUser, MaxFileSize: int64(c.MaxFile),
	}
}
