// Package platforms lists the platforms that channels can connect to.
package platforms

import (
	"mailroom/channel/discord"
	"mailroom/channel/irc"
	"mailroom/channel/kind"
	"mailroom/channel/matrix"
	"mailroom/channel/poll"
	"mailroom/channel/slack"
	"mailroom/channel/telegram"
	"mailroom/channel/webhook"
)

// All returns all kinds, sorted by name.
func All() []kind.Kind {
	return []kind.Kind{
		discord.NewKind(), irc.NewKind(), matrix.NewKind(), poll.NewKind(), slack.NewKind(), telegram.NewKind(), webhook.NewKind(),
	}
}
