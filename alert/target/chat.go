package target

import (
	"mailroom/alert"
	"mailroom/internal/setting"
)

// NewChat returns the kind of a chat of a channel of the server.
func NewChat() Kind {
	return Kind{
		Name: "chat",
		New: func() *Settings {
			chat := new(string)
			return &Settings{
				Chat: chat, MaxBody: alert.MaxBody,
				Keys: []setting.Setting{
					setting.New("thread", "Id of the chat's conversation, as `mailroom threads` shows it, such as \"telegram:7000001:5551234\".", setting.Text(chat)).
						Require("missing thread; set the id of a conversation of a channel, as `mailroom threads` shows it"),
				},
			}
		},
		AfterCrash: "as a reply of the channel", Leaves: "the text that the rule allows, and the link, to the chat platform and everybody in the chat",
	}
}
