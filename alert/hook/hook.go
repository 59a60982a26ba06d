// Package hook posts alerts to a program, signed as Standard Webhooks specifies
// (https://github.com/standard-webhooks/standard-webhooks).
package hook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
	"mailroom/internal/webhooksign"
)

const timeout = 20 * time.Second

// Options are the settings of a target.
type Options struct {
	Address target.Address
	Secret  func() (string, error) // see [webhooksign.Parse]
}

// NewKind returns the kind.
func NewKind() target.Kind {
	return target.Kind{
		Name: "webhook", New: newSettings,
		AfterCrash: "sent again with the same id: once for a program that remembers ids", Leaves: "the text that the rule allows, and the links, to the program",
	}
}

func newSettings() *target.Settings {
	token := new(setting.Secret)
	o := &Options{Secret: token.Get}
	address := o.Address.Settings("url", "HTTPS URL to post alerts to.", `"https://example.org/hook"`)
	address[0] = address[0].Require("missing url of the program")
	return &target.Settings{
		Keys:    append(kind.Token(token), address...),
		MaxBody: alert.MaxBody,
		Check:   func() error { _, err := o.Address.Check(); return err },
		Open:    func(string) (alert.Target, error) { return New(*o) },
		Setup: &kind.Setup{
			Short: "Alert a program with signed requests",
			About: `The server posts each alert to --url as JSON. A secret signs the request; the command
generates one unless --token-file is given.`,
			Example: "--name ops --url https://ops.example.org/mailroom",
			Questions: []kind.Question{
				{Key: "url", Usage: "URL to post alerts to", Prompt: kind.Ask("URL to post alerts to: ")},
				{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
				{Key: "insecure", Usage: "allow http in --url"},
				{Key: "token_file", Secret: "token", Usage: "use the secret in this file; the file is not copied", Generate: webhooksign.New, Check: webhooksign.Check},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				t, err := New(*o)
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

// Target is a program.
type Target struct {
	options Options
	to      *url.URL
	client  *httpcall.Client
}

// New returns a target.
func New(o Options) (*Target, error) {
	to, err := o.Address.Check()
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Target{o, to, o.Address.Client("the program")}, nil
}

// Body is the body of a request. Its header webhook-id is Key.
type Body struct {
	Kind     alert.Kind `json:"kind"`
	Key      string     `json:"key"`      // the same if the alert is sent again
	Repeated bool       `json:"repeated"` // it may have been sent before
	Title    string     `json:"title"`
	Text     string     `json:"text"`
	At       time.Time  `json:"at"`
	URL      string     `json:"url,omitempty"` // page for a person
	Buttons  []Button   `json:"buttons,omitempty"`
}

// Button decides a ticket: post Body to URL as application/json.
type Button struct {
	Label string          `json:"label"`
	URL   string          `json:"url"`
	Body  json.RawMessage `json:"body"`
}

// Send implements [alert.Target].
func (t *Target) Send(ctx context.Context, m alert.Message) (string, error) {
	text, err := t.options.Secret()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	keys, err := webhooksign.Parse(text)
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	out := Body{Kind: m.Kind, Key: m.Key, Repeated: m.Repeated, Title: m.Title, Text: m.Body, At: m.At, URL: m.URL}
	for _, b := range m.Buttons {
		out.Buttons = append(out.Buttons, Button{b.Label, b.URL, json.RawMessage(b.Body)})
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
	_, err = target.Post(ctx, t.client, httpcall.Request{
		Op: "post to " + t.to.Host, URL: t.to.String(), Header: header, Body: body, Timeout: timeout, // the path may contain a secret
	}, hide...)
	return "", err
}
