package mail_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/mail"
	"mailroom/internal/netguard"
)

// peer speaks SMTP badly, as its test needs. It serves one connection at a time.
type peer struct {
	addr string

	mu    sync.Mutex
	conns int
	lines []string // the commands that it read
}

// reply answers a command; "" closes the connection. The command "" is the greeting, and "." is the end of a
// message.
type reply func(command string) string

// ordinary answers as a server without extensions that takes all messages.
func ordinary(command string) string {
	switch verb, _, _ := strings.Cut(command, " "); verb {
	case "":
		return "220 peer ready\r\n"
	case "DATA":
		return "354 go ahead\r\n"
	case "QUIT":
		return "221 bye\r\n"
	}
	return "250 fine\r\n"
}

// replace answers a verb with a text, and other commands as ordinary does.
func replace(verb, text string) reply {
	return func(command string) string {
		if got, _, _ := strings.Cut(command, " "); got == verb {
			return text
		}
		return ordinary(command)
	}
}

func startPeer(t *testing.T, answer reply) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, served := &peer{addr: l.Addr().String()}, make(chan struct{})
	go func() { // ends with the listener
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(c, answer)
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return p
}

func (p *peer) serve(c net.Conn, answer reply) {
	defer c.Close()
	p.mu.Lock()
	p.conns++
	p.mu.Unlock()
	in, inMessage := bufio.NewScanner(c), false
	for command := ""; ; command = in.Text() {
		if !inMessage || command == "." {
			p.mu.Lock()
			p.lines = append(p.lines, command)
			p.mu.Unlock()
			text := answer(command)
			if text == "" {
				return
			}
			if _, err := c.Write([]byte(text)); err != nil {
				return
			}
			inMessage = strings.HasPrefix(text, "354")
		}
		if !in.Scan() {
			return
		}
	}
}

// commands returns how often the peer was connected to, and the commands that it read, by their verbs except
// for EHLO.
func (p *peer) commands() (conns int, all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if verb, _, _ := strings.Cut(line, " "); verb != "" && verb != "EHLO" {
			all = append(all, verb)
		} else if verb != "" {
			all = append(all, line)
		}
	}
	return p.conns, all
}

func (p *peer) options() mail.Options {
	return mail.Options{Server: p.addr, TLS: mail.TLSNone, Policy: loopback(), From: "a@example.org",
		To: []string{"b@example.org"}}
}

func TestEachReplyOfAMailServerHasItsClass(t *testing.T) {
	const permanent, outage = mailroom.ClassPermanent, mailroom.ClassUnavailable
	for _, c := range []struct {
		name    string
		answer  reply
		class   mailroom.Class // "" is success
		unknown bool
		want    string
	}{
		{"taken", ordinary, "", false, "fine"},
		{"cut after the message", replace(".", ""), outage, true, "send the message"},
		{"cut after DATA", replace("DATA", ""), outage, false, "announce the message"},
		{"cut at the recipient", replace("RCPT", ""), outage, false, "recipient <b@example.org>"},
		{"cut at the greeting", replace("", ""), outage, false, "connect"},
		{"not SMTP after the message", replace(".", "HTTP/1.1 200 OK\r\n"), outage, true, "send the message"},
		{"another success after the message", replace(".", "251 moved\r\n"), outage, true, "251 moved"},
		{"the message, later", replace(".", "451 greylisted\r\n"), outage, false, "451 greylisted"},
		{"closing after the message", replace(".", "421 closing\r\n"), outage, false, "421 closing"},
		{"the message, never", replace(".", "554 no\r\n"), permanent, false, "554 no"},
		{"DATA, later", replace("DATA", "452 full\r\n"), outage, false, "452 full"},
		{"DATA, never", replace("DATA", "554 no\r\n"), permanent, false, "554 no"},
		{"the recipient, never", replace("RCPT", "553 no\r\n"), permanent, false, "553 no"},
		{"the recipient, closing", replace("RCPT", "421 closing\r\n"), outage, false, "421 closing"},
		{"the recipient, signed in", replace("RCPT", "530 sign in first\r\n"), outage, false, "530 sign in first"},
		{"the sender, signed in", replace("MAIL", "530 sign in first\r\n"), outage, false, "530 sign in first"},
		{"the sender, never", replace("MAIL", "553 not yours\r\n"), outage, false, "sender <a@example.org>: 127.0.0.1 answered 553 not yours"},
		{"the greeting, never", replace("", "554 blocked\r\n"), outage, false, "554 blocked"},
		{"not SMTP", replace("", "HTTP/1.1 400 Bad Request\r\n"), outage, false, "HTTP/1.1 400"},
		{"several lines", replace("RCPT", "550-first\r\n550 second\x1b[2J\r\n"), permanent, false, "550 first second⟦U+001B⟧[2J"},
		{"without an end", replace("", strings.Repeat("220-more\r\n", 64<<10)), outage, false, "sent more than 256 KiB"},
		{"one line without an end", replace("", strings.Repeat("2", 1<<20)), outage, false, "sent more than 256 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			receipt, err := send(t, startPeer(t, c.answer).options(), alert.Message{Key: key, Title: "x"})
			if c.class != "" {
				wantFailure(t, err, c.class, c.unknown, c.want)
			} else if err != nil || receipt != c.want {
				t.Errorf("receipt %q, error %v", receipt, err)
			}
			if len(errorText(err)) > 400 {
				t.Errorf("the error has %d bytes", len(errorText(err)))
			}
		})
	}
}

