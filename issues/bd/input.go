package bd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"mailroom"
	"mailroom/internal/setting"
)

// maxInput bounds a text such as a description or a comment.
const maxInput = 1 << 20 // bytes

// errLocked enforces a rule: a command reads all input before it takes the tracker's lock, because
// input may block forever.
var errLocked = errors.New("cannot read input while the tracker is locked")

// readAll reads input to its end.
func (m *Main) readAll(from io.Reader, max int64) (string, error) {
	if m.locked {
		return "", errLocked
	}
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(from, max+1))
	if err == nil && n > max {
		err = mailroom.Errorf(mailroom.CodeTooLarge, "the input exceeds %d bytes; shorten it", max)
	}
	return text.String(), err
}

// input reads a text from stdin. what is the name of the text in errors.
func (m *Main) input(what string) (string, error) {
	text, err := m.readAll(m.Stdin, maxInput)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimRight(text, "\n"), nil
}

// inputFile reads a text from a file, or from stdin if name is "-". what is the name of the text in errors.
func (m *Main) inputFile(name, what string) (string, error) {
	if name == "-" {
		return m.input(what)
	}
	file, err := setting.OpenFile(m.absPath(name))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	defer file.Close() // read only: nothing can be lost
	text, err := m.readAll(file, maxInput)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	return strings.TrimRight(text, "\n"), nil
}
