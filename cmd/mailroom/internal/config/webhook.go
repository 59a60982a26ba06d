package config

import (
	"errors"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/webhook"
	"mailroom/internal/netguard"
)

// KindWebhook is a program that posts, and is posted to.
const KindWebhook = webhook.Kind

// Webhook is a program. Its secret is the channel's token.
type Webhook struct {
	URL      string // "": it is sent nothing
	Insecure bool
	Allow    []string
	Edits    bool
	Anybody  bool
	// Hooks are where its requests come in: no setting, but of the server.
	Hooks *webhook.Hooks
}

func newWebhook() *Webhook { return &Webhook{Anybody: true} }

func (w *Webhook) settings() []setting {
	return []setting{
		{"url", "Address of https that messages are posted to; empty is none, and replies are in the log only.", webhookURL(&w.URL)},
		{"insecure", "Post to an address of http too that is not of this machine.", flag(&w.Insecure)},
		{"allow", "Networks and addresses that url may be in, such as \"10.0.0.0/8\", beside public ones.", networks(&w.Allow)},
		{"edits", "The program can change messages that it has got: it is shown what the agent writes, and what became of a question.", flag(&w.Edits)},
		{"anybody", "Whoever the signed requests name may talk; false leaves it to admins, users, chats and pairing.", flag(&w.Anybody)},
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
		return err.Error() + `; to post there all the same, write it into allow`
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
	o, err := w.options() // what is wrong with them was found when they were read
	o.Secret = func() (string, error) {
		if err != nil {
			return "", err
		}
		return c.Token.Get()
	}
	return o.Dial, o.ReconnectPolicy()
}

// AccessPolicy is what the settings say to a platform.
func (c *Channel) AccessPolicy() chat.AccessPolicy {
	t := c.Chat.AccessPolicy()
	if w, is := c.Platform.(*Webhook); is {
		t.AllowAll = w.Anybody
	}
	return t
}

// webhookURL is an address to post to. It is in no error: there may be a secret in it.
func webhookURL(p *string) value {
	return value{
		set: func(v any) error {
			s, isText := v.(string)
			if !isText {
				return invalidValue(v, `an address, such as "https://example.org/hook"`)
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
