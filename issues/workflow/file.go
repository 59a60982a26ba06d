package workflow

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"mailroom"
	"mailroom/internal/setting"
)

// File is a workflow that is read again when its file changes. It is safe for concurrent use.
type File struct {
	path string
	env  environment

	mu    sync.Mutex
	text  []byte    // as it was last parsed
	good  *Workflow // the last one without a fault; nil if there was none
	fault error     // of text
}

// NewFile returns the workflow of the file at path; [File.Load] reads it. The file may read the variables with these
// names, whose values get returns.
func NewFile(path string, names []string, get func(string) string) *File {
	return &File{path: path, env: listed(names, get)}
}

// NewPrompt returns the workflow of a file whose prompt alone is used. Its other keys are checked, and variables
// that they name are not read.
func NewPrompt(path string) *File {
	return &File{path: path, env: func(string) (string, bool) { return "(not read)", true }}
}

// Load reads the file if it changed, and returns the last workflow that could be read. If the file now cannot, the
// error says why, and the workflow is the one before; it is nil if there was none. A change takes effect at once or,
// if it is faulty, not in part.
func (f *File) Load() (*Workflow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := read(f.path)
	if err != nil {
		return f.good, err
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return f.good, f.fault
	}
	f.text = text
	w, err := parse(text, f.env)
	if f.fault = err; err != nil {
		f.fault = mailroom.Errorf(mailroom.CodeInvalid, "%s: %v", f.path, err)
		return f.good, f.fault
	}
	f.good = w
	return w, nil
}

// read returns the content of a regular file within the limit.
func read(path string) ([]byte, error) {
	file, err := setting.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the workflow: %w", err)
	}
	defer file.Close() // read only: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the workflow %s: %w", path, err)
	}
	if len(text) > maxFile {
		return nil, mailroom.Errorf(mailroom.CodeTooLarge, "%s has more than %d bytes", path, maxFile)
	}
	if len(text) == 0 { // many editors truncate a file before they write it
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%s is empty", path)
	}
	return text, nil
}
