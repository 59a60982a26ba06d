package matrix

import (
	"errors"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns the platform Matrix.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, Chat: true, OwnToken: true, New: func() kind.Settings { return newSettings() }}
}

// Settings are those of one account.
type Settings struct {
	Token   setting.Secret
	Options Options
}

func newSettings() *Settings {
	s := &Settings{Options: Options{Poll: DefaultPoll, Gap: DefaultGap, EditGap: DefaultEditGap}}
	s.Options.Token = s.Token.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("homeserver", "Address of the homeserver of the bot's account.", setting.BaseURL(&o.Homeserver)),
		setting.New("poll", "How long the homeserver may hold a sync request open. Without an answer in this time plus 15s the connection counts as broken.", setting.Duration(&o.Poll, time.Second, 50*time.Second)),
		setting.New("gap", "Minimum time between two messages to a room.", setting.Duration(&o.Gap, 10*time.Millisecond, time.Minute)),
		setting.New("edit_gap", "Minimum time between two edits of a preview.", setting.Duration(&o.EditGap, 10*time.Millisecond, 10*time.Minute)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error {
	if s.Options.Homeserver == "" {
		return errors.New(`missing homeserver; set one such as homeserver = "https://matrix.example.org"`)
	}
	if _, err := CheckHomeserver(s.Options.Homeserver); err != nil {
		return fmt.Errorf("homeserver: %w", err)
	}
	return s.Token.CheckToken()
}

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect { return chat.Connect(o, s.Options.Dial) }

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
