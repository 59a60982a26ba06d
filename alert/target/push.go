package target

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom/alert"
	"mailroom/alert/webpush"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/display"
	"mailroom/internal/setting"
)

const (
	// pushTTL is how long a push service keeps a message for a browser that is not reachable (TTL, RFC 8030,
	// section 5.2), in seconds.
	pushTTL = "86400"
	// pushMaxBody is the length of the text that notifications show, in characters.
	pushMaxBody    = 300
	pushMaxContact = 200 // characters
	// pushMaxTopic bounds the header Topic, in characters (RFC 8030, section 5.4).
	pushMaxTopic = 32
)

// PushOptions are the settings of a Push.
type PushOptions struct {
	Name    string                 // name of the target
	Address Address                // where push services may be; its URL is not used
	Contact string                 // mailto: or https: URL of the operator, for push services
	Key     func() (string, error) // private key, see [webpush.ParseKey]
}

// NewPush returns the kind of the browsers that subscribe to Web Push.
func NewPush() Kind {
	return Kind{
		Name: "push", New: pushSettings, Own: true,
		AfterCrash: "sent again: the notification replaces the earlier one",
		Leaves:     "the text that the rule allows, and the links, encrypted for the browsers; the push service of each browser sees when and how much",
	}
}

func pushSettings() *Settings {
	key := new(setting.Secret)
	o := &PushOptions{Key: key.Get}
	keys := append(key.Settings("key", "the private key of the subscriptions (VAPID)",
		"missing private key; set either key_env or key_file (the configuration never contains the key itself)"),
		setting.New("contact", "Address under which push services reach the operator.",
			setting.Checked(&o.Contact,
				`a URL with a public name, such as "mailto:ops@example.org" or "https://example.org/contact"`, func(s string) bool {
					return s == "" || isContact(s)
				})).
			Require("missing contact; some push services refuse messages without one"))
	return &Settings{
		Shared: true,
		Keys:   append(keys, o.Address.Networks()...), MaxBody: pushMaxBody,
		Open: func(name string) (alert.Target, error) {
			named := *o
			named.Name = name
			return OpenPush(named)
		},
		Setup: &kind.Setup{
			Short: "Alert the browsers that subscribe in the console",
			About: `Browsers subscribe on the page Alerts of the console, which must be served with https
or on this machine. The command generates the key that the subscriptions belong to:
with another key, all browsers have to subscribe again.`,
			Example: "--name browsers --contact mailto:ops@example.org",
			Questions: []kind.Question{
				{Key: "contact", Usage: "mailto: or https: URL under which push services reach the operator",
					Prompt: kind.Ask("Contact for push services, such as mailto:ops@example.org: ")},
				{Key: "allow", Usage: "private network or address that push services may have; may be repeated"},
				{Key: "insecure", Usage: "allow push services with http"},
				{Key: "key_file", Secret: "private key", Usage: "use the private key in this file; the file is not copied",
					Generate: webpush.NewKey, Check: webpush.CheckKey},
			},
			Probe: func(_ context.Context, at kind.Place) (found kind.Found, err error) {
				named := *o
				named.Name = at.Channel
				t, err := OpenPush(named)
				if err != nil {
					return found, err
				}
				public, err := t.PublicKey()
				if err != nil {
					return found, err
				}
				found.Account = []string{"the public key of the subscriptions is " + public}
				found.Next = []string{"open the page Alerts of the console in each browser, and turn alerts on there"}
				return found, nil
			},
		},
	}
}

// isContact reports whether s can be the subject of a request to a push service (RFC 8292, section 2.1). Apple's
// service refuses each message if the host can have no address on the internet.
func isContact(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > pushMaxContact || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if u.Scheme == "mailto" {
		a, err := mail.ParseAddress(u.Opaque)
		return err == nil && a.Address == u.Opaque && isPublicName(a.Address[strings.LastIndex(a.Address, "@")+1:])
	}
	return u.Scheme == "https" && u.User == nil && isPublicName(u.Hostname())
}

// isPublicName reports whether a host may have a name on the internet: one with a dot, and not below a name that is
// kept for local use (RFC 6761, 6762, 9476) or for private networks.
func isPublicName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	at := strings.LastIndex(host, ".")
	if _, err := netip.ParseAddr(host); err == nil || at <= 0 {
		return false
	}
	return !slices.Contains([]string{"local", "localhost", "invalid", "test", "internal", "alt", "lan", "home"},
		host[at+1:])
}

// Push sends alerts to browsers with Web Push (RFC 8030): each browser that subscribed shows a notification, also while
// no page is open, with buttons that decide where the browser has them. It implements [alert.Spreader].
//
// The push service that a browser chose carries the message. It cannot read it, see package webpush. Its address comes
// from the browser and is not trusted: only public addresses are connected to, unless an operator allows others.
type Push struct {
	options PushOptions
	client  *httpcall.Client
}

// OpenPush returns the target. It reads no key: a missing one fails the messages until there is one.
func OpenPush(o PushOptions) (*Push, error) {
	if !isContact(o.Contact) {
		return nil, fmt.Errorf("contact: %q is not a mailto: or https: URL with a public name",
			display.Cut(o.Contact, pushMaxContact))
	}
	return &Push{o, o.Address.Client("the push service")}, nil
}

// CloseIdleConnections closes the connections that no message uses.
func (t *Push) CloseIdleConnections() { t.client.CloseIdleConnections() }

// Name returns the name of the target.
func (t *Push) Name() string { return t.options.Name }

// Subscribers implements [alert.Spreader].
func (t *Push) Subscribers() string { return PushPrefix(t.options.Name) }

