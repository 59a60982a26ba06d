package config

import (
	"strings"
	"time"

	"mailroom/channel/poll"
)

// KindPoll is an agent platform that is polled for messages.
const KindPoll = poll.Kind

// Poll is a workspace of an agent platform.
type Poll struct {
	URL       string
	Workspace string
	Interval  time.Duration
}

func newPoll() *Poll { return &Poll{Interval: poll.DefaultInterval} }

func (p *Poll) settings() []setting {
	return []setting{
		{"url", "URL of the platform.", serviceURL(&p.URL)},
		{"workspace", "Id of the workspace.", text(&p.Workspace)},
		{"interval", "Polling interval.", duration(&p.Interval, 10*time.Millisecond, 10*time.Minute)},
	}
}

func (p *Poll) missing(c *Channel) string {
	switch {
	case p.URL == "":
		return `missing url of the platform; set one such as url = "https://platform.example.org"`
	case p.Workspace == "":
		return `missing workspace; set its id`
	}
	return missingToken(c)
}

// serviceURL is a URL. Errors do not show a URL that contains a password.
func serviceURL(p *string) value {
	v := checked(p, `an address, such as "https://platform.example.org"`, func(s string) bool {
		_, err := poll.CheckURL(s)
		return err == nil
	})
	set := v.set
	v.set = func(given any) error {
		if s, ok := given.(string); ok && strings.Contains(s, "@") {
			given = "…@…"
		}
		return set(given)
	}
	return v
}
