package irctest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Person is somebody who talks on IRC, with a client that shares nothing with ours.
type Person struct {
	t    testing.TB
	Nick string
	conn net.Conn

	// Owned by mu.
	mu    sync.Mutex
	lines []string // that arrived
	next  int      // the first that no Wait has returned
	more  chan struct{}
}

// WaitTimeout is how long a Wait waits for what should be there.
const WaitTimeout = 20 * time.Second

// Connect connects, and returns when the server has let it in. The further lines are
// said after that.
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

// Line sends a line as it is.
func (p *Person) Line(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\r\n")); err != nil {
		p.t.Errorf("%s: %v", p.Nick, err)
	}
}

// Say says something to somebody, or in a channel.
func (p *Person) Say(to, text string) {
	p.t.Helper()
	p.Line("PRIVMSG " + to + " :" + text)
}

// Wait returns the next line with some words in it, and passes over those before.
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
			p.t.Fatalf("%s waits for %q in vain; got %q", p.Nick, words, p.Lines())
		}
	}
}

// WaitMessage waits for something that somebody says, and returns what was said.
func (p *Person) WaitMessage(from, words string) string {
	p.t.Helper()
	for {
		line := p.Wait(words)
		if who, said, _ := strings.Cut(line, " PRIVMSG "); strings.HasPrefix(who, ":"+from+"!") {
			_, text, _ := strings.Cut(said, " :")
			return text
		}
	}
}

// Lines are all that arrived.
func (p *Person) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Messages are the texts that somebody has said so far.
func (p *Person) Messages(from string) (texts []string) {
	for _, line := range p.Lines() {
		if who, said, found := strings.Cut(line, " PRIVMSG "); found && strings.HasPrefix(who, ":"+from+"!") {
			_, text, _ := strings.Cut(said, " :")
			texts = append(texts, text)
		}
	}
	return texts
}

// Sync returns when the server has passed on what this person said before.
func (p *Person) Sync() {
	p.t.Helper()
	p.Line("PING :sync-" + p.Nick)
	p.Wait("sync-" + p.Nick)
}

// Disconnect goes without a word.
func (p *Person) Disconnect() {
	if err := p.conn.Close(); err != nil {
		p.t.Error(err)
	}
}