// PushPrefix returns the prefix of the ids of the subscribers' threads of a target.
func PushPrefix(name string) string { return alert.ThreadID(name) + ":push:" }

// PublicKey returns the public key for a browser's applicationServerKey, in base64url without padding.
func (t *Push) PublicKey() (string, error) {
	key, err := t.key()
	if err != nil {
		return "", err
	}
	return key.Public(), nil
}

func (t *Push) key() (*webpush.Key, error) {
	text, err := t.options.Key()
	if err != nil {
		return nil, err
	}
	return webpush.ParseKey(text)
}

// Check validates a subscription, and the host of its endpoint without resolving it.
// Errors are of the code invalid or too_large and name the field.
func (t *Push) Check(s *webpush.Subscription) error {
	_, err := t.endpoint(s)
	return err
}

// endpoint returns the endpoint of a valid subscription.
func (t *Push) endpoint(s *webpush.Subscription) (*url.URL, error) {
	at := t.options.Address
	if err := s.Check(at.Insecure); err != nil {
		return nil, err
	}
	at.URL = s.Endpoint
	u, err := at.Check()
	if err != nil {
		return nil, webpush.RefuseEndpoint(err)
	}
	return u, nil
}

// pushPayload is the JSON that a push message carries to the service worker of the pages: see web/sw.js.
type pushPayload struct {
	Title    string       `json:"title"`
	Body     string       `json:"body"`
	URL      string       `json:"url,omitempty"` // page for a person
	Tag      string       `json:"tag"`           // replaces the notification with the same tag
	Urgent   bool         `json:"urgent,omitempty"`
	Repeated bool         `json:"repeated,omitempty"` // the browser may have shown the alert before
	Buttons  []pushButton `json:"buttons,omitempty"`
}

// pushButton decides a ticket: post Body to URL as application/json.
type pushButton struct {
	Label string `json:"label"`
	URL   string `json:"url"`
	Body  string `json:"body"`
}

// pushPayloadOf returns the payload of a message, of at most [webpush.MaxPayload] bytes. A message that is too
// long loses the end of its text and then its buttons: a button must not decide what is not shown.
func pushPayloadOf(m alert.Message) ([]byte, error) {
	p := pushPayload{Title: m.Title, Body: m.Body, URL: m.URL, Tag: cmp.Or(m.About, m.Key), Urgent: m.Urgent,
		Repeated: m.Repeated}
	for _, b := range m.Buttons {
		p.Buttons = append(p.Buttons, pushButton(b))
	}
	for chars := pushMaxBody; ; chars /= 2 {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false) // the text is not HTML, and an escape has six bytes
		if err := e.Encode(p); err != nil {
			return nil, fmt.Errorf("encode the message: %w", err)
		}
		raw := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		if len(raw) <= webpush.MaxPayload {
			return raw, nil
		}
		if chars == 0 {
			return nil, fmt.Errorf("the message has %d bytes, and %d are allowed", len(raw), webpush.MaxPayload)
		}
		p.Buttons = nil
		p.Body = display.Cut(p.Body, chars)
	}
}

// pushTopic returns the topic of a message: a push service replaces a message that it has not delivered by one with
// the same topic (RFC 8030, section 5.4).
func pushTopic(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:pushMaxTopic]
}

// Send implements [alert.Target]. m.To is the subscription.
func (t *Push) Send(ctx context.Context, m alert.Message) (string, error) {
	if len(m.To) == 0 { // the browser was removed while the alert was on its way
		return "", httpcall.Permanent(fmt.Errorf("%w: no browser is subscribed in the thread", alert.ErrGone))
	}
	s, err := webpush.Parse(m.To, t.options.Address.Insecure)
	if err != nil {
		return "", httpcall.Permanent(fmt.Errorf("the thread is not of a subscribed browser: %w", err))
	}
	at, err := t.endpoint(s)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	key, err := t.key()
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	raw, err := pushPayloadOf(m)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	body, err := s.Encrypt(raw)
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	authorization, err := key.Authorize(at, t.options.Contact, time.Now())
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	header := http.Header{}
	header.Set("Authorization", authorization)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Encoding", "aes128gcm")
	header.Set("TTL", pushTTL)
	header.Set("Topic", pushTopic(cmp.Or(m.About, m.Key)))
	header.Set("Urgency", "normal")
	if m.Urgent {
		header.Set("Urgency", "high")
	}
	a, err := Post(ctx, t.client, httpcall.Request{
		Op: "push to " + at.Host, URL: at.String(), Header: header, Body: body, Timeout: sendTimeout, // the path is a secret
	}, s.Endpoint, at.EscapedPath(), s.Auth, authorization)
	if err != nil {
		return "", pushRefusal(a, err)
	}
	return "", nil // the address of the message at the push service lets its holder cancel it: no log gets it
}

// pushRefusal adds to err, an error of [Post], what the push service's answer means for the subscriber.
func pushRefusal(a httpcall.Response, err error) error {
	refused, ok := errors.AsType[*httpcall.Refusal](err)
	if !ok {
		return err
	}
	switch a.Status {
	case http.StatusNotFound, http.StatusGone: // RFC 8030, section 7.3
		return httpcall.Permanent(fmt.Errorf("%w: %w", alert.ErrGone, refused))
	case http.StatusUnauthorized, http.StatusForbidden: // RFC 8292, section 4.2
		return httpcall.Permanent(
			fmt.Errorf(
				"%w: the push service does not accept the contact of this target, or the browser subscribed with another key: check `contact`, then turn alerts off and on again in that browser", refused))
	}
	return err
}