func TestAMessageIsSentOnceAndTheSessionEnds(t *testing.T) {
	p := startPeer(t, ordinary)
	if _, err := send(t, p.options(), alert.Message{Key: key, Title: "x",
		Body: ".\r\nRCPT TO:<evil@example.org>\r\n.\r\n"}); err != nil {
		t.Fatal(err)
	}
	conns, got := p.commands()
	if want := []string{"EHLO [127.0.0.1]", "MAIL", "RCPT", "DATA", ".", "QUIT"}; conns != 1 || !slices.Equal(got, want) {
		t.Errorf("%d connections, commands %q, want %q", conns, got, want)
	}
}

func TestNoPasswordIsSentWithoutTLS(t *testing.T) {
	p := startPeer(t, replace("EHLO", "250-peer\r\n250 AUTH PLAIN LOGIN\r\n")) // as if STARTTLS were removed on the way
	o := p.options()
	o.TLS, o.User, o.Password = mail.TLSRequired, "x", func() (string, error) { return "hush", nil }
	_, err := send(t, o, alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false, "does not offer STARTTLS")
	if _, got := p.commands(); !slices.Equal(got, []string{"EHLO [127.0.0.1]", "QUIT"}) {
		t.Errorf("commands %q, want none after EHLO but QUIT", got)
	}
}

func TestNoErrorQuotesThePassword(t *testing.T) {
	const user, password = "alerts", "hush-hush"
	plain := base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	echo := fmt.Sprintf("you sent %s, that is %s or %s", plain, password, encoded)
	for name, answers := range map[string]map[string]string{
		"refused":   {"AUTH": "535 " + echo + "\r\n"},
		"challenge": {"AUTH": "334 " + base64.StdEncoding.EncodeToString([]byte(echo)) + "\r\n", "*": "501 " + echo + "\r\n"},
		"not SMTP":  {"AUTH": echo + "\r\n"},
		"later":     {"AUTH": "235 welcome\r\n", "RCPT": "550 " + echo + "\r\n"},
		"receipt":   {"AUTH": "235 welcome\r\n", ".": "250 " + echo + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := startPeer(t, func(command string) string {
				verb, _, _ := strings.Cut(command, " ")
				if text, ok := answers[verb]; ok {
					return text
				}
				if verb == "EHLO" {
					return "250-peer\r\n250 AUTH PLAIN\r\n"
				}
				return ordinary(command)
			}).options()
			o.User, o.Password = user, func() (string, error) { return password, nil }
			receipt, err := send(t, o, alert.Message{Key: key, Title: "x"})
			text := receipt + errorText(err)
			for _, secret := range []string{password, encoded, plain} {
				if strings.Contains(text, secret) {
					t.Errorf("%q has the password as %q", text, secret)
				}
			}
			if text == "" {
				t.Error("neither a receipt nor an error")
			}
		})
	}
}

func TestASignInThatTheServerDoesNotOffer(t *testing.T) {
	for offer, want := range map[string]string{
		"250 peer\r\n":                        "does not offer to sign in on this connection",
		"250-peer\r\n250 AUTH CRAM-MD5 X\r\n": "the server offers the ways CRAM-MD5, X, and PLAIN or LOGIN is needed",
	} {
		o := startPeer(t, replace("EHLO", offer)).options()
		o.User, o.Password = "x", func() (string, error) { return "hush", nil }
		_, err := send(t, o, alert.Message{Key: key, Title: "x"})
		wantFailure(t, err, mailroom.ClassUnavailable, false, want)
	}
}

func TestASilentServerEndsWithTheContext(t *testing.T) {
	for _, verb := range []string{"", "EHLO", "DATA", "."} {
		ctx, cancel := context.WithCancel(t.Context())
		p := startPeer(t, func(command string) string {
			if got, _, _ := strings.Cut(command, " "); got == verb {
				cancel()
				<-ctx.Done()
				return "2" // an answer without an end
			}
			return ordinary(command)
		})
		target, err := mail.New(p.options())
		if err != nil {
			t.Fatal(err)
		}
		_, err = target.Send(ctx, alert.Message{Key: key, Title: "x"})
		wantFailure(t, err, mailroom.ClassUnavailable, verb == ".", "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("silent at %q: %v", verb, err)
		}
	}
}

func TestANameThatResolvesToAForbiddenAddressIsNotConnectedTo(t *testing.T) {
	p := startPeer(t, ordinary)
	o := p.options()
	o.Server = strings.Replace(p.addr, "127.0.0.1", "smtp.example.org", 1)
	o.Insecure, o.Policy = true, netguard.Policy{Resolver: resolver(t)}
	_, err := send(t, o, alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false,
		"127.0.0.1 is a loopback address; to use it, add it to the setting allow")
	if conns, _ := p.commands(); !errors.Is(err, netguard.ErrRefused) || conns != 0 {
		t.Errorf("%v, after %d connections", err, conns)
	}
	o.Policy.Allow = loopback().Allow
	if _, err := send(t, o, alert.Message{Key: key, Title: "x"}); err != nil {
		t.Error(err)
	}
}
