// Package irc connects an IRC network as a chat platform.
//
// IRC has no history and no message ids: messages sent while the bot is away are lost, and a line
// in flight when the process crashes may be sent twice. The adapter relies on the order of
// responses: a server handles a client's lines in order, so the PONG to a PING sent after a message
// proves that the server has accepted the message, and an error before the PONG that it has not.
//
// The library github.com/ergochat/irc-go parses lines. The package itself connects, registers,
// pings and sends, because only the channel runner may reconnect.
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

// Kind is the name of this platform in configurations.
const Kind = "irc"

// Defaults of Options.
const (
	DefaultGap   = time.Second
	DefaultFresh = 30 * time.Second
)

// Options configure the network and the bot's identity there.
type Options struct {
	Server string // host or host:port; the port defaults to 6697 with TLS and 6667 without
	// Plain disables TLS. Passwords are then sent to loopback addresses only.
	Plain bool
	TLS   *tls.Config // nil uses the system's certificates
	Nick  string      // preferred nick; while it is taken the bot uses a similar one
	Name  string      // real name; "" uses the nick
	// Account is the account name for SASL PLAIN, or "".
	Account string
	// Secrets is called for each connection, so that a changed password takes effect. It may be
	// nil.
	Secrets func() (Secrets, error)
	Join    []string // channels, each optionally followed by a space and its key
	// Gap is the minimum interval between two lines to one room; it defaults to DefaultGap.
	Gap time.Duration
	// Fresh is how long a response proves that the server is alive; it defaults to DefaultFresh.
	// The adapter pings at half of it.
	Fresh time.Duration
}

// Secrets are the passwords of a connection.
type Secrets struct {
	Server  string // server password
	Account string // account password
}

// ReconnectPolicy returns the policy for this platform.
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

// Check validates the options.
func (o Options) Check() error {
	if _, _, err := o.hostPort(); err != nil {
		return err
	}
	if err := checkWord("nick", o.Nick); err != nil {
		return err
	}
	if strings.ContainsRune("#&+!@:$~%0123456789-", rune(o.Nick[0])) || strings.ContainsAny(o.Nick, "!@.:") {
		return fmt.Errorf("invalid nick %q: it must begin with a letter and contain no dot, colon, ! or @", o.Nick)
	}
	if o.Account != "" {
		if err := checkWord("account", o.Account); err != nil {
			return err
		}
	}
	if strings.ContainsAny(o.Name, "\r\n\x00") {
		return fmt.Errorf("invalid real name %q: it must be one line", o.Name)
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
		return fmt.Errorf("missing %s", what)
	}
	if len(s) > 64 || strings.ContainsAny(s, " ,\r\n\x00") || !utf8.ValidString(s) {
		return fmt.Errorf("invalid %s %q: use one word of at most 64 characters without commas", what, s)
	}
	return nil
}

func checkChannel(entry string) error {
	name, key, _ := strings.Cut(entry, " ")
	if len(name) < 2 || len(entry) > 100 || !strings.ContainsRune(defaultChannelPrefixes, rune(name[0])) ||
		strings.ContainsAny(name, ",\a\r\n\x00") || strings.ContainsAny(key, " ,:\r\n\x00") {
		return fmt.Errorf(`invalid channel %q: use "#name", or "#name key" if it has a key`, entry)
	}
	return nil
}

// defaultChannelPrefixes begin channel names if the server does not announce CHANTYPES.
const defaultChannelPrefixes = "#&+!"

// hostPort returns the server's address and its host.
func (o Options) hostPort() (addr, host string, err error) {
	host, port, err := net.SplitHostPort(o.Server)
	if err != nil {
		host, port = strings.Trim(o.Server, "[]"), "6697"
		if o.Plain {
			port = "6667"
		}
	}
	if _, wrong := strconv.ParseUint(port, 10, 16); wrong != nil || host == "" ||
		strings.ContainsAny(host, "/ @?#\r\n\x00") {
		return "", "", fmt.Errorf(`invalid server %q: use a host name with an optional port, such as "irc.example.org:6697"`,
			o.Server)
	}
	return net.JoinHostPort(host, port), host, nil
}

// readSecrets returns the passwords. It refuses to send them over a network without TLS.
func (o Options) readSecrets(host string) (s Secrets, err error) {
	if o.Secrets != nil {
		if s, err = o.Secrets(); err != nil {
			return s, err
		}
	}
	if strings.ContainsAny(s.Server, "\r\n\x00") || strings.ContainsAny(s.Account, "\r\n\x00") {
		return s, errors.New("invalid password: it must be one line")
	}
	if o.Account != "" && s.Account == "" {
		return s, fmt.Errorf("missing password for account %s", o.Account)
	}
	if o.Plain && s != (Secrets{}) && !isLoopback(host) {
		return s, fmt.Errorf("refusing to send the password to %s without TLS: remove tls = false", host)
	}
	return s, nil
}

// isLoopback reports whether a host is the local machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Dial connects and registers. It implements [chat.Dialer].
func (o Options) Dial(ctx context.Context, l *channel.Host) (chat.Platform, chat.Capabilities, error) {
	c, err := o.dial(ctx, l)
	if err != nil {
		return nil, chat.Capabilities{}, err
	}
	return c, c.capabilities(), nil
}

// dial implements Dial. Tests call it with another implementation of host.
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

// probe connects, registers and disconnects, without joining a channel. It returns the bot's nick.
func probe(ctx context.Context, o Options) (nick string, err error) {
	o.Join = nil
	ctx, cancel := context.WithTimeout(ctx, DefaultFresh)
	defer cancel()
	c, err := o.dial(ctx, discardHost{})
	if err != nil {
		return "", err
	}
	return c.capabilities().BotName, c.Close()
}

// discardHost is a host that ignores every report.
type discardHost struct{}

func (discardHost) Received()                       {}
func (discardHost) ReportError(error)               {}
func (discardHost) ReportProgress(channel.Progress) {}
func (discardHost) Log() *slog.Logger               { return slog.New(slog.DiscardHandler) }

// capabilities are the same for every connection.
func capabilities() chat.Capabilities {
	return chat.Capabilities{Platform: Kind, Units: func(s string) int {
		return len(s)
	}, SingleLine: true, CommandPrefix: "!"}
}

// capabilities returns the capabilities of the connection in its current state.
func (c *connection) capabilities() chat.Capabilities {
	t := capabilities()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Directory = c.options.Server
	t.BotID, t.BotName = fold(c.options.Nick, c.server.caseMapping), c.self.nick
	t.MaxUnits, t.RoomInterval = c.maxText(c.server.longestTarget()), c.options.Gap
	return t
}
