package slack

import (
	"errors"
	"slices"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Slack.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() }}
}

// Settings are those of one app in one workspace.
type Settings struct {
	Token    setting.Secret // of the bot
	AppToken setting.Secret // opens the socket
	Options  Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, IdleTimeout: DefaultIdleTimeout}}
	s.Options.Token, s.Options.AppToken = s.Token.Get, s.AppToken.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return slices.Concat(kind.Token(&s.Token), s.AppToken.Settings("app_token", "the app-level token, with connections:write"), []setting.Setting{
		setting.New("threads", "Reply to a message in a channel in its own thread; false replies in the channel, as one conversation.", setting.Not(&o.Flat)),
		setting.New("api", "Base URL of the Web API.", setting.BaseURL(&o.API)),
		setting.New("fresh", "Time without an answer after which the socket counts as broken; it is pinged three times in this time.", setting.Duration(&o.IdleTimeout, 300*time.Millisecond, 10*time.Minute)),
	})
}

// Check implements [kind.Settings].
func (s *Settings) Check() error {
	if err := s.Token.CheckToken(); err != nil {
		return err
	}
	if !s.AppToken.IsSet() || s.AppToken.Ambiguous() {
		return errors.New(`missing app-level token; set either app_token_env or app_token_file`)
	}
	return nil
}

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
