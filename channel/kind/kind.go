// Package kind describes a platform as one value: the settings of its channels, how to connect and add them, and what
// the manual says. The configuration, the commands and the tables of the manual are derived from it, so they have no
// code for a single platform.
package kind

import (
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/setting"
)

// Kind is a platform that channels connect to.
type Kind struct {
	Name string // value of the key kind
	// Chat reports whether the platform is a chat. Then a channel also has the settings of [Chat], and
	// unknown users can be paired.
	Chat bool
	// Programs reports whether programs, and not people, send the messages. Then each message is a request of its
	// own, so the channel joins none unless its table says so.
	Programs bool
	// OwnToken reports whether two channels must not use the same token, because the platform sends
	// each message to only one or to both connections of a bot.
	OwnToken bool
	// New returns the settings of a new channel, with their defaults.
	New func() *Settings

	// For the manual. A connection may have more capabilities, which depend on its settings.
	Connection   string // how the server connects
	AfterCrash   string // says what happens to a reply that was sent before a crash
	Capabilities chat.Capabilities
}

// Settings are the settings of one channel, beside those that every channel has. They are bound to
// the options of the platform's adapter.
type Settings struct {
	Options any // a pointer to the adapter's options
	// Keys are the keys of the channel's table. The keys of the token are first.
	Keys []setting.Setting
	// Check returns an error that says which settings do not fit together. All required ones are
	// set. nil accepts all.
	Check func() error
	// Connect returns how to connect the channel. It reads secrets for each connection, so that a
	// corrected one takes effect. A kind that is no chat uses only the agent and the command of o.
	Connect func(o chat.Options) channel.Connect
	// Receive returns how any server receives the channel's events, if they are requests to a server.
	// nil: only the server that runs the channel receives them.
	//
	// A webhook can be received without the duty of the channel: the request's id is the key of each step, and there
	// is no position or file that one server keeps. So on a shared store every server runs a receiver for each
	// webhook channel: a runner with the same inbound half and no deliveries, which writes without the duty. It gets
	// the requests while the server has no connection of the channel itself. Two servers handle different requests of
	// a room at the same time, so only a sender that waits for each answer gets its order. If a request is repeated
	// around a /new, one server may add the message to the old conversation and another server to the new one. A lock
	// per room would prevent that, and would cost each request a round trip.
	Receive func(o chat.Options) channel.Connect
	// ReconnectPolicy returns the platform's timeouts, and its delays if the platform needs other
	// delays than most channels.
	ReconnectPolicy func() channel.ReconnectPolicy
	// Setup says how a command adds a channel of this kind. If it is nil, no command does.
	Setup *Setup
}

// Token returns the keys of a channel's token, which must be set.
func Token(s *setting.Secret) []setting.Setting {
	return s.Settings("token", tokenDoc,
		`missing token; set either token_env or token_file (the configuration never contains the token itself)`)
}

// OptionalToken returns the keys of a token that need not be set.
func OptionalToken(s *setting.Secret) []setting.Setting { return s.Settings("token", tokenDoc, "") }

const tokenDoc = "the token or the password"
