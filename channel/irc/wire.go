package irc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

const (
	// maxLine is of one that is received: 8191 bytes of tags, and 512 in which
	// some servers are generous.
	maxLine = 16 << 10
	// maxSentLine is of one that is sent or passed on, its end included.
	maxSentLine = 512
	// writeMu is how long a line may take to be written, leaving the last one.
	writeTimeout = 10 * time.Second
	quitTimeout  = time.Second
)

// wire is the connection as lines.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader // owned by who reads: Connect, then Receive

	writeMu sync.Mutex // held while a line is written, so that each is whole

	closeOnce sync.Once
	closed    chan struct{} // closed by close
	closeErr  error         // of close
}

func newWire(c net.Conn) *wire {
	return &wire{conn: c, reader: bufio.NewReaderSize(c, maxLine), closed: make(chan struct{})}
}

// read returns the next message. Lines that are none are passed over.
func (w *wire) read() (*message, error) {
	for {
		line, err := w.reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("the server sent a line of more than %d bytes", maxLine)
		}
		if err != nil {
			return nil, err
		}
		if m, ok := parseMessage(string(line)); ok {
			return m, nil
		}
	}
}

// message is a line of the server. A line without a source has an empty from.
type message struct {
	ircmsg.Message
	from ircmsg.NUH
}

// parseMessage reports false for a line that is no message. A tag whose value is not valid
// costs a message its tags, never its text.
func parseMessage(line string) (*message, bool) {
	m, err := ircmsg.ParseLine(line)
	if errors.Is(err, ircmsg.ErrorInvalidTagContent) {
		_, line, _ = strings.Cut(line, " ")
		m, err = ircmsg.ParseLine(line)
	}
	if err != nil {
		return nil, false
	}
	from, _ := m.NUH() // fails without a source only
	return &message{Message: m, from: from}, true
}

// param returns the parameter at i, counted from 0, or "" when there are fewer.
func (m *message) param(i int) string {
	if i >= len(m.Params) {
		return ""
	}
	return m.Params[i]
}

// trailing returns the last parameter, or "" when there is none.
func (m *message) trailing() string { return m.param(max(len(m.Params)-1, 0)) }

// tag returns the value of a tag, or "" when it is missing.
func (m *message) tag(name string) string {
	_, value := m.GetTag(name)
	return value
}

// write sends lines, each of which must be one.
func (w *wire) write(lines ...string) error {
	for _, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") || len(l) > maxSentLine-len("\r\n") {
			return fmt.Errorf("a line of %d bytes cannot be sent: it is too long, or is several", len(l))
		}
	}
	return w.writeWithin(writeTimeout, lines...)
}

func (w *wire) writeWithin(within time.Duration, lines ...string) error {
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	if err := w.conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := w.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
	return err
}

// quit says goodbye, if that takes no time.
func (w *wire) quit() {
	_ = w.conn.SetWriteDeadline(time.Now().Add(quitTimeout)) // ends a write that hangs; one that fails is of a connection that is closed
	_ = w.writeWithin(quitTimeout, "QUIT :")                 // who is not there any more needs no goodbye
}

// close ends the connection, once.
func (w *wire) close() error {
	w.closeOnce.Do(func() {
		w.closeErr = w.conn.Close()
		close(w.closed)
	})
	return w.closeErr
}
