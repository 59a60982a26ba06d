package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Headers of a request, both ways.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp" // seconds since 1970
	headerSignature = "webhook-signature" // "v1,<Base64>", several with spaces between
)

// Headers are those that a request has beside the usual ones.
func Headers() []string { return []string{headerID, headerTimestamp, headerSignature} }

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxID        = 150
	scheme       = "v1,"
	// tolerance is how far the clocks of two machines may differ, with the time that a
	// request takes between them.
	tolerance = 5 * time.Minute
)

// secrets are keys of HMAC.
type secrets [][]byte

// NewSecret makes a secret.
func NewSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// IsBase64 reports whether the first secret is written in Base64.
func IsBase64(text string) bool { return strings.HasPrefix(text, secretPrefix) }

// CheckSecret refuses what cannot be used as [Options].Secret. It does not say what it
// was.
func CheckSecret(text string) error {
	_, err := parseSecrets(text)
	return err
}

func parseSecrets(text string) (all secrets, err error) {
	for one := range strings.FieldsSeq(text) {
		key := []byte(one)
		if coded, marked := strings.CutPrefix(one, secretPrefix); marked {
			if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
				return nil, errors.New("the secret begins with " + secretPrefix + " and is not Base64 after that")
			}
		}
		if len(key) < minSecret {
			return nil, fmt.Errorf("the secret has %d bytes, and needs %d or more", len(key), minSecret)
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no secret")
	}
	return all, nil
}

// sum is the signature of one secret. The parts are told from each other by their
// place, since neither an id nor a time has a full stop in it.
func sum(key []byte, id, at string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "%s.%s.", id, at) // a hash takes everything
	_, _ = h.Write(body)                    // as above
	return h.Sum(nil)
}

// sign signs a body that is sent now.
func (all secrets) sign(h http.Header, id string, body []byte) {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	var signatures []string
	for _, key := range all {
		signatures = append(signatures, scheme+base64.StdEncoding.EncodeToString(sum(key, id, at, body)))
	}
	h.Set(headerID, id)
	h.Set(headerTimestamp, at)
	h.Set(headerSignature, strings.Join(signatures, " "))
}

// signatureHeader is what the header of a request says about its signature.
type signatureHeader struct {
	id, timestamp string
	signatures    [][]byte // of our scheme
}

// maxSignatures bounds the signatures of one request: a sender has two while it
// changes its secret.
const maxSignatures = 8

// parseSignatureHeader reads the header of a request. It refuses one without an id, a time close
// to now, or a signature.
func parseSignatureHeader(h http.Header, now time.Time) (signatureHeader, error) {
	id, stamp, given := h.Get(headerID), h.Get(headerTimestamp), h.Get(headerSignature)
	for _, of := range []struct{ name, value string }{{headerID, id}, {headerTimestamp, stamp}, {headerSignature, given}} {
		if of.value == "" {
			return signatureHeader{}, unauthenticated("the header %s is missing: sign the request as Standard Webhooks says", of.name)
		}
	}
	if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }) {
		return signatureHeader{}, unauthenticated("the header %s has at most %d ASCII characters, without spaces and full stops", headerID, maxID)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp {
		return signatureHeader{}, unauthenticated("the header %s is no time in whole seconds since 1970", headerTimestamp)
	}
	if d := now.Unix() - seconds; d > int64(tolerance.Seconds()) || -d > int64(tolerance.Seconds()) {
		return signatureHeader{}, unauthenticated("the header %s is not within %s of this server's clock, which is at %d: sign it anew", headerTimestamp, tolerance, now.Unix())
	}
	out := signatureHeader{id: id, timestamp: stamp}
	for signature := range strings.FieldsSeq(given) {
		coded, known := strings.CutPrefix(signature, scheme)
		if got, err := base64.StdEncoding.DecodeString(coded); known && err == nil && len(got) == sha256.Size {
			out.signatures = append(out.signatures, got)
		}
		if len(out.signatures) == maxSignatures {
			break
		}
	}
	if len(out.signatures) == 0 {
		return signatureHeader{}, errNoSignature()
	}
	return out, nil
}

// verify returns the id of a request that is signed with one of the secrets, and new.
// It hashes the body once for each secret, however many signatures there are.
func (all secrets) verify(h http.Header, body []byte, now time.Time) (id string, err error) {
	s, err := parseSignatureHeader(h, now)
	if err != nil {
		return "", err
	}
	for _, key := range all {
		want := sum(key, s.id, s.timestamp, body)
		for _, got := range s.signatures {
			if hmac.Equal(got, want) {
				return s.id, nil
			}
		}
	}
	return "", errNoSignature()
}

func errNoSignature() error {
	return unauthenticated("no signature in the header %s is one of this body with the channel's secret", headerSignature)
}

func unauthenticated(format string, args ...any) error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, format, args...)
}
