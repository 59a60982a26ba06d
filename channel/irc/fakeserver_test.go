package irc_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
	"mailroom/channel/irc/irctest"
	"mailroom/internal/machinetest"
)

// fakeServer has what ngircd lacks: capabilities, accounts and echoes. It answers each line by a
// rule.
type fakeServer struct {
	addr string // the same after each start
	rule func(line string) []string
	all  sync.WaitGroup

	// Owned by mu.
	mu       sync.Mutex
	listener net.Listener
	lines    []string // sent by the client
	conn     net.Conn // the newest connection
}

// startFakeServer starts a server. rule returns the replies to a line; nil selects the default
// replies, and the reply "" closes the connection.
func startFakeServer(t *testing.T, rule func(line string) []string) *fakeServer {
	t.Helper()
	m := &fakeServer{addr: machinetest.Reserve(t), rule: rule}
	m.up(t)
	t.Cleanup(func() {
		m.down()
		m.all.Wait()
	})
	return m
}

// up accepts connections until down.
func (m *fakeServer) up(t *testing.T) {
	t.Helper()
	l := machinetest.Listen(t, m.addr)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listener = l
	m.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed by down
			}
			m.mu.Lock()
			m.conn = c
			m.mu.Unlock()
			m.all.Go(func() { m.serveConn(c, m.rule) })
		}
	})
}

// down refuses new connections and closes the newest one.
func (m *fakeServer) down() {
	m.mu.Lock()
	_ = m.listener.Close() // a second close has no effect
	m.mu.Unlock()
	m.disconnect()
}

func (m *fakeServer) serveConn(c net.Conn, rule func(line string) []string) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		line := lines.Text()
		m.mu.Lock()
		m.lines = append(m.lines, line)
		m.mu.Unlock()
		answers := rule(line)
		if answers == nil {
			answers = defaultReply(line)
		}
		for _, a := range answers {
			if a == "" {
				return
			}
			if _, err := c.Write([]byte(a + "\r\n")); err != nil {
				return
			}
		}
	}
}

// defaultReply returns the usual replies to a line.
func defaultReply(line string) []string {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "CAP":
		switch {
		case strings.HasPrefix(rest, "LS"):
			return []string{":s CAP * LS :sasl=PLAIN message-tags server-time echo-message account-tag"}
		case strings.HasPrefix(rest, "REQ"):
			return []string{":s CAP * ACK :" + strings.TrimPrefix(rest, "REQ :")}
		}
		return []string{":s 001 bot :Welcome", ":s 005 bot CASEMAPPING=ascii :are supported", ":s 376 bot :End of MOTD"}
	case "AUTHENTICATE":
		if rest == "PLAIN" {
			return []string{"AUTHENTICATE +"}
		}
		return []string{":s 903 bot :SASL successful"}
	case "USERHOST":
		return []string{":s 302 bot :bot=+bot@cloak"}
	case "PING":
		return []string{":s PONG s " + rest}
	}
	return nil
}

// send sends a line to the client.
func (m *fakeServer) send(t *testing.T, line string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.conn.Write([]byte(line + "\r\n")); err != nil {
		t.Error(err)
	}
}

// disconnect closes the current connection.
func (m *fakeServer) disconnect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.conn.Close()
	}
}

func (m *fakeServer) received() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

const alice = "@account=alice;msgid=m1 :al!~al@home PRIVMSG bot :hello"

