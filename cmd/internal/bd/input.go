package bd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mailroom"
)

// maxInput is the most that is read of a text: a description, a comment.
const maxInput = 1 << 20 // bytes

// errLocked guards a rule of this package: input comes from people and pipes, and may
// never end, so a command reads all of it before it takes the tracker's lock.
var errLocked = errors.New("input is not read while the tracker is locked")

// readAll reads input to its end.
func (m *Main) readAll(from io.Reader, max int64) (string, error) {
	if m.locked {
		return "", errLocked
	}
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(from, max+1))
	if err == nil && n > max {
		err = mailroom.Errorf(mailroom.CodeTooLarge, "the input has more than %d bytes; shorten it", max)
	}
	return text.String(), err
}

// input reads a text from stdin.
func (m *Main) input(what string) (string, error) {
	text, err := m.readAll(m.Stdin, maxInput)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimRight(text, "\n"), nil
}

// inputFile reads a text from a file, or from stdin if it is called "-".
func (m *Main) inputFile(name, what string) (string, error) {
	if name == "-" {
		return m.input(what)
	}
	file, err := os.Open(m.at(name))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	defer file.Close() // it is only read: nothing can be lost
	text, err := m.readAll(file, maxInput)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimRight(text, "\n"), nil
}
