package target

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"mailroom/alert"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// webhookOptions are the settings of a Webhook.
type webhookOptions struct {
	Address Address
	Secret  func() (string, error) // see [httpcall.ParseSecrets]
}

// NewWebhook returns the Kind of target that sends alerts to a program, as signed HTTP requests.
func NewWebhook() Kind {
	return Kind{
		Name: "webhook", New: webhookSettings,
		AfterCrash: "sent again with the same id: once for a program that remembers ids",
		Leaves:     "the text that the rule allows, and the links, to the program",
	}
}

func webhookSettings() *Settings {
	token := new(setting.Secret)
	o := &webhookOptions{Secret: token.Get}
	address := o.Address.Settings("url", "HTTPS URL to post alerts to.", `"https://example.org/hook"`)
	address[0] = address[0].Require("missing url of the program")
	return &Settings{
		Keys:    append(kind.Token(token), address...),
		MaxBody: alert.MaxBody,
		Check:   func() error { _, err := o.Address.Check(); return err },
		Open:    func(string) (alert.Target, error) { return openWebhook(*o) },
		Setup: &kind.Setup{
			Short: "Alert a program with signed requests",
			About: `The server posts each alert to --url as JSON. A secret signs the request; the command
generates one unless --token-file is given.`,
			Example: "--name ops --url https://ops.example.org/mailroom",
			Questions: []kind.Question{
				{Key: "url", Usage: "URL to post alerts to", Prompt: kind.Ask("URL to post alerts to: ")},
				{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
				{Key: "insecure", Usage: "allow http in --url"},
				{Key: "token_file", Secret: "token", Usage: "use the secret in this file; the file is not copied",
					Generate: httpcall.NewSecret, Check: httpcall.CheckSecret},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				t, err := openWebhook(*o)
				if err != nil {
					return found, err
				}
				if _, err := t.Send(ctx, alert.TestMessage(at.Channel)); err != nil {
					return found, err
				}
				found.Account = []string{"the program took a test message", "the secret is stored in " + token.File}
				return found, nil
			},
		},
	}
}

// Webhook posts alerts to a program, signed as Standard Webhooks specifies
// (https://github.com/standard-webhooks/standard-webhooks).
type Webhook struct {
	options webhookOptions
	to      *url.URL
	client  *httpcall.Client
}

// openWebhook returns the target. It connects to nothing.
func openWebhook(o webhookOptions) (*Webhook, error) {
	to, err := o.Address.Check()
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Webhook{o, to, o.Address.Client("the program")}, nil
}

// WebhookBody is the body of a request. Its header webhook-id is Key.
type WebhookBody struct {
	Kind     alert.Kind      `json:"kind"`
	Key      string          `json:"key"`      // the same if the alert is sent again
	Repeated bool            `json:"repeated"` // the server may have sent the alert before
	Title    string          `json:"title"`
	Text     string          `json:"text"`
	At       time.Time       `json:"at"`
	URL      string          `json:"url,omitempty"` // page for a person
	Buttons  []webhookButton `json:"buttons,omitempty"`
}

// webhookButton decides a ticket: post Body to URL as application/json.
type webhookButton struct {
	Label string          `json:"label"`
	URL   string          `json:"url"`
	Body  json.RawMessage `json:"body"`
}

// Send implements [alert.Target].
func (t *Webhook) Send(ctx context.Context, m alert.Message) (string, error) {
	text, err := t.options.Secret()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	keys, err := httpcall.ParseSecrets(text)
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	out := WebhookBody{Kind: m.Kind, Key: m.Key, Repeated: m.Repeated, Title: m.Title, Text: m.Body, At: m.At, URL: m.URL}
	for _, b := range m.Buttons {
		out.Buttons = append(out.Buttons, webhookButton{b.Label, b.URL, json.RawMessage(b.Body)})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	header := http.Header{}
	keys.Sign(header, m.Key, body)
	var hide []string
	for _, key := range keys {
		hide = append(hide, string(key), base64.StdEncoding.EncodeToString(key))
	}
	_, err = Post(ctx, t.client, httpcall.Request{
		Op:  "post to " + t.to.Host, // the path may contain a secret
		URL: t.to.String(), Header: header, Body: body, Timeout: sendTimeout,
	}, hide...)
	return "", err
}