func TestAnEchoIsAReceiptAndNoMessage(t *testing.T) {
	m := startFakeServer(t, func(line string) []string {
		if strings.HasPrefix(line, "PRIVMSG ") {
			return []string{"@msgid=e7 :bot!bot@cloak " + line}
		}
		return nil
	})
	o := testOptions(m.addr)
	o.Account, o.Secrets = "bot", func() (irc.Secrets, error) { return irc.Secrets{Account: "pw"}, nil }
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	m.send(t, alice)
	e := b.AwaitEvent(1)
	if e.User.ID != "alice" || e.Key != "msgid:m1" {
		t.Errorf("the event is %+v", e)
	}
	id, err := b.Connection().Send(t.Context(), e.Room, chat.Message{Text: "hello yourself"}, "key")
	if err != nil || id != "e7" {
		t.Errorf("Send() = %q, %v", id, err)
	}
	if !slices.Contains(m.received(), "PRIVMSG al :hello yourself") || len(b.Recorded()) != 1 {
		t.Errorf("the server received %q, the bot %+v", m.received(), b.Recorded())
	}
	if n := slices.Index(m.received(), "AUTHENTICATE Ym90AGJvdABwdw=="); n < 0 {
		t.Errorf("no SASL login: %q", m.received())
	}
}

// TestAnAccountIsAnsweredAtItsNick checks that a nick belongs to an account only if the server says
// so.
func TestAnAccountIsAnsweredAtItsNick(t *testing.T) {
	whois := []string{":s 311 bot alice ~al home * :Al", ":s 330 bot alice alice :is logged in as",
		":s 318 bot alice :End"}
	var mu sync.Mutex
	m := startFakeServer(t, func(line string) []string {
		if !strings.HasPrefix(line, "WHOIS ") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return whois
	})
	b := start(t, testOptions(m.addr))
	b.AwaitCondition(channel.ConditionConnected)
	room := chat.Room{Chat: "alice"}
	if _, err := b.Connection().Send(t.Context(), room, chat.Message{Text: "one"}, "key"); err != nil {
		t.Error(err)
	}
	other := startFakeServer(t, func(line string) []string {
		if strings.HasPrefix(line, "WHOIS ") {
			return []string{":s 311 bot alice ~mal elsewhere * :Mal", ":s 318 bot alice :End"}
		}
		return nil
	})
	b = start(t, testOptions(other.addr))
	b.AwaitCondition(channel.ConditionConnected)
	_, err := b.Connection().Send(t.Context(), room, chat.Message{Text: "two"}, "key")
	if f := mailroom.AsFailure(err); err == nil || f.Class != mailroom.ClassUnavailable || f.RetryAfter == 0 {
		t.Errorf("a nick without the account: %v", err)
	}
	other.send(t, alice)
	b.AwaitEvent(1)
	if _, err := b.Connection().Send(t.Context(), room, chat.Message{Text: "three"}, "key"); err != nil {
		t.Error(err)
	}
	if !slices.Contains(m.received(), "PRIVMSG alice :one") || !slices.Contains(other.received(), "PRIVMSG al :three") ||
		slices.Contains(other.received(), "PRIVMSG alice :two") {
		t.Errorf("the servers received %q and %q", m.received(), other.received())
	}
}

// TestALineWithoutReceiptHasAnUnknownOutcome checks that it counts neither as sent nor as failed.
func TestALineWithoutReceiptHasAnUnknownOutcome(t *testing.T) {
	for name, answer := range map[string]string{"the connection ends": "", "the server is silent": ":s NOTICE bot :busy"} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 9)
			m := startFakeServer(t, func(line string) []string {
				if strings.HasPrefix(line, "PRIVMSG ") {
					sent <- struct{}{}
					return []string{answer}
				}
				if strings.HasPrefix(line, "PING :q") {
					return []string{} // no receipt
				}
				return nil
			})
			o := testOptions(m.addr)
			o.Fresh = 500 * time.Millisecond
			b := start(t, o)
			b.AwaitCondition(channel.ConditionConnected)
			m.send(t, alice)
			to := b.AwaitEvent(1).Room
			_, err := b.Connection().Send(t.Context(), to, chat.Message{Text: "x"}, "key")
			if !errors.Is(err, mailroom.ErrUnknown) || len(sent) != 1 {
				t.Errorf("%d sent, %v", len(sent), err)
			}
			if strings.Contains(err.Error(), "pw") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

