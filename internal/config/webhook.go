package config

import (
	"errors"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/webhook"
	"mailroom/internal/netguard"
)

// KindWebhook is a program that sends and receives webhooks.
const KindWebhook = webhook.Kind

// Webhook holds the settings of a webhook channel. The channel's token is the signing
// secret.
type Webhook struct {
	URL      string // "": replies are not sent
	Insecure bool
	Allow    []string
	Edits    bool
	Anybody  bool
	// Hooks receives the program's requests. It is set by the server, not by a file.
	Hooks *webhook.Hooks
}

func newWebhook() *Webhook { return &Webhook{Anybody: true} }

func (w *Webhook) settings() []setting {
	return []setting{
		{"url", "HTTPS URL to post replies to; empty means that replies are only in the log.", webhookURL(&w.URL)},
		{"insecure", "Allow http URLs of other machines.", flag(&w.Insecure)},
		{"allow", "Private networks and addresses that url may use, such as \"10.0.0.0/8\".", networks(&w.Allow)},
		{"edits", "The program supports edits: it gets previews, and updates of answered questions.", flag(&w.Edits)},
		{"anybody", "Every user that a signed request names may talk; false applies admins, users, chats and pairing.", flag(&w.Anybody)},
	}
}

func (w *Webhook) missing(c *Channel) string {
	if what := missingToken(c); what != "" {
		return what
	}
	o, err := w.options()
	if err == nil {
		err = o.Check()
	}
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return err.Error() + `; to allow it, add it to allow`
	case err != nil:
		return err.Error()
	}
	return ""
}

func (w *Webhook) options() (o webhook.Options, err error) {
	o = webhook.Options{URL: w.URL, Insecure: w.Insecure, Edits: w.Edits, Hooks: w.Hooks}
	o.Policy.Allow, err = netguard.Prefixes(w.Allow)
	return o, err
}

// Dial implements [ChatPlatform].
func (w *Webhook) Dial(c *Channel) (chat.Dialer, channel.ReconnectPolicy) {
	o, err := w.options() // errors were reported when the settings were parsed
	o.Secret = func() (string, error) {
		if err != nil {
			return "", err
		}
		return c.Token.Get()
	}
	return o.Dial, o.ReconnectPolicy()
}

// AccessPolicy returns the access policy of the channel.
func (c *Channel) AccessPolicy() chat.AccessPolicy {
	t := c.Chat.AccessPolicy()
	if w, is := c.Platform.(*Webhook); is {
		t.AllowAll = w.Anybody
	}
	return t
}

// webhookURL is a URL to post to. Errors never show it, because it can contain a secret.
func webhookURL(p *string) value {
	return value{
		set: func(v any) error {
			s, isText := v.(string)
			if !isText {
				return invalidValue(v, `a URL such as "https://example.org/hook"`)
			}
			if _, err := netguard.URL(s, true); s != "" && err != nil {
				return err
			}
			*p = s
			return nil
		},
		get: func() any { return *p },
	}
}

func networks(p *[]string) value {
	v := list(p)
	set := v.set
	v.set = func(given any) error {
		if err := set(given); err != nil {
			return err
		}
		_, err := netguard.Prefixes(*p)
		return err
	}
	return v
}
