package config

import (
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
)

// KindDiscord is a bot of Discord.
const KindDiscord = discord.Kind

// Discord is a bot.
type Discord struct {
	API   string
	Beat  time.Duration
	About string
}

func newDiscord() *Discord { return &Discord{API: discord.DefaultAPI, Beat: discord.DefaultHeartbeat} }

func (d *Discord) settings() []setting {
	return []setting{
		{"api", "Base URL of the HTTP API, including its version. The API provides the gateway's URL.", serviceURL(&d.API)},
		{"about", "URL of a page about your bot, for the User-Agent header that Discord requires; empty uses a placeholder.", aboutURL(&d.About)},
		{"beat", "Maximum time between two heartbeats; the platform asks for about 41s. Without an acknowledgement in this time plus 15s the connection counts as broken.", duration(&d.Beat, 100*time.Millisecond, 10*time.Minute)},
	}
}

// aboutURL is an address for a User-Agent, or empty.
func aboutURL(p *string) value {
	return checked(p, `an address, such as "https://example.org/our-bot", or ""`, func(s string) bool { return s == "" || discord.CheckAbout(s) == nil })
}

func (d *Discord) missing(c *Channel) string { return missingToken(c) }

// Dial implements [ChatPlatform].
func (d *Discord) Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o := discord.Options{Token: c.Token.Get, API: d.API, Heartbeat: d.Beat, About: d.About}
	return o.Dialer(), o.ReconnectPolicy()
}
