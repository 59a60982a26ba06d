// Package mail sends alerts by e-mail: it submits each one to a mail server (RFC 6409).
//
// A message has a text and an HTML part, and no link that decides: mail programs and scanners follow the
// links in a mail, so a link in it only opens the page that shows the question.
package mail

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"strconv"
	"strings"

	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

// maxRecipients bounds the recipients of a target.
const maxRecipients = 10

// TLS says how the connection to the server is encrypted.
type TLS string

const (
	TLSRequired TLS = "required" // encrypted by STARTTLS (RFC 3207), or no mail is sent
	TLSImplicit TLS = "implicit" // encrypted from the start (RFC 8314)
	TLSNone     TLS = "none"     // not encrypted
)

// Options are the settings of a target.
type Options struct {
	Server   string // HOST or HOST:PORT
	TLS      TLS
	Insecure bool // allows TLSNone for other machines than this one
	// Policy says which addresses may be connected to. It is checked on the resolved address.
	Policy   netguard.Policy
	User     string                 // name to sign in with; "": send without signing in
	Password func() (string, error) // returns the password of User; called for each message
	From     string
	To       []string
	// Roots sign the server's certificate. If it is nil, the roots of the system do.
	Roots *x509.CertPool
}

// NewKind returns the kind of target that sends mail.
func NewKind() target.Kind {
	return target.Kind{
		Name: "email", New: newSettings, Own: true,
		AfterCrash: "sent again with the same Message-ID, and marked as repeated",
		Leaves:     "the text that the rule allows, and the link, to the mail servers on the way, which can read both",
	}
}

func newSettings() *target.Settings {
	password := new(setting.Secret)
	o := &Options{TLS: TLSRequired, Password: password.Get}
	return &target.Settings{
		Keys: append(password.Settings("password", "the password of user", ""),
			setting.New("server", "Mail server, HOST or HOST:PORT. The port defaults to 587, and to 465 if tls is implicit.",
				setting.Checked(&o.Server, `a mail server such as "smtp.example.org:587"`, isServer)).
				Require(`missing server; set a mail server such as "smtp.example.org:587"`),
			setting.New("tls", "Encryption: required (STARTTLS), implicit (TLS from the start) or none.",
				setting.OneOf(&o.TLS, TLSRequired, TLSImplicit, TLSNone)),
			setting.New("insecure", "Allow tls none for other machines than this one.", setting.Bool(&o.Insecure)),
			target.Allow(&o.Policy),
			setting.New("user", "User name at the mail server. Not set: alerts are sent without signing in.",
				setting.Text(&o.User)),
			setting.New("from", "Address that alerts are sent from. The mail server must let the user send from it.",
				setting.Checked(&o.From, anAddress, isAddress)).
				Require("missing from; set the address that alerts are sent from"),
			setting.New("to", fmt.Sprintf("Addresses that alerts are sent to, at most %d.", maxRecipients), recipients(&o.To)),
		),
		MaxBody: alert.MaxBody,
		Check: func() error {
			switch _, err := o.parse(); {
			case err != nil:
				return err
			case password.Ambiguous():
				return errors.New("password_env and password_file are both set; remove one")
			case password.IsSet() != (o.User != ""):
				return errors.New(
					"user needs a password, and a password needs a user: set user and password_file or password_env, or none of them")
			}
			return nil
		},
		Open: func(string) (alert.Target, error) { return New(*o) },
		Setup: &kind.Setup{
			Short: "Alert people by e-mail",
			About: `The server submits each alert to a mail server, as a mail program does. Use the
address, user name and password that your mail provider lists for mail programs; many
providers want a password of its own for each program. Signing in is optional.`,
			Example:   "--name ops --server smtp.example.org --user alerts@example.org --from alerts@example.org --to ops@example.org",
			Questions: questions(o),
			Probe:     func(ctx context.Context, at kind.Place) (kind.Found, error) { return probe(ctx, o, at) },
		},
	}
}

func questions(o *Options) []kind.Question {
	return []kind.Question{
		{Key: "server", Usage: "mail server, HOST or HOST:PORT", Prompt: kind.Ask("Mail server, HOST or HOST:PORT: ")},
		{Key: "tls", Usage: "encryption: required (STARTTLS), implicit or none"},
		{Key: "insecure", Usage: "allow --tls none for other machines than this one"},
		{Key: "allow", Usage: "private network or address that --server may be in; may be repeated"},
		{Key: "user", Usage: "user name at the mail server, empty to send without signing in",
			Prompt: kind.Ask("User name at the mail server [none]: ")},
		{Key: "password_file", Secret: "password", Usage: "use the password in this file; the file is not copied",
			Prompt: func() string {
				if o.User == "" {
					return ""
				}
				return "Password of " + o.User + ": "
			}},
		{Key: "from", Usage: "address that alerts are sent from", Prompt: kind.Ask("Send alerts from the address: ")},
		{Key: "to", Usage: "address that alerts are sent to; may be repeated",
			Prompt: kind.Ask("Send alerts to the addresses, with commas between them: ")},
	}
}

