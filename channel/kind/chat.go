package kind

import (
	"mailroom"
	"mailroom/channel/chat"
	"mailroom/internal/setting"
)

// Chat holds the access and conversation settings of a chat channel.
type Chat struct {
	Admins  []string // user ids of the platform
	Users   []string
	Chats   []string // ids of chats in which every user may talk
	Pairing bool
	Busy    string // one of chat.BusyModes
	Groups  string // groupsAddressed or groupsEverything
	// Previews shows the agent's text while it is written, on platforms with edits.
	Previews bool
	PerUser  bool // each user in a group has a separate conversation
	MaxFile  int  // maximum size of a stored attachment, in bytes
}

// Values of groups: which messages in groups are processed.
const (
	groupsAddressed  = "addressed"
	groupsEverything = "everything"
)

// NewChat returns the default settings.
func NewChat() Chat {
	return Chat{Pairing: true, Busy: string(mailroom.ModeQueue), Groups: groupsAddressed, Previews: true, MaxFile: chat.DefaultMaxFileSize}
}

// Keys returns the keys of these settings.
func (c *Chat) Keys() []setting.Setting {
	var busy []string
	for _, m := range chat.BusyModes() {
		busy = append(busy, string(m))
	}
	return []setting.Setting{
		setting.New("admins", "Ids of users who may talk and also decide the agent's requests for approval.", setting.List(&c.Admins)),
		setting.New("users", "Ids of users who may talk.", setting.List(&c.Users)),
		setting.New("chats", "Ids of chats in which every user may talk.", setting.List(&c.Chats)),
		setting.New("pairing", "Give an unknown user in a private chat a pairing code, for mailroom pair approve.", setting.Bool(&c.Pairing)),
		setting.New("busy", "How to handle a message while the agent works: queue, steer, interrupt or collect.", setting.OneOf(&c.Busy, busy...)),
		setting.New("groups", "Which messages in groups are processed: addressed (to the bot) or everything.", setting.OneOf(&c.Groups, groupsAddressed, groupsEverything)),
		setting.New("previews", "Show the agent's text while it is written, on platforms with edits.", setting.Bool(&c.Previews)),
		setting.New("per_user", "Each user in a group has a separate conversation.", setting.Bool(&c.PerUser)),
		setting.New("max_file", "Maximum size of an attachment that is stored for the agent, in the folder files of the data folder.", setting.Size(&c.MaxFile, 1<<10, 1<<30)),
	}
}

// AccessPolicy returns the access policy of these settings.
func (c *Chat) AccessPolicy() chat.AccessPolicy {
	return chat.AccessPolicy{
		Admins: c.Admins, Users: c.Users, Chats: c.Chats, Pairing: c.Pairing, BusyMode: mailroom.Mode(c.Busy),
		AllGroupMessages: c.Groups == groupsEverything, PerUser: c.PerUser, MaxFileSize: int64(c.MaxFile),
	}
}