// TestAPingIsAnswered also covers a PING during the login.
func TestAPingIsAnswered(t *testing.T) {
	m := startFakeServer(t, func(line string) []string {
		if strings.HasPrefix(line, "NICK ") {
			return []string{"PING :first"}
		}
		return nil
	})
	b := start(t, testOptions(m.addr))
	b.AwaitCondition(channel.ConditionConnected)
	m.send(t, "PING :are you there")
	b.AwaitState("both are answered", func(channel.State) bool {
		return slices.Contains(m.received(), "PONG :first") && slices.Contains(m.received(), "PONG :are you there")
	})
}

// TestAHandlerMaySend covers replies sent while an event is handled, such as those to strangers.
func TestAHandlerMaySend(t *testing.T) {
	m := startFakeServer(t, func(string) []string { return nil })
	b := newRecorder(t, testOptions(m.addr))
	b.FailWith(func(e chat.Event) error {
		_, err := b.Connection().Send(t.Context(), e.Room, chat.Message{Text: "one\ntwo"}, "key")
		return err
	})
	b.Start().AwaitConnected()
	m.send(t, alice)
	m.send(t, alice)
	if b.AwaitEvent(2); b.State().Adapter != 1 {
		t.Errorf("the state is %+v", b.State())
	}
	said := slices.DeleteFunc(m.received(), func(line string) bool { return !strings.HasPrefix(line, "PRIVMSG ") })
	if want := []string{"PRIVMSG al :one", "PRIVMSG al :two"}; !slices.Equal(said, append(want, want...)) {
		t.Errorf("sent %q", said)
	}
}

// TestAWaitForTheServerEndsAndReleasesTheSlot checks that a waiting delivery does not block others.
func TestAWaitForTheServerEndsAndReleasesTheSlot(t *testing.T) {
	got := make(chan struct{}, 1)
	m := startFakeServer(t, func(line string) []string {
		if strings.HasPrefix(line, "PRIVMSG ") {
			got <- struct{}{}
		}
		if strings.HasPrefix(line, "PING :q") {
			return []string{}
		}
		return nil
	})
	o := testOptions(m.addr)
	o.Fresh = time.Minute
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	m.send(t, alice)
	to := b.AwaitEvent(1).Room
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := b.Connection().Send(ctx, to, chat.Message{Text: "x"}, "key"); !errors.Is(err, mailroom.ErrUnknown) {
			t.Errorf("first delivery: %v", err)
		}
	})
	<-got
	_, err := b.Connection().Send(t.Context(), to, chat.Message{Text: "y"}, "key")
	if f := mailroom.AsFailure(err); err == nil || f.Class != mailroom.ClassUnavailable || f.RetryAfter == 0 {
		t.Errorf("second delivery: %v", err)
	}
	cancel()
	first.Wait()
}

// TestTLSConnectionsVerifyTheServer connects only with a trusted certificate.
func TestTLSConnectionsVerifyTheServer(t *testing.T) {
	web := httptest.NewTLSServer(nil) // provides a certificate
	defer web.Close()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: web.Certificate().Raw}, "key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tlsPort := machinetest.Reserve(t)
	_, port, err := net.SplitHostPort(tlsPort)
	if err != nil {
		t.Fatal(err)
	}
	irctest.Start(t, "[SSL]", "CertFile = "+filepath.Join(dir, "cert"), "KeyFile = "+filepath.Join(dir, "key"),
		"Ports = "+port).WaitListening(tlsPort)
	o := testOptions(tlsPort)
	o.Plain = false
	if state := start(t, o).AwaitCondition(channel.ConditionQueued); !strings.Contains(state.Reason, "certificate") {
		t.Errorf("state with an untrusted certificate: %+v", state)
	}
	trust := x509.NewCertPool()
	trust.AddCert(web.Certificate())
	o.TLS = &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
	start(t, o).AwaitCondition(channel.ConditionConnected)
}
