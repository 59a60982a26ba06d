// Package webpush makes the requests of Web Push: it validates the subscriptions of browsers, encrypts
// messages for them (RFC 8291, with the content coding aes128gcm of RFC 8188), and signs requests to push
// services (VAPID, RFC 8292).
package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const (
	// MaxPayload bounds a message, in bytes. A push service need not accept a body of more than 4,096 bytes
	// (RFC 8291, section 4), and the payload of some is smaller.
	MaxPayload = 3000
	// step is the unit of the padding, in bytes, so that a push service learns little from a length.
	step = 512
	// recordSize is the size of the only record (RFC 8291, section 4), in bytes.
	recordSize = 4096

	saltSize   = 16
	publicSize = 65 // bytes of an uncompressed point on P-256 (X9.62)
	authSize   = 16
	// delimiter ends the text of the last record (RFC 8188, section 2). Zeros follow it.
	delimiter = 2
)

// Encrypt returns the body of a request, in the content coding aes128gcm, that only the browser can read.
// The payload has at most [MaxPayload] bytes.
func (s *Subscription) Encrypt(payload []byte) ([]byte, error) {
	if len(payload) > MaxPayload {
		return nil, fmt.Errorf("the payload has %d bytes, and %d are allowed", len(payload), MaxPayload)
	}
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	padded := (len(payload)/step + 1) * step
	return s.encrypt(payload, key, salt, padded-len(payload))
}

// encrypt is Encrypt with a key pair of the sender, which is used once, a salt and a number of bytes of
// padding.
func (s *Subscription) encrypt(payload []byte, own *ecdh.PrivateKey, salt []byte, padding int) ([]byte, error) {
	public, auth, err := s.keys()
	if err != nil {
		return nil, err
	}
	shared, err := own.ECDH(public)
	if err != nil {
		return nil, fmt.Errorf("agree on a key with the browser: %w", err)
	}
	sender := own.PublicKey().Bytes()
	// RFC 8291, section 3.4. All info strings end with a zero byte there, or continue behind it.
	info := "WebPush: info\x00" + string(public.Bytes()) + string(sender)
	input, err := hkdf.Key(sha256.New, shared, auth, info, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the input key: %w", err)
	}
	key, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, fmt.Errorf("derive the content key: %w", err)
	}
	nonce, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, fmt.Errorf("derive the nonce: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	// The header of RFC 8188, section 2.1, with the public key of the sender as the key id.
	out := append(make([]byte, 0, recordSize), salt...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(append(out, publicSize), sender...)
	text := append(append(make([]byte, 0, recordSize), payload...), delimiter)
	text = append(text, make([]byte, padding)...)
	return gcm.Seal(out, nonce, text, nil), nil
}

// decode decodes base64url without padding, as browsers and JWTs have it (RFC 7515, section 2).
func decode(text string) ([]byte, error) { return base64.RawURLEncoding.Strict().DecodeString(text) }

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
