package config

import (
	"maps"
	"slices"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// Platform holds the settings of one kind of channel.
type Platform interface {
	// settings returns the keys.
	settings() []setting
	// missing returns which required setting of c is missing, or "".
	missing(c *Channel) string
}

// ChatPlatform is the Platform of a chat.
type ChatPlatform interface {
	Platform
	// Dial returns the dialer of c, which reads the secrets for each connection.
	Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy)
}

// SecretHolder is a Platform with secrets in addition to the channel's token.
type SecretHolder interface {
	Platform
	// Secrets returns these secrets.
	Secrets() []*Secret
}

// platforms returns the constructors of platforms with default settings, by kind.
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

// ChannelKinds returns all kinds of channels, sorted.
func ChannelKinds() []string { return slices.Sorted(maps.Keys(platforms())) }

// missingToken returns an error text unless exactly one source of the token is set.
func missingToken(c *Channel) string {
	if !c.Token.IsSet() || c.Token.ambiguous() {
		return `missing token; set either token_env or token_file (the configuration never contains the token itself)`
	}
	return ""
}
