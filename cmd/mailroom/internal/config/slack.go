package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/slack"
)

// KindSlack is an app of Slack in one workspace.
const KindSlack = slack.Kind

// Slack is an app. The channel's token is its bot's.
type Slack struct {
	AppToken Secret // with which the socket is opened
	Threads  bool
	API      string
	Fresh    time.Duration
}

func newSlack() *Slack {
	return &Slack{Threads: true, API: slack.DefaultAPI, Fresh: slack.DefaultIdleTimeout}
}

func (s *Slack) settings() []setting {
	return append(s.AppToken.settings("app_token", "the app-level token, with connections:write"), []setting{
		{"threads", "Answer what is said in a channel in a thread of its own; false answers in the channel, which is one conversation then.", flag(&s.Threads)},
		{"api", "Address of the Web API.", serviceURL(&s.API)},
		{"fresh", "How long an answer of the socket proves that it is there; it is asked three times in that.", duration(&s.Fresh, 300*time.Millisecond, 10*time.Minute)},
	}...)
}

func (s *Slack) missing(c *Channel) string {
	if what := missingToken(c); what != "" {
		return what
	}
	if !s.AppToken.IsSet() || s.AppToken.ambiguous() {
		return `it needs app_token_env or app_token_file, one of them, for the app-level token beside the bot's`
	}
	return ""
}

// Secrets implements [Guarded].
func (s *Slack) Secrets() []*Secret { return []*Secret{&s.AppToken} }

// Dial implements [ChatPlatform].
func (s *Slack) Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o := slack.Options{Token: c.Token.Get, AppToken: s.AppToken.Get, API: s.API, IdleTimeout: s.Fresh, Flat: !s.Threads}
	return o.Dial, o.ReconnectPolicy()
}
