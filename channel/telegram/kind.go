package telegram

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Telegram.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() }}
}

// Settings are those of one bot.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{API: DefaultAPI, Poll: DefaultPoll}}
	s.Options.Token = s.Token.Get
	for _, w := range chat.Menu() {
		s.Options.Commands = append(s.Options.Commands, Command{Name: w.Name, Description: w.Words})
	}
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("api", "Base URL of the Bot API; change it for a self-hosted Bot API server.", setting.BaseURL(&o.API)),
		setting.New("poll", "How long the platform may hold a poll open, in whole seconds. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return s.Token.CheckToken() }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
