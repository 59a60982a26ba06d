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
	// maxLine bounds a received line: 8191 bytes of tags and 512 bytes of message, with a margin
	// for servers that send longer ones.
	maxLine = 16 << 10
	// maxSentLine bounds a line that is sent or relayed, including its end.
	maxSentLine = 512
	// writeTimeout and quitTimeout bound writing a line and writing the final QUIT.
	writeTimeout = 10 * time.Second
	quitTimeout  = time.Second
)

// wire reads and writes the lines of a connection.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader // owned by the reader: Dial, then Receive

	writeMu sync.Mutex // held while lines are written

	closeOnce sync.Once
	closed    chan struct{} // closed by close
	closeErr  error         // error of close
}

func newWire(c net.Conn) *wire {
	return &wire{conn: c, reader: bufio.NewReaderSize(c, maxLine), closed: make(chan struct{})}
}

// read returns the next message. It skips invalid lines.
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

// message is a line sent by the server. from is empty if the line has no source.
type message struct {
	ircmsg.Message
	from ircmsg.NUH
}

// parseMessage parses a line. It reports false for an invalid one. An invalid tag value drops the
// tags but not the message.
func parseMessage(line string) (*message, bool) {
	m, err := ircmsg.ParseLine(line)
	if errors.Is(err, ircmsg.ErrorInvalidTagContent) {
		_, line, _ = strings.Cut(line, " ")
		m, err = ircmsg.ParseLine(line)
	}
	if err != nil {
		return nil, false
	}
	from, _ := m.NUH() // fails only without a source
	return &message{Message: m, from: from}, true
}

// param returns the parameter at i, counted from 0, or "" when there are fewer.
func (m *message) param(i int) string {
	if i >= len(m.Params) {
		return ""
	}
	return m.Params[i]
}

// trailing returns the last parameter, or "".
func (m *message) trailing() string { return m.param(max(len(m.Params)-1, 0)) }

// tag returns the value of a tag, or "" when it is missing.
func (m *message) tag(name string) string {
	_, value := m.GetTag(name)
	return value
}

// write sends lines. Each must be a single line.
func (w *wire) write(lines ...string) error {
	for _, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") || len(l) > maxSentLine-len("\r\n") {
			return fmt.Errorf("cannot send a line of %d bytes: it is too long or contains a line break", len(l))
		}
	}
	return w.writeWithin(writeTimeout, lines...)
}

func (w *wire) writeWithin(timeout time.Duration, lines ...string) error {
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	if err := w.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := w.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
	return err
}

// quit sends QUIT if that is possible at once.
func (w *wire) quit() {
	_ = w.conn.SetWriteDeadline(time.Now().Add(quitTimeout)) // unblocks a pending write; fails only on a closed connection
	_ = w.writeWithin(quitTimeout, "QUIT :")                 // best effort
}

// close closes the connection once.
func (w *wire) close() error {
	w.closeOnce.Do(func() {
		w.closeErr = w.conn.Close()
		close(w.closed)
	})
	return w.closeErr
}
