package config

import (
	"mailroom/alert/mail"
	"mailroom/alert/target"
	"mailroom/channel/discord"
	"mailroom/channel/irc"
	"mailroom/channel/kind"
	"mailroom/channel/matrix"
	"mailroom/channel/poll"
	"mailroom/channel/slack"
	"mailroom/channel/telegram"
	"mailroom/channel/webhook"
)

// Kinds returns the platforms that channels can connect to and the kinds of targets of alerts, each list sorted by
// name.
func Kinds() *target.Kinds { return &target.Kinds{Channels: channelKinds(), Targets: targetKinds()} }

func targetKinds() []target.Kind {
	return []target.Kind{target.NewChat(), mail.NewKind(), target.NewNtfy(), target.NewPush(), target.NewWebhook()}
}

func channelKinds() []kind.Kind {
	return []kind.Kind{
		discord.NewKind(), irc.NewKind(), matrix.NewKind(), poll.NewKind(), slack.NewKind(), telegram.NewKind(),
		webhook.NewKind(),
	}
}
