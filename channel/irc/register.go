package irc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/internal/recovery"
)

// wantedCaps returns the capabilities to request if offered: message ids, message times, echoes of
// own messages, account names, and marks of what is played back.
func wantedCaps() []string {
	return []string{"message-tags", "server-time", "echo-message", "account-tag", "batch"}
}

// serverInfo describes the server's parameters.
type serverInfo struct {
	caseMapping     string // rule for comparing names
	channelPrefixes string // first characters of channel names
	channelLen      int
	nickLen         int
	caps            []string // granted capabilities
}

func (a *serverInfo) hasCap(capability string) bool { return slices.Contains(a.caps, capability) }

// longestTarget returns the length of the longest possible message target.
func (a *serverInfo) longestTarget() int { return min(max(a.channelLen, a.nickLen), 100) }

// parseISupport reads the tokens of an ISUPPORT line (005).
func (a *serverInfo) parseISupport(words []string) {
	number := func(p *int, s string) {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			*p = n
		}
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "CASEMAPPING":
			a.caseMapping = value
		case "CHANTYPES":
			a.channelPrefixes = value
		case "CHANNELLEN":
			number(&a.channelLen, value)
		case "NICKLEN":
			number(&a.nickLen, value)
		}
	}
}

// self is the bot's identity as other clients see it. It is the source of the lines that the server
// relays.
type self struct {
	nick, user, host string
}

// registration is the state machine of the login. It does no I/O.
type registration struct {
	options Options
	secrets Secrets

	server        serverInfo
	self          self
	alternatives  []string // nicks to try next
	pendingCaps   int      // requested capabilities without a reply
	authenticated bool     // SASL succeeded
	offersSASL    bool     // the server offers SASL PLAIN
	done          bool
}

func newRegistration(o Options, s Secrets) *registration {
	return &registration{
		options: o, secrets: s, alternatives: alternativeNicks(o.Nick), self: self{nick: o.Nick},
		server: serverInfo{caseMapping: "rfc1459", channelPrefixes: defaultChannelPrefixes, channelLen: 50, nickLen: 30},
	}
}

// alternativeNicks returns nicks similar to a taken one. All but the first two are no longer than
// it.
func alternativeNicks(nick string) []string {
	short := nick
	if len(nick) > 1 {
		short = nick[:len(nick)-1]
	}
	return []string{nick + "_", nick + "__", short + "_", short + "1", short + "2", short + "3"}
}

// firstLines returns the lines that start the registration.
func (r *registration) firstLines() (lines []string) {
	lines = append(lines, "CAP LS 302")
	if r.secrets.Server != "" {
		lines = append(lines, "PASS :"+r.secrets.Server)
	}
	return append(lines, "NICK "+r.self.nick, "USER "+userName(r.options.Nick)+" 0 * :"+r.options.Name)
}

// userName derives a user name from the nick: letters and digits only.
func userName(nick string) string {
	user := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, nick)
	if user == "" {
		return "bot"
	}
	return user[:min(len(user), 9)]
}

// handle processes one message. It returns the lines to send, or the reason why the login failed.
func (r *registration) handle(m *message) (lines []string, err error) {
	switch m.Command {
	case "PING":
		return []string{"PONG :" + m.trailing()}, nil
	case "ERROR":
		return nil, closeError(m)
	case "CAP":
		return r.handleCap(m)
	case "AUTHENTICATE":
		if m.param(0) != "+" {
			return nil, channel.Fatal(errors.New("the server requires a SASL mechanism other than PLAIN"))
		}
		return saslPlain(r.options.Account, r.secrets.Account), nil
	case "903": // SASL succeeded
		r.authenticated = true
		return []string{"CAP END"}, nil
	case "001":
		if r.options.Account != "" && !r.authenticated {
			return nil, fmt.Errorf("the server logged the bot in without its account %s", r.options.Account)
		}
		r.self.nick = m.param(0)
	case "005":
		if len(m.Params) > 2 {
			r.server.parseISupport(m.Params[1 : len(m.Params)-1])
		}
	case "376", "422": // end of the message of the day, or none
		return []string{"USERHOST " + r.self.nick}, nil
	case "302":
		r.self.user, r.self.host = parseUserHost(m.trailing())
		r.done = true
	case "433", "436", "437", "432":
		return r.handleNickRefused(m)
	case "421":
		return r.handleUnknownCommand(m)
	}
	return nil, loginError(m)
}

