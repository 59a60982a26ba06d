package alert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// Link is what a link in an alert allows: to see one ticket as it was asked, and to decide it. The link is signed,
// not stored, so a repeated alert has the same link, and nothing has to be removed later. The decision of the ticket
// makes the link useless.
//
// The alternative, a stored row for each link, would have to be removed again, and a repeated alert would have
// another link. A link names the thread that sent it and a fingerprint of the target's settings, so that the link
// ends when that thread would send no alert any more. The key that signs it comes from the operator's token, which
// all servers of a store share.
type Link struct {
	Ticket string
	Digest string // digest of the ticket; the link is refused if the ticket has another digest now
	// Thread is the id of the thread whose run sent the link. The id names the target, and also the subscriber or the
	// row of the token for which the link was sent. The link is refused as soon as that target, subscriber or token
	// gets no alerts any more.
	Thread string
	// Place is the fingerprint of the address that the target sent the link to, see [Options]. If the target gets
	// another address, links that were sent to the former address decide nothing.
	Place   string
	Expires time.Time
}

// Target returns the target that the link was sent to.
func (k *Link) Target() string {
	target, _, _ := reserved.AlertPlace(k.Thread)
	return target
}

// Links signs and checks links.
type Links struct{ key []byte }

// NewLinks returns the links of a server. A new secret makes all earlier links invalid. Servers with the
// same secret accept each other's links.
func NewLinks(secret string) *Links {
	sum := sha256.Sum256([]byte("decision link\x00" + secret))
	return &Links{key: sum[:]}
}

// mark separates the parts of a link. Browsers do not escape it in the fragment of a URL, and no
// part contains it.
const mark = "~"

// MaxLink bounds a link, in bytes.
const MaxLink = 400

// Sign returns the signed text of a link, which is the part of its URL behind the page.
func (l *Links) Sign(k Link) string {
	thread := base64.RawURLEncoding.EncodeToString([]byte(k.Thread)) // shorter than with escapes
	signed := strings.Join([]string{k.Ticket, k.Digest, thread, k.Place, strconv.FormatInt(k.Expires.Unix(), 36)}, mark)
	return signed + mark + l.sum(signed)
}

func (l *Links) sum(signed string) string {
	h := hmac.New(sha256.New, l.key)
	_, _ = h.Write([]byte(signed)) // a hash accepts all bytes
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Labels of a delivery with a link. The link is signed when the delivery is sent.
const (
	labelTicket = "alert_ticket"
	labelDigest = "alert_digest"
	labelUntil  = "alert_until"
	labelThread = "alert_thread"
	labelPlace  = "alert_place"
	labelRule   = "alert_rule"
	labelRuleOf = "alert_rule_of"
)

// Labels returns a link as labels of a run. They are no secret: a link needs the server's key to be signed.
func (k Link) Labels() map[string]string {
	return map[string]string{
		LabelAlert: k.Target(), labelTicket: k.Ticket, labelDigest: k.Digest,
		labelUntil:  strconv.FormatInt(k.Expires.Unix(), 10),
		labelThread: k.Thread, labelPlace: k.Place,
	}
}

// SignLabels signs the link in labels and returns the address of its page, "" if the labels contain no link. url is the
// address of the server. Labels of an older version do not say where the link was sent: SignLabels returns the address
// of the inbox.
func (l *Links) SignLabels(url string, labels map[string]string) string {
	seconds, err := strconv.ParseInt(labels[labelUntil], 10, 64)
	if err != nil || labels[labelTicket] == "" {
		return ""
	}
	k := Link{Ticket: labels[labelTicket], Digest: labels[labelDigest], Thread: labels[labelThread],
		Place: labels[labelPlace], Expires: time.Unix(seconds, 0)}
	if k.Thread == "" {
		return url + inboxPage
	}
	return url + decidePage + l.Sign(k)
}

// Pages of the server.
const (
	decidePage = "/decide#" // the signed link follows
	inboxPage  = "/#/inbox"
)

// Open checks the signed text of a link at the time now, and returns the link. An error has the code unauthenticated
// and says why: no server with this secret signed the text, another version did, or the link has expired.
func (l *Links) Open(text string, now time.Time) (k Link, err error) {
	at := strings.LastIndex(text, mark)
	if len(text) > MaxLink || at < 0 || !hmac.Equal([]byte(l.sum(text[:at])), []byte(text[at+1:])) {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link is not valid: it was changed or cut, or is of another server")
	}
	parts := strings.Split(text[:at], mark)
	if len(parts) != 5 {
		return k, errOtherVersion()
	}
	thread, decoded := base64.RawURLEncoding.DecodeString(parts[2])
	seconds, err := strconv.ParseInt(parts[4], 36, 64)
	if errors.Join(err, decoded) != nil {
		return k, errOtherVersion()
	}
	k = Link{Ticket: parts[0], Digest: parts[1], Thread: string(thread), Place: parts[3],
		Expires: time.Unix(seconds, 0).UTC()}
	if !k.Expires.After(now) {
		return k, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link has expired: decide on the page of the server, or with a command there")
	}
	return k, nil
}

func errOtherVersion() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated,
		"the link is of another version of this server: decide on the page of the server, or with a command there")
}

// Holder returns the row of the token on which a link depends, nil for a link that was sent for the operator: the
// link ends with that row. Holder returns an error if the thread that sent the link gets no alerts now. targets are
// the targets of the server, and operator is the operator's present token.
func (k *Link) Holder(
	r store.Reader, targets Allowed, operator *auth.Token, now time.Time,
) (row *auth.Token, err error) {
	threads, err := r.Threads(store.ThreadQuery{IDs: []string{k.Thread}})
	switch {
	case err != nil:
		return nil, err
	case len(threads) == 0 && k.Thread == ThreadID(k.Target()): // an operator may have deleted it
		return nil, nil
	case len(threads) == 0:
		return nil, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link is no longer valid: what it was sent to gets no alerts any more")
	}
	t := threads[0]
	rights, err := ReadRights(r, targets, now, t.Owner)
	if err != nil {
		return nil, err
	}
	if !rights.Open(t.ID, t.CreatedAt) {
		return nil, mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the link is no longer valid: token %s may not deliver to target %s any more", t.Owner, k.Target())
	}
	if !reserved.IsSubscriber(t.ID) {
		return rights.tokens[t.Owner], nil
	}
	return subscriberRow(r, t, operator, now)
}
