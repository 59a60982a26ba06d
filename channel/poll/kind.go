package poll

import (
	"context"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// NewKind returns an agent platform that is polled for messages. The command mailroom bridge
// connects a workspace.
func NewKind() kind.Kind { return kind.Kind{Name: Kind, New: newSettings} }

func newSettings() *kind.Settings {
	token := new(setting.Secret)
	o := &Options{Interval: DefaultInterval}
	return &kind.Settings{
		Options: o,
		Keys: append(kind.Token(token),
			setting.New("url", "URL of the platform.", setting.BaseURL(&o.URL)).
				Require(`missing url of the platform; set one such as url = "https://platform.example.org"`),
			setting.New("workspace", "Id of the workspace.",
				setting.Text(&o.Workspace)).Require("missing workspace; set its id"),
			setting.New("interval", "Polling interval.", setting.Duration(&o.Interval, 10*time.Millisecond, 10*time.Minute)),
		),
		Connect: func(in chat.Options) channel.Connect {
			o := *o
			o.Agent, o.Command, o.Started = in.Agent, in.Command, time.Now()
			return func(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
				bridge, err := Open(o, token)
				if err != nil {
					return nil, channel.Fatal(err)
				}
				return bridge.Connect(ctx, l)
			}
		},
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
	}
}

// Open reads the token and returns the bridge of a workspace. It makes no request.
func Open(o Options, token *setting.Secret) (b *Bridge, err error) {
	if o.Token, err = token.Get(); err != nil {
		return nil, err
	}
	return New(o)
}
