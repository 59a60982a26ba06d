package irctest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Person is an IRC user. Its client shares no code with the adapter.
type Person struct {
	t    testing.TB
	Nick string
	conn net.Conn

	// Owned by mu.
	mu    sync.Mutex
	lines []string // received lines
	next  int      // index of the first line that no Wait has returned
	more  chan struct{}
}

// WaitTimeout bounds every Wait.
const WaitTimeout = 20 * time.Second

// Connect connects a user and waits for the end of the login. It then sends the further lines.
func Connect(t testing.TB, addr, nick string, further ...string) *Person {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &Person{t: t, Nick: nick, conn: conn, more: make(chan struct{})}
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
		p.mu.Lock()
		p.lines = append(p.lines, line)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
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
func (p *Person) Wait(words string) string {
	p.t.Helper()
	late := time.After(WaitTimeout)
	for {
		p.mu.Lock()
		more := p.more
		for i := p.next; i < len(p.lines); i++ {
			if strings.Contains(p.lines[i], words) {
				p.next = i + 1
				line := p.lines[i]
				p.mu.Unlock()
				return line
			}
		}
		p.mu.Unlock()
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("%s did not receive %q in time; got %q", p.Nick, words, p.Lines())
		}
	}
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
