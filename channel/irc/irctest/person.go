package irctest

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// Person is an IRC user. Its client shares no code with the adapter.
type Person struct {
	t     testing.TB
	Nick  string
	conn  net.Conn
	state *platformtest.State

	// Owned by mu.
	mu    sync.Mutex
	lines []string // received lines
	next  int      // index of the first line that no Wait has returned
}

// WaitTimeout bounds the start of a server.
const WaitTimeout = 2 * time.Minute

// Connect connects a user and waits for the end of the login. It then sends the further lines.
func Connect(t testing.TB, addr, nick string, further ...string) *Person {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &Person{t: t, Nick: nick, conn: conn}
	p.state = platformtest.NewState(&p.mu, func() string { return fmt.Sprintf("%q", p.Lines()) })
	reading := make(chan struct{})
	go p.read(reading)
	t.Cleanup(func() {
		conn.Close()
		<-reading
	})
	p.Line("NICK " + nick)
	p.Line("USER " + nick + " 0 * :" + nick)
	p.Wait(" 001 ")
	for _, l := range further {
		p.Line(l)
	}
	return p
}

func (p *Person) read(done chan<- struct{}) {
	defer close(done)
	lines := bufio.NewScanner(p.conn)
	for lines.Scan() {
		line := lines.Text()
		if text, ping := strings.CutPrefix(line, "PING "); ping {
			if _, err := p.conn.Write([]byte("PONG " + text + "\r\n")); err != nil {
				return
			}
		}
		p.state.Update(func() { p.lines = append(p.lines, line) })
	}
}

// Line sends a raw line.
func (p *Person) Line(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\r\n")); err != nil {
		p.t.Errorf("%s: %v", p.Nick, err)
	}
}

// Say sends a message to a nick or a channel.
func (p *Person) Say(to, text string) {
	p.t.Helper()
	p.Line("PRIVMSG " + to + " :" + text)
}

// Wait returns the next line that contains words and skips the lines before it.
func (p *Person) Wait(words string) (line string) {
	p.t.Helper()
	p.state.WaitFor(p.t, fmt.Sprintf("%s to receive %q", p.Nick, words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.IndexFunc(p.lines[p.next:], func(line string) bool { return strings.Contains(line, words) })
		if i >= 0 {
			line = p.lines[p.next+i]
			p.next += i + 1
		}
		return i >= 0
	})
	return line
}

// WaitMessage waits for a message of a nick that contains words, and returns its text.
func (p *Person) WaitMessage(from, words string) string {
	p.t.Helper()
	for {
		line := p.Wait(words)
		if source, rest, _ := strings.Cut(line, " PRIVMSG "); strings.HasPrefix(source, ":"+from+"!") {
			_, text, _ := strings.Cut(rest, " :")
			return text
		}
	}
}

// Lines returns all received lines.
func (p *Person) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Messages returns the texts of all messages received from a nick.
func (p *Person) Messages(from string) (texts []string) {
	for _, line := range p.Lines() {
		if source, rest, found := strings.Cut(line, " PRIVMSG "); found && strings.HasPrefix(source, ":"+from+"!") {
			_, text, _ := strings.Cut(rest, " :")
			texts = append(texts, text)
		}
	}
	return texts
}

// Sync waits until the server has processed everything this person has sent.
func (p *Person) Sync() {
	p.t.Helper()
	p.Line("PING :sync-" + p.Nick)
	p.Wait("sync-" + p.Nick)
}

// Disconnect closes the connection without QUIT.
func (p *Person) Disconnect() {
	if err := p.conn.Close(); err != nil {
		p.t.Error(err)
	}
}
