package target

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

	"mailroom"
	"mailroom/alert"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

const (
	// ntfyMaxBytes bounds what is sent as the text of a message: a text of more than 4,096 bytes becomes an
	// attachment (https://docs.ntfy.sh/publish/#limitations).
	ntfyMaxBytes = 4096
	ntfyMaxBody  = 1000 // characters, of at most 4 bytes
)

// ntfyOptions are the settings of an Ntfy.
type ntfyOptions struct {
	Address Address // address of the ntfy server
	Topic   string
	Token   func() (string, error) // returns the access token; "" publishes without a token
}

// NewNtfy returns the kind of a topic of an ntfy server.
func NewNtfy() Kind {
	return Kind{
		Name: "ntfy", New: ntfySettings, Own: true,
		AfterCrash: "sent again and marked as repeated",
		Leaves:     "the text that the rule allows, and the links, to the ntfy server, which can read both",
	}
}

func ntfySettings() *Settings {
	token := new(setting.Secret)
	o := &ntfyOptions{Address: Address{URL: "https://ntfy.sh"}}
	o.Token = func() (string, error) {
		if !token.IsSet() {
			return "", nil
		}
		return token.Get()
	}
	keys := append(token.Settings("token", "the access token of the ntfy server", ""),
		setting.New("topic", "Topic to publish to. Who knows it can read the alerts, unless the server requires a token.",
			setting.Checked(&o.Topic, "1 to 64 letters, digits, dashes and underscores", func(s string) bool {
				return s == "" || ntfyTopics().MatchString(s)
			})).
			Require(`missing topic; set one that cannot be guessed`))
	keys = append(keys, o.Address.Settings("url", "Address of the ntfy server.", `"https://ntfy.sh"`)...)
	return &Settings{
		Keys: keys, MaxBody: ntfyMaxBody,
		Check: func() error { _, err := o.Address.Check(); return err },
		Open:  func(string) (alert.Target, error) { return openNtfy(*o) },
		Setup: &kind.Setup{
			Short: "Alert a phone with the app of ntfy",
			About: `Install the app of ntfy on the phone and subscribe to the topic there. The command
generates a topic that cannot be guessed, unless --topic names one. A server of your
own is set with --url.`,
			Example: "--name phone --url https://ntfy.example.org --token-file ntfy.token",
			Questions: []kind.Question{
				{Key: "url", Usage: "address of the ntfy server"},
				{Key: "topic", Usage: "topic to publish to", Generate: newNtfyTopic},
				{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
				{Key: "insecure", Usage: "allow http in --url"},
				{Key: "token_file", Secret: "token", Usage: "use the access token in this file; the file is not copied"},
			},
			Probe: func(ctx context.Context, at kind.Place) (found kind.Found, err error) {
				t, err := openNtfy(*o)
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

// Ntfy publishes alerts to a topic of an ntfy server. The app of ntfy shows them on a phone, with buttons that
// decide. Messages are published as JSON (https://docs.ntfy.sh/publish/#publish-as-json), so no text becomes a header.
type Ntfy struct {
	options ntfyOptions
	base    *url.URL
	client  *httpcall.Client
}

// openNtfy returns the target. It connects to nothing.
func openNtfy(o ntfyOptions) (*Ntfy, error) {
	base, err := o.Address.Check()
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &Ntfy{o, base, o.Address.Client("ntfy")}, nil
}

// ntfyMessage is the body of a publication.
type ntfyMessage struct {
	Topic    string       `json:"topic"`
	Title    string       `json:"title"`
	Message  string       `json:"message"`
	Tags     []string     `json:"tags,omitempty"`
	Priority int          `json:"priority,omitempty"`
	Click    string       `json:"click,omitempty"`
	Actions  []ntfyAction `json:"actions,omitempty"`
}

// ntfyAction is a button.
type ntfyAction struct {
	Action  string            `json:"action"`
	Label   string            `json:"label"`
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Clear removes the notification when the request has succeeded.
	Clear bool `json:"clear"`
}

// ntfyHigh is the priority of a question; 3 is the default.
const ntfyHigh = 4

// Send implements [alert.Target]. The receipt is the id that the server gave the message.
func (t *Ntfy) Send(ctx context.Context, m alert.Message) (string, error) {
	token, err := t.options.Token()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	out := ntfyMessage{Topic: t.options.Topic, Title: m.Title, Message: m.Body, Click: m.URL}
	if m.Repeated {
		out.Title = "(repeated) " + m.Title
	}
	if out.Message == "" {
		out.Message = m.Title // an empty text becomes "triggered"
	}
	if len(out.Message) > ntfyMaxBytes {
		tooLong := fmt.Errorf("the message has %d bytes, and %d are allowed", len(out.Message), ntfyMaxBytes)
		return "", httpcall.Permanent(tooLong)
	}
	if m.Urgent {
		out.Priority, out.Tags = ntfyHigh, []string{"question"}
	}
	for _, b := range m.Buttons {
		out.Actions = append(out.Actions, ntfyAction{
			Action: "http", Label: b.Label, URL: b.URL, Method: http.MethodPost, Body: b.Body, Clear: true,
			Headers: map[string]string{"Content-Type": "application/json"},
		})
	}
	if m.URL != "" {
		out.Actions = append(out.Actions, ntfyAction{Action: "view", Label: "Open", URL: m.URL})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	a, err := Post(ctx, t.client, httpcall.Request{
		Op: "publish to " + t.base.Host, URL: t.base.String(), Header: header, Body: body, Timeout: sendTimeout,
	}, token, t.options.Topic)
	if err != nil {
		return "", err
	}
	var answer struct {
		ID    string `json:"id"`
		Event string `json:"event"`
	}
	if json.Unmarshal(a.Body, &answer) != nil || answer.Event != "message" {
		return "", fmt.Errorf("%w: %w", mailroom.ErrUnknown,
			httpcall.Unavailable(errors.New(t.base.Host+" is not an ntfy server: its answer is not a message; check the url")))
	}
	return answer.ID, nil
}

func ntfyTopics() *regexp.Regexp { return regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`) }

// newNtfyTopic returns a topic that cannot be guessed.
func newNtfyTopic() string { return "mailroom-" + strings.ToLower(rand.Text()) }
