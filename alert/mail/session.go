package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"mailroom/channel/httpcall"
	"mailroom/internal/display"
	"mailroom/internal/netguard"
	"mailroom/internal/recovery"
)

// session is a connection to a mail server, for one message.
type session struct {
	ctx     context.Context
	target  *Target
	secrets []string // secrets, which no error may quote
	conn    net.Conn
	client  *smtp.Client
	stop    func() bool // ends the watch of ctx
}

// connect connects to the server, encrypts the connection and signs in. Its errors are outages.
func (t *Target) connect(ctx context.Context, password string) (*session, error) {
	s := &session{ctx: ctx, target: t, secrets: secrets(t.options.User, password)}
	conn, err := t.options.Policy.Dialer().DialContext(ctx, "tcp", net.JoinHostPort(t.host, t.port))
	if err != nil {
		return nil, s.fail("connect", err, outage)
	}
	s.conn = &boundedConn{conn, maxRead}
	s.stop = context.AfterFunc(ctx, func() {
		defer recovery.Log(nil, "the end of a connection to a mail server")
		_ = conn.Close() // the call that waits for the server returns the error
	})
	for _, step := range []struct {
		op string
		do func() error
	}{{"connect", s.greet}, {"start TLS", s.encrypt}, {"sign in as " + t.options.User, func() error {
		return s.signIn(password)
	}}} {
		if err := step.do(); err != nil {
			s.close()
			return nil, s.fail(step.op, err, outage)
		}
	}
	return s, nil
}

// greet starts the session, with TLS if it is implicit.
func (s *session) greet() (err error) {
	conn := s.conn
	if s.target.options.TLS == TLSImplicit {
		encrypted := tls.Client(conn, s.tls())
		if err := encrypted.HandshakeContext(s.ctx); err != nil {
			return err
		}
		conn = encrypted
	}
	if s.client, err = smtp.NewClient(conn, s.target.host); err != nil {
		return err
	}
	s.client.SkipSMTPUTF8(true) // all addresses and headers are ASCII, and the next server may lack it
	return s.client.Hello(literal(s.conn.LocalAddr()))
}

// errNoTLS is the error of a server that cannot encrypt the connection.
var errNoTLS = errors.New(
	"the server does not offer STARTTLS, so nothing was sent: correct the port, or set tls to implicit if that port uses TLS from the start")

func (s *session) encrypt() error {
	if s.target.options.TLS != TLSRequired {
		return nil
	}
	if offered, _ := s.client.Extension("STARTTLS"); !offered {
		return errNoTLS
	}
	return s.client.StartTLS(s.tls())
}

func (s *session) tls() *tls.Config {
	return &tls.Config{ServerName: s.target.host, RootCAs: s.target.options.Roots, MinVersion: tls.VersionTLS12}
}

func (s *session) signIn(password string) error {
	user, host, plain := s.target.options.User, s.target.host, s.target.options.TLS == TLSNone
	if user == "" {
		return nil
	}
	_, offered := s.client.Extension("AUTH")
	switch ways := strings.Fields(strings.ToUpper(offered)); {
	case slices.Contains(ways, "PLAIN"):
		return s.client.Auth(smtp.PlainAuth("", user, password, host, plain))
	case slices.Contains(ways, "LOGIN"):
		return s.client.Auth(smtp.LoginAuth(user, password, host, plain))
	case len(ways) > 0:
		return fmt.Errorf("the server offers the ways %s, and PLAIN or LOGIN is needed", strings.Join(ways, ", "))
	}
	return errors.New("the server does not offer to sign in on this connection: correct the port or tls, or remove user")
}

// quitTimeout bounds the end of a session, whose result changes nothing.
const quitTimeout = 2 * time.Second

// close ends the session.
func (s *session) close() {
	if s.client != nil && s.client.HasConnection() && s.client.UpdateDeadline(quitTimeout) == nil {
		_ = s.client.Quit() // the outcome of the message is known
	}
	s.stop()
	_ = s.conn.Close() // Quit may have closed it
}

// classOf returns what a refusal by the mail server means for a message. The status 0 stands for no reply at all.
type classOf func(*httpcall.Refusal) httpcall.Class

// outage is the classOf for the steps before a message: a refusal then concerns all messages.
func outage(*httpcall.Refusal) httpcall.Class { return httpcall.ClassUnavailable }

// closing is the reply code of a server that closes the connection (RFC 5321, section 3.8).
const closing = 421

// byReply is the classOf for a refused recipient or message.
func byReply(e *httpcall.Refusal) httpcall.Class {
	switch {
	case e.Status/100 != 5:
		return httpcall.ClassUnavailable
	case slices.Contains([]int{530, 534, 535, 538}, e.Status): // RFC 4954: the server wants another sign-in
		return httpcall.ClassUnavailable
	}
	return httpcall.ClassPermanent
}

// afterEnd is the classOf once the server has the whole message: unless the server refused the message, it may have
// accepted it (RFC 5321, section 4.3.2).
func afterEnd(e *httpcall.Refusal) httpcall.Class {
	if e.Status < 400 {
		return httpcall.ClassUnknown
	}
	return byReply(e)
}

// fail classifies an error.
func (s *session) fail(op string, err error, class classOf) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		return httpcall.SendError(&httpcall.Refusal{Op: op, Platform: s.target.host, Status: reply.Code,
			Text: s.quote(reply.Msg)}, class)
	}
	failed := &httpcall.TransportError{
		Op: op, Reason: s.describe(err), Cause: s.ctx.Err(),
		MaybeSent: class(&httpcall.Refusal{}) == httpcall.ClassUnknown,
	}
	if errors.Is(err, netguard.ErrRefused) {
		failed.Cause = netguard.ErrRefused
	}
	return httpcall.SendError(failed, class)
}

// replyCode returns the code of the server's reply, 0 if err is no reply.
func replyCode(err error) int {
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		return reply.Code
	}
	return 0
}

// describe returns the text of an error on one line, without a secret.
func (s *session) describe(err error) string {
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		return s.quote(fmt.Sprintf("%d %s", reply.Code, reply.Msg))
	}
	at := net.JoinHostPort(s.target.host, s.target.port)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return s.quote(fmt.Sprintf("the certificate of %s is not trusted: %v", at, err))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return s.quote(fmt.Sprintf("%s does not use TLS from the start: correct the port, or set tls to required", at))
	}
	switch {
	case errors.Is(s.ctx.Err(), context.DeadlineExceeded):
		return at + " did not answer in time"
	case errors.Is(err, netguard.ErrRefused):
		return s.quote(toAllow(err).Error())
	}
	return s.quote(fmt.Sprintf("%s: %v", at, err))
}

// quote returns foreign text on one line, cut, without a secret or a character that is invisible.
func (s *session) quote(text string) string {
	return display.Line(httpcall.Quote([]byte(text), s.secrets))
}

// envelope returns an address for a command, without a name.
func envelope(a *netmail.Address) string { return (&netmail.Address{Address: a.Address}).String() }

// literal returns the address of this machine as it introduces itself (RFC 5321, section 4.1.3). Other
// machines often cannot resolve this machine's name.
func literal(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	switch {
	case !ok:
		return "localhost"
	case tcp.IP.To4() != nil:
		return "[" + tcp.IP.String() + "]"
	}
	return "[IPv6:" + tcp.IP.String() + "]"
}

// maxRead bounds what is read from a server for one message, in bytes.
const maxRead = 256 << 10

// boundedConn reads a bounded part of a connection. Only one goroutine reads it.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the server sent more than %d KiB", maxRead>>10)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
