package discord

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Discord.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() }}
}

// Settings are those of one bot.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, Heartbeat: DefaultHeartbeat}}
	s.Options.Token = s.Token.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("api", "Base URL of the HTTP API, including its version. The API provides the gateway's URL.", setting.BaseURL(&o.API)),
		setting.New("about", "URL of a page about your bot, for the User-Agent header that Discord requires; empty uses a placeholder.", aboutURL(&o.About)),
		setting.New("beat", "Maximum time between two heartbeats; the platform asks for about 41s. Without an acknowledgement in this time plus 15s the connection counts as broken.", setting.Duration(&o.Heartbeat, 100*time.Millisecond, 10*time.Minute)),
	)
}

// aboutURL is a URL for a User-Agent, or empty.
func aboutURL(p *string) setting.Value {
	return setting.Checked(p, `an address, such as "https://example.org/our-bot", or ""`, func(s string) bool { return s == "" || CheckAbout(s) == nil })
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return s.Token.CheckToken() }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect {
	return chat.Connect(o, s.Options.Dialer())
}

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
