package target

import (
	"context"

	"mailroom/alert"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewChat returns the kind of target that is a chat of one of the server's channels.
func NewChat() Kind {
	return Kind{
		Name: "chat",
		New: func() *Settings {
			thread := new(string)
			return &Settings{
				Chat: thread, MaxBody: alert.MaxBody,
				Check: func() error {
					_, _, err := chat.RoomOfConversation(*thread)
					return err
				},
				Keys: []setting.Setting{
					setting.New("thread",
						"Id of the chat's conversation, as `mailroom threads` shows it, such as \"telegram:7000001:5551234\".",
						setting.Text(thread)).
						Require("missing thread; set the id of a conversation of a channel, as `mailroom threads` shows it"),
				},
				Setup: chatSetup(),
			}
		},
		AfterCrash: "as a reply of the channel",
		Leaves:     "the text that the rule allows, and the link, to the chat platform and everybody in the chat",
	}
}

// chatSetup has no probe of the chat: the running server has the connection of its channel.
func chatSetup() *kind.Setup {
	return &kind.Setup{
		Short: "Alert a chat of a channel of the server",
		About: `Write to the bot in the chat first, or to the group that it is in. Then "mailroom
threads" lists the chat as a thread whose id begins with the name of the channel.`,
		Example: "--name ops --thread telegram:7000001:5551234",
		Questions: []kind.Question{{Key: "thread", Usage: "id of the chat's thread",
			Prompt: kind.Ask("Thread of the chat, as `mailroom threads` lists it: ")}},
		Probe: func(_ context.Context, at kind.Place) (kind.Found, error) {
			return kind.Found{Next: []string{"then send a test message with `" + at.Test + "`"}}, nil
		},
	}
}