func probe(ctx context.Context, o *Options, at kind.Place) (found kind.Found, err error) {
	t, err := New(*o)
	if err != nil {
		return found, err
	}
	receipt, err := t.Send(ctx, alert.TestMessage(at.Channel))
	if err != nil {
		return found, err
	}
	line := "the server took a test message for " + strings.Join(o.To, ", ")
	if receipt != "" {
		line += " (" + receipt + ")"
	}
	found.Account = []string{line}
	found.Next = []string{"check that the test message arrived, and is not in the folder for spam"}
	return found, nil
}

// anAddress describes what isAddress accepts.
const anAddress = `an address such as "ops@example.org" or "Ops <ops@example.org>"; the address itself is ASCII`

func isAddress(s string) bool {
	_, err := parseAddress(s)
	return s == "" || err == nil
}

// maxAddress bounds an address in bytes (RFC 5321, section 4.5.3.1.3).
const maxAddress = 254

func parseAddress(s string) (*netmail.Address, error) {
	a, err := netmail.ParseAddress(s)
	if err != nil || len(a.Address) > maxAddress || strings.ContainsFunc(a.Address, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return nil, setting.Invalid(s, anAddress)
	}
	return a, nil
}

// recipients returns the value of a setting that is a list of addresses, or one text with commas between them.
func recipients(p *[]string) setting.Value {
	each := setting.Each(p, anAddress, func(s string) bool { return s != "" && isAddress(s) })
	return setting.Value{
		Set: func(v any) error {
			text, isText := v.(string)
			if !isText {
				return each.Set(v)
			}
			all, err := netmail.ParseAddressList(text)
			if err != nil {
				return setting.Invalid(text, anAddress)
			}
			texts := make([]string, len(all))
			for i, a := range all {
				if texts[i] = a.Address; a.Name != "" || !isAddress(a.Address) {
					texts[i] = a.String()
				}
			}
			return each.Set(texts)
		},
		Get: each.Get,
	}
}

// isServer reports whether s is HOST or HOST:PORT.
func isServer(s string) bool {
	_, _, err := splitServer(s, TLSRequired)
	return s == "" || err == nil
}

const hostCharacters = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// splitServer returns the host and the port of a server.
func splitServer(server string, mode TLS) (host, port string, err error) {
	host, port = server, "587" // submission (RFC 6409)
	if mode == TLSImplicit {
		port = "465" // RFC 8314
	}
	if h, p, err := net.SplitHostPort(server); err == nil {
		host, port = h, p
	}
	_, noAddress := netip.ParseAddr(host)
	isName := host != "" && strings.Trim(host, hostCharacters) == ""
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || noAddress != nil && !isName {
		return "", "", setting.Invalid(server, "HOST or HOST:PORT")
	}
	return host, port, nil
}

// parsed are options that fit together.
type parsed struct {
	host, port string
	from       *netmail.Address
	to         []*netmail.Address
}

// parse parses the options, and checks the server without resolving its name.
func (o *Options) parse() (p parsed, err error) {
	if p.host, p.port, err = splitServer(o.Server, o.TLS); err != nil {
		return p, fmt.Errorf("server: %w", err)
	}
	if err := o.Policy.CheckHost(p.host); err != nil {
		return p, fmt.Errorf("server: %w", toAllow(err))
	}
	if o.TLS == TLSNone && !o.Insecure && !netguard.Local(p.host) {
		return p,
			fmt.Errorf(
				"tls is none, and %s is another machine: the alerts and the password would not be encrypted; use required or implicit, or set insecure", p.host)
	}
	if p.from, err = parseAddress(o.From); err != nil {
		return p, fmt.Errorf("from: %w", err)
	}
	if n := len(o.To); n == 0 || n > maxRecipients {
		return p, fmt.Errorf("to has %d addresses; set 1 to %d", n, maxRecipients)
	}
	for _, text := range o.To {
		a, err := parseAddress(text)
		if err != nil {
			return p, fmt.Errorf("to: %w", err)
		}
		p.to = append(p.to, a)
	}
	return p, nil
}

// toAllow adds to a refusal of the policy which setting allows the address.
func toAllow(err error) error {
	return fmt.Errorf("%w; to use it, add it to the setting allow", err)
}

// Target is a list of recipients that a mail server reaches.
type Target struct {
	options Options
	parsed
}

// New returns a target that sends alerts by mail.
func New(o Options) (*Target, error) {
	p, err := o.parse()
	if err != nil {
		return nil, err
	}
	return &Target{o, p}, nil
}
