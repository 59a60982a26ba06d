package config

import (
	"maps"
	"slices"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// Platform is what only one kind of channel has settings for.
type Platform interface {
	// settings are their keys.
	settings() []setting
	// missing says what c cannot do without; "" if it is all there.
	missing(c *Channel) string
}

// ChatPlatform is the Platform of a kind on which people talk.
type ChatPlatform interface {
	Platform
	// Dial connects as c, whose secrets are read for each connection.
	Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy)
}

// SecretHolder is a Platform with secrets beside the channel's token.
type SecretHolder interface {
	Platform
	// Secrets are those.
	Secrets() []*Secret
}

// platforms make the platform of a new channel, with its defaults, by kind.
func platforms() map[string]func() Platform {
	return map[string]func() Platform{
		KindDiscord:  func() Platform { return newDiscord() },
		KindIRC:      func() Platform { return newIRC() },
		KindMatrix:   func() Platform { return newMatrix() },
		KindPoll:     func() Platform { return newPoll() },
		KindSlack:    func() Platform { return newSlack() },
		KindTelegram: func() Platform { return newTelegram() },
		KindWebhook:  func() Platform { return newWebhook() },
	}
}

// ChannelKinds are all kinds of channels that a table can have.
func ChannelKinds() []string { return slices.Sorted(maps.Keys(platforms())) }

// missingToken is what nearly every kind misses without a token.
func missingToken(c *Channel) string {
	if !c.Token.IsSet() || c.Token.ambiguous() {
		return `it needs token_env or token_file, one of them: the token itself is in no configuration`
	}
	return ""
}
