package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/netguard"
)

const (
	defaultTimeout = 20 * time.Second
	maxResponse    = 64 << 10 // bytes read of a response
	maxQuote       = 200      // bytes of a response in an error
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
		Kind: kind, Key: key, Channel: c.host.Name(), Room: to.Chat, Topic: to.Topic, Group: to.Group, Text: m.Text, ReplyTo: m.ReplyTo,
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
		return "", unavailable(0, err)
	}
	body, err := json.Marshal(out)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	timeout := c.options.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var connected atomic.Bool // from then on the request may have arrived
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	r, err := http.NewRequestWithContext(traced, http.MethodPost, c.address.String(), bytes.NewReader(body))
	if err != nil {
		return "", httpcall.Permanent(errors.New("invalid url"))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "mailroom")
	keys.sign(r.Header, out.Key, body)
	a, err := c.http.Do(r)
	if err != nil {
		return "", c.transportError(ctx, err, connected.Load())
	}
	defer a.Body.Close() // the response has been read
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxResponse))
	if err := c.responseError(a, raw); err != nil {
		return "", err
	}
	if err != nil { // the status already confirms the message
		c.host.Log().Debug("response body truncated", "key", out.Key)
	}
	return messageID(raw, out.Key), nil
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

// transportError returns the error of a request without a response. It omits the URL, which may
// contain a secret.
func (c *connection) transportError(ctx context.Context, err error, maybe bool) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	refused := errors.Is(err, netguard.ErrRefused)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("request timed out")
	}
	err = unavailable(0, fmt.Errorf("post to %s: %w", c.address.Host, err))
	if refused || !maybe {
		return err
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, err)
}

// responseError returns the error for a status other than 2xx.
func (c *connection) responseError(a *http.Response, raw []byte) error {
	if a.StatusCode >= 200 && a.StatusCode < 300 {
		return nil
	}
	err := fmt.Errorf("post to %s: status %d %s", c.address.Host, a.StatusCode, http.StatusText(a.StatusCode))
	if words := c.redact(raw); words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	after := httpcall.ParseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	switch code := a.StatusCode; {
	case code == http.StatusGone:
		return httpcall.Permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %w", chat.ErrEverywhere, unavailable(after, err)) // the receiver serves all rooms
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return unavailable(after, err)
	case code >= 300 && code < 400:
		return httpcall.Permanent(fmt.Errorf("%w: redirects are not followed: set url to the final address", err))
	case code < 500:
		return httpcall.Permanent(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, unavailable(after, err))
}

// redact returns the beginning of a response as one line, without the channel's secrets.
func (c *connection) redact(raw []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(raw), "\uFFFD")), " ")
	keys, err := c.options.secrets()
	if err != nil {
		return ""
	}
	for _, key := range keys {
		text = strings.NewReplacer(string(key), "(secret)", base64.StdEncoding.EncodeToString(key), "(secret)").Replace(text)
	}
	if len(text) <= maxQuote {
		return text
	}
	end := maxQuote
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func unavailable(after time.Duration, err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: err}
}
