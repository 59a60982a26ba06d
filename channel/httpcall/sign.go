package httpcall

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Headers of signed requests, in both directions.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // seconds since 1970
	HeaderSignature = "webhook-signature" // "v1,<Base64>", several separated by spaces
)

// SignatureHeaders returns the names of the headers that a request must have.
func SignatureHeaders() []string { return []string{HeaderID, HeaderTimestamp, HeaderSignature} }

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxID        = 150
	scheme       = "v1,"
	// tolerance is the permitted difference between the clocks of both sides, including the
	// transfer time.
	tolerance = 5 * time.Minute
)

// Secrets are HMAC keys that sign and verify requests as Standard Webhooks specifies
// (https://github.com/standard-webhooks/standard-webhooks, scheme v1). A request is signed with all of them and
// verified with any.
type Secrets [][]byte

// NewSecret generates a secret.
func NewSecret() string {
	key := make([]byte, 32)
	rand.Read(key) // rand.Read never returns an error
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// IsBase64Secret reports whether the first secret is in the whsec_ form.
func IsBase64Secret(text string) bool { return strings.HasPrefix(text, secretPrefix) }

// CheckSecret validates secrets, see [ParseSecrets]. Its error does not contain the secret.
func CheckSecret(text string) error {
	_, err := ParseSecrets(text)
	return err
}

// ParseSecrets parses secrets that white space separates, each at least 24 bytes long: text, or Base64 after whsec_.
func ParseSecrets(text string) (all Secrets, err error) {
	for one := range strings.FieldsSeq(text) {
		key := []byte(one)
		if coded, marked := strings.CutPrefix(one, secretPrefix); marked {
			if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
				return nil, errors.New("invalid secret: the part after " + secretPrefix + " is not Base64")
			}
		}
		if len(key) < minSecret {
			return nil, fmt.Errorf("the secret has %d bytes, but at least %d are required", len(key), minSecret)
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, errors.New("missing secret")
	}
	return all, nil
}

// sum returns the HMAC of one key. The dots separate the parts unambiguously, because neither an id
// nor a timestamp contains a dot.
func sum(key []byte, id, at string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "%s.%s.", id, at) // writing to a hash never fails
	_, _ = h.Write(body)                    // as above
	return h.Sum(nil)
}

// CheckHex reports whether signature is the HMAC-SHA256 of body in hexadecimal, as platforms with signatures of their
// own send it. It takes the same time for each signature of that length.
func CheckHex(secret, signature string, body []byte) bool {
	h := hmac.New(sha256.New, []byte(secret))
	_, _ = h.Write(body) // writing to a hash never fails
	got, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(got, h.Sum(nil))
}

// Sign adds the signature headers for a body that is sent now.
func (all Secrets) Sign(h http.Header, id string, body []byte) {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	var signatures []string
	for _, key := range all {
		signatures = append(signatures, scheme+base64.StdEncoding.EncodeToString(sum(key, id, at, body)))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, at)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}

// signatureHeader holds the parsed signature headers of a request.
type signatureHeader struct {
	id, timestamp string
	signatures    [][]byte // signatures of the v1 scheme
}

// maxSignatures bounds the signatures of one request. A sender has two while it rotates its secret.
const maxSignatures = 8

// CheckSignatureHeader rejects a request without an id, a current timestamp, or a signature, before its body is read.
func CheckSignatureHeader(h http.Header, now time.Time) error {
	_, err := parseSignatureHeader(h, now)
	return err
}

// parseSignatureHeader parses the signature headers. It rejects a request without an id, a current
// timestamp, or a signature.
func parseSignatureHeader(h http.Header, now time.Time) (signatureHeader, error) {
	id, stamp, given := h.Get(HeaderID), h.Get(HeaderTimestamp), h.Get(HeaderSignature)
	for _, of := range []struct{ name, value string }{{HeaderID, id}, {HeaderTimestamp, stamp}, {HeaderSignature, given}} {
		if of.value == "" {
			return signatureHeader{},
				unauthenticated("the header %s is missing: sign the request as Standard Webhooks specifies", of.name)
		}
	}
	if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '.' }) {
		return signatureHeader{},
			unauthenticated("the header %s must have at most %d ASCII characters without spaces and dots", HeaderID, maxID)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp {
		return signatureHeader{}, unauthenticated("the header %s is not a time in whole seconds since 1970", HeaderTimestamp)
	}
	if d := now.Unix() - seconds; d > int64(tolerance.Seconds()) || -d > int64(tolerance.Seconds()) {
		return signatureHeader{},
			unauthenticated("the header %s is not within %s of this server's clock, which is at %d: sign the request again",
				HeaderTimestamp, tolerance, now.Unix())
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
		return signatureHeader{}, signatureError()
	}
	return out, nil
}

// Verify checks the signature and timestamp of a request and returns its id. It hashes the body
// once per secret, for any number of signatures.
func (all Secrets) Verify(h http.Header, body []byte, now time.Time) (id string, err error) {
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
	return "", signatureError()
}

func signatureError() error {
	return unauthenticated("no signature in the header %s matches the body and the channel's secret", HeaderSignature)
}

func unauthenticated(format string, args ...any) error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, format, args...)
}
