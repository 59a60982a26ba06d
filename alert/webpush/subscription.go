package webpush

import (
	"bytes"
	"crypto/ecdh"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/internal/check"
	"mailroom/internal/netguard"
)

const (
	// MaxEndpoint bounds Subscription.Endpoint, in bytes.
	MaxEndpoint = 1 << 10
	// MaxClient bounds Subscription.Client, in characters.
	MaxClient = 100
	// KeyChars and AuthChars are the lengths of the keys of a subscription, in characters.
	KeyChars  = 87
	AuthChars = 22
)

// Subscription is a browser that receives messages: a PushSubscription (https://www.w3.org/TR/push-api/,
// section 8) and where it comes from. The endpoint is a secret: its holder can send to the browser, if the
// push service does not check keys.
type Subscription struct {
	Endpoint string `json:"endpoint"` // https URL at the push service
	// P256DH is the public key of the browser, an uncompressed point on P-256, and Auth its secret of 16
	// bytes, both in base64url without padding (RFC 8291, section 3.2).
	P256DH    string    `json:"p256dh"`
	Auth      string    `json:"auth"`
	Client    string    `json:"client,omitempty"` // the browser in a few words, from its User-Agent
	By        string    `json:"by"`               // name of the token that subscribed
	Token     string    `json:"token,omitempty"`  // name of the session or the like that did it for By
	CreatedAt time.Time `json:"created_at"`
}

// Parse decodes the JSON of a subscription and checks it as Check does.
func Parse(raw []byte, insecure bool) (*Subscription, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var s Subscription
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("decode the subscription: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode the subscription: there is more than one value")
	}
	return &s, s.Check(insecure)
}

// Check validates a subscription. insecure allows an endpoint with http on other machines than this one.
// Errors name the fields as a browser does (PushSubscription.toJSON), and quote neither keys nor the endpoint.
func (s *Subscription) Check(insecure bool) error {
	if len(s.Endpoint) > MaxEndpoint {
		return check.TooLarge("endpoint", fmt.Sprintf("is longer than %d bytes", MaxEndpoint), len(s.Endpoint))
	}
	if !utf8.ValidString(s.Endpoint) || strings.ContainsFunc(s.Endpoint, func(r rune) bool {
		return r <= ' ' || r >= 0x7f
	}) {
		return check.Invalid("endpoint", "must be a URL in ASCII without spaces", nil)
	}
	if _, err := netguard.URL(s.Endpoint, insecure); err != nil {
		return RefuseEndpoint(err)
	}
	if utf8.RuneCountInString(s.Client) > MaxClient || !check.IsClean(s.Client) {
		return check.Invalid("client", fmt.Sprintf("must be valid text of at most %d characters", MaxClient), nil)
	}
	_, _, err := s.keys()
	return err
}

// RefuseEndpoint returns the refusal of an endpoint for a reason that does not quote it.
func RefuseEndpoint(why error) error { return check.Invalid("endpoint", why.Error(), nil) }

// keys decodes the keys of the browser.
func (s *Subscription) keys() (public *ecdh.PublicKey, auth []byte, err error) {
	raw, err := decode(s.P256DH)
	if err != nil || len(raw) != publicSize {
		return nil, nil,
			check.Invalid("keys.p256dh", "must be an uncompressed public key of 65 bytes in base64url without padding", nil)
	}
	if public, err = ecdh.P256().NewPublicKey(raw); err != nil {
		return nil, nil, check.Invalid("keys.p256dh", "is not a point on the curve P-256", nil)
	}
	if auth, err = decode(s.Auth); err != nil || len(auth) != authSize {
		return nil, nil, check.Invalid("keys.auth", "must be 16 bytes in base64url without padding", nil)
	}
	return public, auth, nil
}
