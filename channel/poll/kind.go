package poll

import (
	"context"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns an agent platform that is polled for messages.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, New: func() kind.Settings { return &Settings{Interval: DefaultInterval} }}
}

// Settings are those of one workspace.
type Settings struct {
	Token     setting.Secret
	URL       string
	Workspace string
	Interval  time.Duration
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	return append(kind.Token(&s.Token),
		setting.New("url", "URL of the platform.", setting.BaseURL(&s.URL)).
			Require(`missing url of the platform; set one such as url = "https://platform.example.org"`),
		setting.New("workspace", "Id of the workspace.", setting.Text(&s.Workspace)).Require("missing workspace; set its id"),
		setting.New("interval", "Polling interval.", setting.Duration(&s.Interval, 10*time.Millisecond, 10*time.Minute)),
	)
}

// Check implements [kind.Settings].
func (s *Settings) Check() error { return nil }

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect {
	started := time.Now()
	return func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
		bridge, err := s.Open(o.Agent, o.Command, started)
		if err != nil {
			return nil, channel.Fatal(err)
		}
		return bridge.Connect(ctx, l)
	}
}

// Open reads the token and returns the bridge of the workspace. It makes no request.
func (s *Settings) Open(agent, command string, started time.Time) (*Bridge, error) {
	token, err := s.Token.Get()
	if err != nil {
		return nil, err
	}
	return New(Options{
		URL: s.URL, Workspace: s.Workspace, Agent: agent, Token: token, Interval: s.Interval, Command: command, Started: started,
	})
}

// Setup implements [kind.Settings]. The command mailroom bridge connects a workspace.
func (s *Settings) Setup() *kind.Setup { return nil }

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy {
	return Options{Interval: s.Interval}.ReconnectPolicy()
}
