package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

const (
	defaultTimeout = 20 * time.Second
	maxResponse    = 64 << 10 // bytes read of a response
)

// Outbound is the body of an outbound request.
type Outbound struct {
	Kind    string   `json:"kind"` // message or edit
	Key     string   `json:"key"`  // the webhook-id
	Channel string   `json:"channel"`
	Room    string   `json:"room"`
	Topic   string   `json:"topic,omitempty"`
	Group   bool     `json:"group,omitempty"`
	Text    string   `json:"text"` // Markdown
	Buttons []Button `json:"buttons,omitempty"`
	ReplyTo string   `json:"reply_to,omitempty"` // webhook-id of the message it replies to
	Of      string   `json:"of,omitempty"`       // id of the edited message
}

// Button is a button of a message. Pressing it is reported by a tap request with its data.
type Button struct {
	Words string `json:"words"`
	Data  string `json:"data"`
}

// Send implements [chat.Platform]. The message id is the one in the receiver's response, or the
// key.
func (c *connection) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (id string, err error) {
	return c.postAndReport(ctx, c.newOutbound(kindMessage, key, to, m))
}

// Edit implements [chat.Platform]. Each edit has a webhook-id of its own, because a text may be
// restored to an earlier version.
func (c *connection) Edit(ctx context.Context, to chat.Room, id string, m chat.Message) error {
	out := c.newOutbound(kindEdit, "edit_"+rand.Text(), to, m)
	out.Of = id
	_, err := c.postAndReport(ctx, out)
	return err
}

// Find implements [chat.Platform].
func (c *connection) Find(context.Context, chat.Room, string, chat.Message) (string, bool, error) {
	return "", false, chat.ErrNoHistory
}

// Typing implements [chat.Platform]. Webhooks have no typing indicator.
func (c *connection) Typing(context.Context, chat.Room) error { return nil }

func (c *connection) newOutbound(kind, key string, to chat.Room, m chat.Message) Outbound {
	out := Outbound{
		Kind: kind, Key: key, Channel: c.host.Name(), Room: to.Chat, Topic: to.Topic, Group: to.Group, Text: m.Text,
		ReplyTo: m.ReplyTo,
	}
	for _, b := range m.Buttons {
		out.Buttons = append(out.Buttons, Button{Words: b.Label, Data: b.Data})
	}
	return out
}

// postAndReport sends a request and reports a failure to the channel.
func (c *connection) postAndReport(ctx context.Context, out Outbound) (id string, err error) {
	id, err = c.post(ctx, out)
	if f, failed := errors.AsType[*mailroom.Failure](err); failed && ctx.Err() == nil {
		c.host.ReportError(f.Err)
	}
	return id, err
}

func (c *connection) post(ctx context.Context, out Outbound) (id string, err error) {
	if c.address == nil {
		return "", httpcall.Permanent(errors.New("the channel has no url"))
	}
	keys, err := c.options.secrets()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	body, err := json.Marshal(out)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	timeout := c.options.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	header := http.Header{}
	keys.Sign(header, out.Key, body)
	op := "post to " + c.address.Host // the URL may contain a secret
	a, err := c.http.Do(ctx, httpcall.Request{Op: op, Method: http.MethodPost, URL: c.address.String(), Header: header,
		Body: body, Timeout: timeout})
	if a.Status != 0 && (a.Status < 200 || a.Status >= 300) {
		err = c.refusal(op, a, keys)
	} else if a.Status != 0 && err != nil { // the status already confirms the message
		c.host.Log().Debug("response body truncated", "key", out.Key)
		err = nil
	}
	if err != nil {
		return "", httpcall.SendError(err, classOf)
	}
	return messageID(a.Body, out.Key), nil
}

// messageID returns the id in a response, or the key.
func messageID(raw []byte, key string) string {
	var answer struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(raw, &answer) != nil || answer.ID == "" || checkName("id", answer.ID) != nil {
		return key
	}
	return answer.ID
}

// refusal describes a response with a status other than 2xx.
func (c *connection) refusal(op string, a httpcall.Response, keys httpcall.Secrets) error {
	e := c.http.Refuse(op, a)
	e.Text = http.StatusText(a.Status)
	var hide []string
	for _, key := range keys {
		hide = append(hide, string(key), base64.StdEncoding.EncodeToString(key))
	}
	if words := httpcall.Quote(a.Body, hide); words != "" {
		e.Text += ": " + words
	}
	if a.Status >= 300 && a.Status < 400 {
		e.Text += ": redirects are not followed: set url to the final address"
	}
	// The receiver serves all rooms.
	e.Everywhere = a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable
	return e
}

func classOf(e *httpcall.Refusal) httpcall.Class {
	switch e.Status {
	case http.StatusGone:
		return httpcall.ClassGone
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout, http.StatusTooEarly:
		return httpcall.ClassUnavailable
	}
	if e.Status >= 500 || e.Status < 300 {
		return httpcall.ClassUnknown
	}
	return httpcall.ClassPermanent
}
