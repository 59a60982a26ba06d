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
	AppToken Secret // opens the socket
	Threads  bool
	API      string
	Fresh    time.Duration
}

func newSlack() *Slack {
	return &Slack{Threads: true, API: slack.DefaultAPI, Fresh: slack.DefaultIdleTimeout}
}

func (s *Slack) settings() []setting {
	return append(s.AppToken.settings("app_token", "the app-level token, with connections:write"), []setting{
		{"threads", "Reply to a message in a channel in its own thread; false replies in the channel, as one conversation.", flag(&s.Threads)},
		{"api", "Base URL of the Web API.", serviceURL(&s.API)},
		{"fresh", "Time without an answer after which the socket counts as broken; it is pinged three times in this time.", duration(&s.Fresh, 300*time.Millisecond, 10*time.Minute)},
	}...)
}

func (s *Slack) missing(c *Channel) string {
	if what := missingToken(c); what != "" {
		return what
	}
	if !s.AppToken.IsSet() || s.AppToken.ambiguous() {
		return `missing app-level token; set either app_token_env or app_token_file`
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
