// Package ntfy sends alerts to a topic of an ntfy server. The app of ntfy shows them on a phone, with
// buttons that decide.
//
// Messages are published as JSON (https://docs.ntfy.sh/publish/#publish-as-json), so no text becomes a
// header.
package ntfy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

const (
	timeout = 20 * time.Second
	// maxBytes bounds what is sent as the text of a message: a text of more than 4,096 bytes becomes an
	// attachment (https://docs.ntfy.sh/publish/#limitations).
	maxBytes = 4096
	maxBody  = 1000 // characters, of at most 4 bytes
)

// Options are the settings of a target.
type Options struct {
	Address target.Address // of the server
	Topic   string
	Token   func() (string, error) // "" publishes without one
}

// NewKind returns the kind.
func NewKind() target.Kind {
	return target.Kind{
		Name: "ntfy", New: newSettings, Own: true,
		AfterCrash: "sent again and marked as repeated", Leaves: "the text that the rule allows, and the links, to the ntfy server, which can read both",
	}
}

func newSettings() *target.Settings {
	token := new(setting.Secret)
	o := &Options{Address: target.Address{URL: "https://ntfy.sh"}}
	o.Token = func() (string, error) {
		if !token.IsSet() {
			return "", nil
		}
		return token.Get()
	}
	keys := append(token.Settings("token", "the access token of the ntfy server", ""),
		setting.New("topic", "Topic to publish to. Who knows it can read the alerts, unless the server requires a token.",
			setting.Checked(&o.Topic, "1 to 64 letters, digits, dashes and underscores", func(s string) bool { return s == "" || topics().MatchString(s) })).
			Require(`missing topic; set one that cannot be guessed`))
	keys = append(keys, o.Address.Settings("url", "Address of the ntfy server.", `"https://ntfy.sh"`)...)
	return &target.Settings{
		Keys: keys, MaxBody: maxBody,
		Check: func() error { _, err := o.Address.Check(); return err },
		Open:  func(string) (alert.Target, error) { return New(*o) },
		Setup: &kind.Setup{
			Short: "Alert a phone with the app of ntfy",
			About: `Install the app of ntfy on the phone and subscribe to the topic there. The command
generates a topic that cannot be guessed, unless --topic names one. A server of your
own is set with --url.`,
			Example: "--name phone --url https://ntfy.example.org --token-file ntfy.token",
			Questions: []kind.Question{
				{Key: "url", Usage: "address of the ntfy server"},
				{Key: "topic", Usage: "topic to publish to", Generate: newTopic},
				{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
				{Key: "insecure", Usage: "allow http in --url"},
				{Key: "token_file", Secret: "token", Usage: "use the access token in this file; the file is not copied"},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				t, err := New(*o)
				if err != nil {
					return found, err
				}
				receipt, err := t.Send(ctx, alert.TestMessage(at.Channel))
				if err != nil {
					return found, err
				}
				found.Account = []string{fmt.Sprintf("the server took a test message (%s) for the topic %s", receipt, o.Topic)}
				found.Next = []string{fmt.Sprintf("subscribe to it in the app: server %s, topic %s", o.Address.URL, o.Topic)}
				return found, nil
			},
		},
	}
}

// Target is a topic.
type Target struct {
	options Options
	base    *url.URL
	client  *httpcall.Client
}

// New returns a target.
func New(o Options) (*Target, error) {
	base, err := o.Address.Check()
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Target{o, base, o.Address.Client("ntfy")}, nil
}

// message is the body of a publication.
type message struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Tags     []string `json:"tags,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Click    string   `json:"click,omitempty"`
	Actions  []action `json:"actions,omitempty"`
}

// action is a button.
type action struct {
	Action  string            `json:"action"`
	Label   string            `json:"label"`
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Clear removes the notification when the request has succeeded.
	Clear bool `json:"clear"`
}

// high is the priority of a question; 3 is the default.
const high = 4

// Send implements [alert.Target]. The receipt is the id that the server gave the message.
func (t *Target) Send(ctx context.Context, m alert.Message) (string, error) {
	token, err := t.options.Token()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	out := message{Topic: t.options.Topic, Title: m.Title, Message: m.Body, Click: m.URL}
	if m.Repeated {
		out.Title = "(repeated) " + m.Title
	}
	if out.Message == "" {
		out.Message = m.Title // an empty text becomes "triggered"
	}
	if len(out.Message) > maxBytes {
		return "", httpcall.Permanent(fmt.Errorf("the message has %d bytes, and %d are allowed", len(out.Message), maxBytes))
	}
	if m.Urgent {
		out.Priority, out.Tags = high, []string{"question"}
	}
	for _, b := range m.Buttons {
		out.Actions = append(out.Actions, action{
			Action: "http", Label: b.Label, URL: b.URL, Method: http.MethodPost, Body: b.Body, Clear: true,
			Headers: map[string]string{"Content-Type": "application/json"},
		})
	}
	if m.URL != "" {
		out.Actions = append(out.Actions, action{Action: "view", Label: "Open", URL: m.URL})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	a, err := target.Post(ctx, t.client, httpcall.Request{
		Op: "publish to " + t.base.Host, URL: t.base.String(), Header: header, Body: body, Timeout: timeout,
	}, token, t.options.Topic)
	if err != nil {
		return "", err
	}
	var answer struct {
		ID    string `json:"id"`
		Event string `json:"event"`
	}
	if json.Unmarshal(a.Body, &answer) != nil || answer.Event != "message" {
		return "", fmt.Errorf("%w: %w", mailroom.ErrUnknown, httpcall.Unavailable(errors.New(t.base.Host+" is not an ntfy server: its answer is not a message; check the url")))
	}
	return answer.ID, nil
}

func topics() *regexp.Regexp { return regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`) }

// newTopic returns a topic that cannot be guessed.
func newTopic() string { return "mailroom-" + strings.ToLower(rand.Text()) }
