// Package irc connects an IRC network as a chat platform.
//
// IRC has no history and knows no message twice: what is said while the bot is not
// there is lost, and a line that was under way when the process died may come a second
// time. What IRC does have is used as far as it goes: a server answers the lines of a
// client in their order, so the PONG to a PING that follows a message says that the
// server has taken it, or an error before it that it has not.
//
// Lines are taken apart by github.com/ergochat/irc-go. Connecting, registering, keeping alive and
// sending are done here, because the supervisor of channels connects again, and nothing
// else may.
package irc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// Kind is the platform, as a configuration names it.
const Kind = "irc"

// What Options have where they say nothing.
const (
	DefaultGap   = time.Second
	DefaultFresh = 30 * time.Second
)

// Options are one network, and who the bot is there.
type Options struct {
	Server string // host, or host:port; the port is 6697 with TLS and 6667 without
	// Plain has no TLS. Passwords are then refused unless the server is on this
	// machine.
	Plain bool
	TLS   *tls.Config // nil: what the system trusts
	Nick  string      // wanted; while another has it the bot goes by a similar one
	Name  string      // the real name that the network shows; "" is the nick
	// Account is the name of the bot's account, for SASL PLAIN; "" for none.
	Account string
	// Secrets are read for each connection, so that a new one counts. nil: there are
	// none.
	Secrets func() (Secrets, error)
	Join    []string // channels, each with its key after a space if it has one
	// Gap is between two lines to one room, DefaultGap.
	Gap time.Duration
	// Fresh is how long an answer of the server proves that it is there, DefaultFresh.
	// It is asked in half of that.
	Fresh time.Duration
}

// Secrets are what must not be seen.
type Secrets struct {
	Server  string // password of the server
	Account string // password of the account
}

// ReconnectPolicy is what the supervisor should know of the platform.
func (o Options) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{IdleTimeout: o.withDefaults().Fresh}
}

func (o Options) withDefaults() Options {
	if o.Gap == 0 {
		o.Gap = DefaultGap
	}
	if o.Fresh == 0 {
		o.Fresh = DefaultFresh
	}
	if o.Name == "" {
		o.Name = o.Nick
	}
	return o
}