// handleCap processes a CAP reply. It requests each capability in a line of its own, because a
// server grants or refuses a line as a whole.
func (r *registration) handleCap(m *message) (lines []string, err error) {
	offered := strings.Fields(m.trailing())
	switch m.param(1) {
	case "LS":
		for _, o := range offered {
			name, how, limited := strings.Cut(o, "=")
			if name == "sasl" && (!limited || slices.Contains(strings.Split(how, ","), "PLAIN")) {
				r.offersSASL = true
			}
			if slices.Contains(wantedCaps(), name) {
				lines = append(lines, "CAP REQ :"+name)
			}
		}
		r.pendingCaps += len(lines)
		if m.param(2) == "*" && len(m.Params) > 3 {
			return lines, nil // more lines follow
		}
		if r.options.Account != "" {
			if !r.offersSASL {
				return nil, fmt.Errorf("the server currently offers no SASL PLAIN, which the account %s requires",
					r.options.Account)
			}
			lines, r.pendingCaps = append(lines, "CAP REQ :sasl"), r.pendingCaps+1
		}
		if r.pendingCaps == 0 {
			lines = append(lines, "CAP END")
		}
		return lines, nil
	case "ACK":
		r.server.caps = append(r.server.caps, offered...)
		r.pendingCaps--
		if slices.Contains(offered, "sasl") {
			return []string{"AUTHENTICATE PLAIN"}, nil // its reply ends the negotiation
		}
	case "NAK":
		r.pendingCaps--
		if slices.Contains(offered, "sasl") {
			return nil, fmt.Errorf("the server refused SASL for account %s", r.options.Account)
		}
	default:
		return nil, nil
	}
	if r.pendingCaps == 0 && r.options.Account == "" {
		return []string{"CAP END"}, nil
	}
	return nil, nil
}

// saslPlain returns the SASL PLAIN response in chunks of 400 bytes.
func saslPlain(account, password string) (lines []string) {
	text := base64.StdEncoding.EncodeToString([]byte(account + "\x00" + account + "\x00" + password))
	for len(text) >= 400 {
		lines, text = append(lines, "AUTHENTICATE "+text[:400]), text[400:]
	}
	if text == "" {
		text = "+"
	}
	return append(lines, "AUTHENTICATE "+text)
}

// handleNickRefused tries the next nick. It gives up if the server refuses the configured nick for
// good.
func (r *registration) handleNickRefused(m *message) (lines []string, err error) {
	if m.Command == "432" && r.self.nick == r.options.Nick {
		return nil, channel.Fatal(fmt.Errorf("the server rejected the nick %s: %s", r.options.Nick, reasonText(m)))
	}
	if len(r.alternatives) == 0 {
		return nil, fmt.Errorf("the nick %s and its alternatives are taken", r.options.Nick)
	}
	r.self.nick, r.alternatives = r.alternatives[0], r.alternatives[1:]
	return []string{"NICK " + r.self.nick}, nil
}

// handleUnknownCommand processes the reply that the server does not know a command.
func (r *registration) handleUnknownCommand(m *message) (lines []string, err error) {
	switch m.param(1) {
	case "CAP", "AUTHENTICATE":
		if r.options.Account != "" {
			return nil, channel.Fatal(fmt.Errorf("the server has no SASL: remove the account %s", r.options.Account))
		}
	case "USERHOST":
		r.done = true
	}
	return nil, nil
}

// loginError returns the error that a reply reports about the login, or nil.
func loginError(m *message) error {
	switch m.Command {
	case "464":
		return channel.Fatal(fmt.Errorf("the server rejected its password: %s", reasonText(m)))
	case "465":
		return channel.Fatal(fmt.Errorf("the bot is banned from the server: %s", reasonText(m)))
	case "463":
		return channel.Fatal(fmt.Errorf("the server accepts no connections from this host: %s", reasonText(m)))
	case "902", "904", "905", "906", "908":
		return channel.Fatal(fmt.Errorf("the server rejected the account or its password: %s", reasonText(m)))
	}
	return nil
}

// closeError returns the error of a connection closed before the login. Some servers report the
// cause as text only.
func closeError(m *message) error {
	text := strings.ToLower(m.trailing())
	switch {
	case strings.Contains(text, "bad password"), strings.Contains(text, "password mismatch"),
		strings.Contains(text, "invalid password"):
		return channel.Fatal(fmt.Errorf("the server rejected its password: %s", reasonText(m)))
	case strings.Contains(text, "k-line"), strings.Contains(text, "g-line"), strings.Contains(text, "klined"),
		strings.Contains(text, "glined"):
		return channel.Fatal(fmt.Errorf("the bot is banned from the server: %s", reasonText(m)))
	}
	return fmt.Errorf("the server closed the connection: %s", reasonText(m))
}

// reasonText returns the human-readable text of a message.
func reasonText(m *message) string {
	s := plainText(m.trailing())
	if s == "" {
		s = "no reason given"
	}
	const most = 200
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return s
}

// parseUserHost parses a reply to USERHOST: nick=+user@host.
func parseUserHost(answer string) (user, host string) {
	_, at, _ := strings.Cut(strings.TrimSpace(answer), "=")
	user, host, _ = strings.Cut(strings.TrimLeft(at, "+-"), "@")
	return user, host
}

// register performs the login and joins the channels.
func (c *connection) register(ctx context.Context, s Secrets) error {
	stop := context.AfterFunc(ctx, func() {
		defer recovery.Log(c.host.Log(), "irc registration shutdown")
		_ = c.wire.conn.SetDeadline(time.Unix(1, 0)) // fails only on a closed connection, which ends reading too
	})
	defer stop()
	r := newRegistration(c.options, s)
	if err := c.wire.write(r.firstLines()...); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	for !r.done {
		m, err := c.wire.read()
		if err != nil {
			return fmt.Errorf("register: %w", err)
		}
		lines, err := r.handle(m)
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			if err := c.wire.write(lines...); err != nil {
				return fmt.Errorf("register: %w", err)
			}
		}
	}
	c.applyRegistration(r)
	return c.joinChannels(time.Now())
}
