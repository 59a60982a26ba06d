package alert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Link is what a link in an alert allows: to see one ticket as it was asked, and to decide it. It is
// signed, not stored, so a repeated alert has the same link, and nothing has to be removed later. The
// decision of the ticket spends it.
type Link struct {
	Ticket  string
	Digest  string // of the ticket; the ticket is refused if it has another one
	Target  string // that it was sent to
	Expires time.Time
}

// Links signs and checks links.
type Links struct{ key []byte }

// NewLinks returns the links of a server. A new secret makes all earlier links invalid. Servers with the
// same secret accept each other's links.
func NewLinks(secret string) *Links {
	sum := sha256.Sum256([]byte("decision link\x00" + secret))
	return &Links{key: sum[:]}
}

// mark separates the parts of a link. Browsers leave it as it is in the fragment of a URL, and no part
// contains it.
const mark = "~"

// MaxLink bounds a link, in bytes.
const MaxLink = 400

// Sign returns the text of a link.
func (l *Links) Sign(k Link) string {
	signed := strings.Join([]string{k.Ticket, k.Digest, url.QueryEscape(k.Target), strconv.FormatInt(k.Expires.Unix(), 36)}, mark)
	return signed + mark + l.sum(signed)
}

func (l *Links) sum(signed string) string {
	h := hmac.New(sha256.New, l.key)
	_, _ = h.Write([]byte(signed)) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Labels of a delivery whose link is signed when it is sent.
const (
	labelTicket = "alert_ticket"
	labelDigest = "alert_digest"
	labelUntil  = "alert_until"
)

// Labels returns a link as labels of a run. They are no secret: only who has the key can sign the link.
func (k Link) Labels() map[string]string {
	return map[string]string{LabelAlert: k.Target, labelTicket: k.Ticket, labelDigest: k.Digest, labelUntil: strconv.FormatInt(k.Expires.Unix(), 10)}
}

// SignLabels returns the address of the page that decides what labels name, "" if they name no link. url is that of
// the server.
func (l *Links) SignLabels(url string, labels map[string]string) string {
	seconds, err := strconv.ParseInt(labels[labelUntil], 10, 64)
	if err != nil || labels[labelTicket] == "" {
		return ""
	}
	k := Link{Ticket: labels[labelTicket], Digest: labels[labelDigest], Target: labels[LabelAlert], Expires: time.Unix(seconds, 0)}
	return url + decidePage + l.Sign(k)
}

// decidePage is the address of the page that decides, before the link.
const decidePage = "/decide#"

// Open checks the text of a link at now. A link that this server did not sign is unauthenticated, and so is
// an expired one; its error says so.
func (l *Links) Open(text string, now time.Time) (k Link, err error) {
	at := strings.LastIndex(text, mark)
	if len(text) > MaxLink || at < 0 || !hmac.Equal([]byte(l.sum(text[:at])), []byte(text[at+1:])) {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is not valid: it was changed or cut, or is of another server")
	}
	parts := strings.Split(text[:at], mark)
	if len(parts) != 4 {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is of another version of this server")
	}
	target, unescaped := url.QueryUnescape(parts[2])
	seconds, err := strconv.ParseInt(parts[3], 36, 64)
	if errors.Join(err, unescaped) != nil {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is of another version of this server")
	}
	k = Link{Ticket: parts[0], Digest: parts[1], Target: target, Expires: time.Unix(seconds, 0).UTC()}
	if !k.Expires.After(now) {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link has expired: decide on the page of the server, or with a command there")
	}
	return k, nil
}