// Check says what is wrong with the options, nil if nothing is.
func (o Options) Check() error {
	if _, _, err := o.hostPort(); err != nil {
		return err
	}
	if err := checkWord("nick", o.Nick); err != nil {
		return err
	}
	if strings.ContainsRune("#&+!@:$~%0123456789-", rune(o.Nick[0])) || strings.ContainsAny(o.Nick, "!@.:") {
		return fmt.Errorf("%q cannot be a nick: it begins with a letter, and has no dot, colon, ! or @", o.Nick)
	}
	if o.Account != "" {
		if err := checkWord("account", o.Account); err != nil {
			return err
		}
	}
	if strings.ContainsAny(o.Name, "\r\n\x00") {
		return fmt.Errorf("the name %q is not one line", o.Name)
	}
	for _, c := range o.Join {
		if err := checkChannel(c); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(what, s string) error {
	if s == "" {
		return fmt.Errorf("it needs a %s", what)
	}
	if len(s) > 64 || strings.ContainsAny(s, " ,\r\n\x00") || !utf8.ValidString(s) {
		return fmt.Errorf("%q cannot be a %s: it is one word of at most 64 characters, without commas", s, what)
	}
	return nil
}

func checkChannel(entry string) error {
	name, key, _ := strings.Cut(entry, " ")
	if len(name) < 2 || len(entry) > 100 || !strings.ContainsRune(defaultChannelPrefixes, rune(name[0])) ||
		strings.ContainsAny(name, ",\a\r\n\x00") || strings.ContainsAny(key, " ,:\r\n\x00") {
		return fmt.Errorf(`%q is no channel to join: write "#name", or "#name key" if it has a key`, entry)
	}
	return nil
}

// defaultChannelPrefixes begin the names of channels where a server does not say which do.
const defaultChannelPrefixes = "#&+!"

// hostPort is the server's, and its host alone.
func (o Options) hostPort() (addr, host string, err error) {
	host, port, err := net.SplitHostPort(o.Server)
	if err != nil {
		host, port = strings.Trim(o.Server, "[]"), "6697"
		if o.Plain {
			port = "6667"
		}
	}
	if _, wrong := strconv.ParseUint(port, 10, 16); wrong != nil || host == "" || strings.ContainsAny(host, "/ @?#\r\n\x00") {
		return "", "", fmt.Errorf(`%q is no server: write its name, and a port if it is another than 6697, such as "irc.example.org:6697"`, o.Server)
	}
	return net.JoinHostPort(host, port), host, nil
}

// readSecrets are read, and refused where everybody could read them.
func (o Options) readSecrets(host string) (s Secrets, err error) {
	if o.Secrets != nil {
		if s, err = o.Secrets(); err != nil {
			return s, err
		}
	}
	if strings.ContainsAny(s.Server, "\r\n\x00") || strings.ContainsAny(s.Account, "\r\n\x00") {
		return s, errors.New("a password is not one line")
	}
	if o.Account != "" && s.Account == "" {
		return s, fmt.Errorf("there is no password for the account %s", o.Account)
	}
	if o.Plain && s != (Secrets{}) && !isLoopback(host) {
		return s, fmt.Errorf("the password would go to %s without TLS, for everybody on the way to read: take out tls = false", host)
	}
	return s, nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Dial connects and registers; it is a [chat.Dialer].
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	c, err := o.dial(ctx, l)
	if err != nil {
		return nil, chat.Capabilities{}, err
	}
	return c, c.capabilities(), nil
}

// dial is Dial for whoever listens.
func (o Options) dial(ctx context.Context, l host) (*connection, error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, channel.Fatal(err)
	}
	addr, host, err := o.hostPort()
	if err != nil {
		return nil, channel.Fatal(err)
	}
	secrets, err := o.readSecrets(host)
	if err != nil {
		return nil, channel.Fatal(err)
	}
	wire, err := o.dialConn(ctx, addr, host)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	c := newConnection(o, newWire(wire), l)
	if err := c.register(ctx, secrets); err != nil {
		return nil, errors.Join(err, c.wire.close())
	}
	return c, nil
}

func (o Options) dialConn(ctx context.Context, addr, host string) (net.Conn, error) {
	var d net.Dialer
	if o.Plain {
		return d.DialContext(ctx, "tcp", addr)
	}
	conf := o.TLS.Clone()
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	return (&tls.Dialer{NetDialer: &d, Config: conf}).DialContext(ctx, "tcp", addr)
}

// Probe connects once and leaves again. It returns the nick under which the bot was let
// in; it joins nothing.
func Probe(ctx context.Context, o Options) (nick string, err error) {
	o.Join = nil
	ctx, cancel := context.WithTimeout(ctx, DefaultFresh)
	defer cancel()
	c, err := o.dial(ctx, discardHost{})
	if err != nil {
		return "", err
	}
	return c.capabilities().BotName, c.Close()
}

// discardHost listens to nothing.
type discardHost struct{}

func (discardHost) Received()                       {}
func (discardHost) ReportError(error)               {}
func (discardHost) ReportProgress(channel.Progress) {}
func (discardHost) Log() *slog.Logger               { return slog.New(slog.DiscardHandler) }

// capabilities are of the connection as it is now.
func (c *connection) capabilities() chat.Capabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return chat.Capabilities{
		Platform: Kind, BotID: fold(c.options.Nick, c.server.caseMapping), BotName: c.self.nick,
		MaxUnits: c.maxText(c.server.longestTarget()), Units: func(s string) int { return len(s) },
		SingleLine: true, RoomInterval: c.options.Gap, CommandPrefix: "!",
		ResendBehavior: "at least once: a line may come twice after a crash; what is said while the bot is away is lost",
	}
}
