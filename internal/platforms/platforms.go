// Package platforms lists the platforms that channels can connect to, and the kinds of targets of alerts.
package platforms

import (
	"mailroom/alert/hook"
	"mailroom/alert/mail"
	"mailroom/alert/ntfy"
	"mailroom/alert/push"
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

// All returns all kinds, each list sorted by name.
func All() *target.Kinds { return &target.Kinds{Channels: Channels(), Targets: Targets()} }

// Targets returns the kinds of targets, sorted by name.
func Targets() []target.Kind {
	return []target.Kind{target.NewChat(), mail.NewKind(), ntfy.NewKind(), push.NewKind(), hook.NewKind()}
}

// Channels returns the kinds of channels, sorted by name.
func Channels() []kind.Kind {
	return []kind.Kind{
		discord.NewKind(), irc.NewKind(), matrix.NewKind(), poll.NewKind(), slack.NewKind(), telegram.NewKind(), webhook.NewKind(),
	}
}
