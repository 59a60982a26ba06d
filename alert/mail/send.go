package mail

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"mailroom"
	"mailroom/alert"
	"mailroom/channel/httpcall"
)

// timeout bounds a message, from the look-up of the server's name to its last reply.
const timeout = 30 * time.Second

// Send implements [alert.Target]. The receipt is the server's reply, which most servers write their queue id
// into, after the recipients that it refused.
//
// The message counts as sent once the server accepted it for one recipient, because a repeat would reach this
// recipient twice. If the server refuses the connection, the account or the sender, it refuses all messages, so that
// is an outage, which an operator can correct. If it refuses a recipient or the content for good, the error is
// permanent.
func (t *Target) Send(ctx context.Context, m alert.Message) (string, error) {
	raw, err := t.compose(m, time.Now())
	if err != nil {
		return "", httpcall.Permanent(err)
	}
	password := ""
	if t.options.User != "" {
		if password, err = t.options.Password(); err != nil {
			return "", httpcall.Unavailable(fmt.Errorf("read the password of %s: %w", t.options.User, err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := t.connect(ctx, password)
	if err != nil {
		return "", err
	}
	defer s.close()
	return s.submit(raw)
}

// submit sends a message to the mail server and returns the server's receipt.
func (s *session) submit(raw []byte) (string, error) {
	from := envelope(s.target.from)
	if err := s.client.Mail(from); err != nil {
		return "", s.fail("sender "+from, err, outage)
	}
	refused, err := s.offer()
	if err != nil {
		return "", err
	}
	w, err := s.client.Data()
	if err != nil {
		return "", s.fail("announce the message", err, byReply)
	}
	if _, err := w.Write(raw); err != nil {
		s.client = nil // without its end, the server does not accept the message, and QUIT would write that end
		return "", s.fail("send the message", err, byReply)
	}
	if err := w.Close(); err != nil {
		return "", s.fail("send the message", err, afterEnd)
	}
	receipt := refused
	if data, ok := w.(*smtp.DataCloser); ok {
		receipt = append(receipt, s.quote(data.ServerResponse()))
	}
	return strings.Join(receipt, "; "), nil
}

// offer names the recipients to the server. It returns the recipients that the server refused, or an error if the
// server refused all.
func (s *session) offer() (refused []string, err error) {
	var permanent, later error
	for _, to := range s.target.to {
		err := s.client.Rcpt(envelope(to))
		if err == nil {
			continue
		}
		failed := s.fail("recipient "+envelope(to), err, byReply)
		if code := replyCode(err); code == 0 || code == closing {
			return nil, failed // the session ended
		}
		if mailroom.AsFailure(failed).Class == mailroom.ClassPermanent {
			permanent = failed
		} else {
			later = failed
		}
		refused = append(refused, fmt.Sprintf("not to %s: %s", to.Address, s.describe(err)))
	}
	switch {
	case len(refused) < len(s.target.to):
		return refused, nil
	case later != nil:
		return nil, later // a later try may reach this recipient
	}
	return nil, permanent
}

// secrets returns a password in the forms in which it is sent, so that no error quotes one.
func secrets(user, password string) []string {
	if password == "" {
		return nil
	}
	encode := base64.StdEncoding.EncodeToString
	return []string{encode([]byte("\x00" + user + "\x00" + password)), encode([]byte(password)), password}
}
