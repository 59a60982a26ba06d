package kind

import (
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/internal/setting"
)

// NewChat returns the default options of a chat channel.
func NewChat() chat.Options {
	return chat.Options{
		Previews: true, MaxParts: chat.DefaultMaxParts, AnswerWithin: chat.DefaultAnswerWithin,
		Access: chat.AccessPolicy{Pairing: true, BusyMode: mailroom.ModeQueue, Join: chat.DefaultJoin,
			MaxFileSize: chat.DefaultMaxFileSize},
	}
}

// Chat returns the keys that every chat channel has, bound to its options.
func Chat(o *chat.Options) []setting.Setting {
	p := &o.Access
	return []setting.Setting{
		setting.New("admins", "Ids of users who may talk and also decide the agent's requests for approval.",
			setting.List(&p.Admins)),
		setting.New("users", "Ids of users who may talk.", setting.List(&p.Users)),
		setting.New("chats", "Ids of chats in which every user may talk.", setting.List(&p.Chats)),
		setting.New("pairing", "Give an unknown user in a private chat a pairing code, for mailroom pair approve.",
			setting.Bool(&p.Pairing)),
		setting.New("busy", "How to handle a message while the agent works: queue, steer, interrupt or collect.",
			setting.OneOf(&p.BusyMode, chat.BusyModes()...)),
		setting.New("join_within",
			"Messages that a user sends within this time of each other become one run, which waits as long; 0s starts each one at once, and is the default of webhooks.", setting.Duration(&p.Join, 0, chat.MaxJoin)),
		setting.New("groups", "Which messages in groups are processed: addressed (to the bot) or everything.",
			setting.Either(&p.AllGroupMessages, "addressed", "everything")),
		setting.New("previews", "Show the agent's text while it is written, on platforms with edits.",
			setting.Bool(&o.Previews)),
		setting.New("max_parts",
			"Maximum number of messages of one reply, at least 2; the last one has the whole reply as a file. On IRC it is ten times as many lines, and a link; 0 is no limit.", setting.Int(&o.MaxParts, 0, 10_000)),
		setting.New("answer_within",
			"Time after which a chat is told once what the agent does or waits for; a pause of the agent is told at once. 0s tells nothing.", setting.Duration(&o.AnswerWithin, 0, 7*24*time.Hour)),
		setting.New("per_user", "Each user in a group has a separate conversation.", setting.Bool(&p.PerUser)),
		setting.New("max_file",
			"Maximum size of an attachment that is stored for the agent, in the folder files of the data folder.",
			setting.Size(&p.MaxFileSize, 1<<10, 1<<30)),
	}
}
