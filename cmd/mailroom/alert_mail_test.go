package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/mail"
	"os"
	"strings"
	"sync"
	"testing"

	"mailroom/alert/alerttest"
)

// mailPlace is a mailbox at a real mail server, behind a line that the test cuts.
func mailPlace(t *testing.T, h *fixture) place {
	password := h.dir.TargetSecret("phone", "password")
	h.must(os.WriteFile(password, []byte(alerttest.Password), 0o600))
	s := alerttest.Start(t, alerttest.Options{NoTLS: true})
	line := newMailLine(t, s.Addr)
	return place{
		config: fmt.Sprintf(
			"kind = \"email\"\nserver = %q\ntls = \"none\"\nuser = %q\npassword_file = %q\nfrom = \"alerts@%s\"\nto = [\"ops@%s\"]\nallow = [\"127.0.0.1\"]\n",
			line.addr, alerttest.User, password, alerttest.Domain, alerttest.Domain),
		fail: line.fail,
		seen: func() int {
			if line.holds() {
				return line.connections()
			}
			return len(s.Mail("ops"))
		},
		taken: func() (all []seenAlert) {
			for _, raw := range s.Mail("ops") {
				m, err := mail.ReadMessage(strings.NewReader(raw))
				if err != nil {
					t.Errorf("mail %q: %v", raw, err)
					continue
				}
				all = append(all, seenAlert{
					key: m.Header.Get("Message-Id"), repeated: strings.HasPrefix(m.Header.Get("Subject"), "(repeated) "),
					deny: pressOnPage(linkIn(raw)),
				})
			}
			return all
		},
	}
}

// linkIn returns the link of a mail, which a person opens before a press of Deny on its page.
func linkIn(raw string) string {
	text := strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "=\n", "") // soft line breaks of quoted-printable
	_, rest, _ := strings.Cut(text, "/decide#")
	link, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(link)
}

// mailLine is a line to a mail server, without TLS. It forwards nothing, or loses the answer to the end of a
// mail, if its fault says so.
type mailLine struct {
	addr string
	to   string

	mu    sync.Mutex
	fault alerttest.Fault
	made  int
	open  map[net.Conn]bool
}

func newMailLine(t *testing.T, to string) *mailLine {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &mailLine{addr: ln.Addr().String(), to: to, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close() // the test has ended
		l.mu.Lock()
		for c := range l.open {
			_ = c.Close() // as above
		}
		l.mu.Unlock()
		all.Wait()
	})
	return l
}

func (l *mailLine) fail(f alerttest.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

func (l *mailLine) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault == alerttest.HoldOpen
}

func (l *mailLine) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// keep registers a connection, to close it at the end.
func (l *mailLine) keep(c net.Conn) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
		_ = c.Close() // the other end may have closed it
	}
}

func (l *mailLine) serve(client net.Conn) {
	defer l.keep(client)()
	l.mu.Lock()
	l.made++
	fault := l.fault
	l.mu.Unlock()
	if fault == alerttest.HoldOpen {
		_, _ = io.Copy(io.Discard, client) // until the server is killed
		return
	}
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return // the client sees the end of its connection
	}
	var answers sync.WaitGroup
	defer answers.Wait()
	defer l.keep(server)()
	var mu sync.Mutex
	lost := false // the answers are
	answers.Go(func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := server.Read(buffer)
			mu.Lock()
			if n > 0 && !lost {
				_, _ = client.Write(buffer[:n]) // the client may be gone
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	buffer, tail := make([]byte, 32<<10), []byte{}
	for {
		n, err := client.Read(buffer)
		tail = append(tail, buffer[:n]...)
		if fault == alerttest.LoseAnswer && bytes.Contains(tail, []byte("\r\n.\r\n")) {
			mu.Lock()
			lost = true
			mu.Unlock()
		}
		tail = tail[max(0, len(tail)-8):]
		if _, wrote := server.Write(buffer[:n]); err != nil || wrote != nil {
			return
		}
	}
}
