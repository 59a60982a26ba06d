package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	scalarSize = 32
	// tokenLife is how long a signed request is valid. RFC 8292, section 2, allows 24 hours.
	tokenLife = 12 * time.Hour
)

// Key is the key pair of an application server (VAPID). A browser subscribes to one public key, and its
// push service accepts messages only from the owner of that key.
type Key struct {
	private *ecdsa.PrivateKey
	public  []byte // uncompressed point
}

// NewKey returns a new private key, as [ParseKey] reads it.
func NewKey() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("make a key: " + err.Error()) // crypto/rand ends the process instead of failing
	}
	raw, err := key.Bytes()
	if err != nil {
		panic("encode a key: " + err.Error()) // cannot fail: the curve of the key has an encoding
	}
	return encode(raw)
}

// ParseKey parses a private key: the 32 bytes of the scalar on P-256 in base64url without padding. The error
// does not quote the key.
func ParseKey(text string) (*Key, error) {
	raw, err := decode(text)
	if err != nil || len(raw) != scalarSize {
		return nil, errors.New("the private key is not 32 bytes in base64url without padding (43 characters)")
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return nil, errors.New("the private key is not a key on the curve P-256")
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encode the public key: %w", err)
	}
	return &Key{private, public}, nil
}

// CheckKey returns an error unless [ParseKey] reads a text.
func CheckKey(text string) error {
	_, err := ParseKey(text)
	return err
}

// Public returns the public key for a browser's applicationServerKey: an uncompressed point in base64url.
func (k *Key) Public() string { return encode(k.public) }

// Authorize returns the value of the header Authorization of a request to a push service (RFC 8292, section
// 3). contact is a mailto: or https: URL under which the service reaches the operator.
func (k *Key) Authorize(endpoint *url.URL, contact string, now time.Time) (string, error) {
	header := `{"typ":"JWT","alg":"ES256"}`
	claims, err := json.Marshal(struct {
		Audience string `json:"aud"` // the origin of the push service (RFC 8292, section 2)
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub"`
	}{endpoint.Scheme + "://" + endpoint.Host, now.Add(tokenLife).Unix(), contact})
	if err != nil {
		return "", fmt.Errorf("encode the claims of the VAPID token: %w", err)
	}
	signed := encode([]byte(header)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	// RFC 7518, section 3.4: both numbers with their full length, not ASN.1.
	signature := make([]byte, 2*scalarSize)
	r.FillBytes(signature[:scalarSize])
	s.FillBytes(signature[scalarSize:])
	return "vapid t=" + signed + "." + encode(signature) + ", k=" + k.Public(), nil
}
