package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
)

// FileStore keeps what is sent along with a message, where the agent can read it.
type FileStore interface {
	// Save reads a file to its end and returns its URI. The file is durable by then.
	// The same content under the same name has the same URI.
	Save(ctx context.Context, name string, r io.Reader) (uri string, err error)
}

const (
	// filesTimeout bounds how long the files of one message are fetched, and
	// stallTimeout how long a fetch brings nothing. What follows in the conversation
	// waits no longer than that.
	filesTimeout = 3 * time.Minute
	stallTimeout = 20 * time.Second
	// maxFiles of one message are handed on.
	maxFiles = 10
	// maxTextFile is how much of a text file is handed on as text, in bytes: all the
	// files of a message have to fit into it together with its words.
	maxTextFile = 64 << 10
	// DefaultMaxFileSize is the largest file that is kept, in bytes.
	DefaultMaxFileSize = 20 << 20
)

// attachments makes parts of files: a small text file is handed on as text, another
// one is kept, and of what cannot be kept its name and where it is.
type attachments struct {
	store   FileStore // nil: nothing is kept
	maxSize int64     // bytes of a file that is kept; 0: DefaultMaxFile
}

// parts are what an agent gets of a message.
func (a attachments) parts(ctx context.Context, text string, files []File) []mailroom.Part {
	var all []mailroom.Part
	if strings.TrimSpace(text) != "" {
		all = mailroom.Text(text)
	}
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()
	for i, f := range files {
		if i == maxFiles {
			return append(all, mailroom.Text(fmt.Sprintf("(%d more files are left out)", len(files)-i))...)
		}
		all = append(all, a.part(ctx, f))
	}
	return all
}

// part is what an agent gets of a file.
func (a attachments) part(ctx context.Context, f File) mailroom.Part {
	name := oneLine(f.Name)
	if name == "" {
		name = "unnamed"
	}
	content, why := readText(ctx, f)
	if why == "" {
		return mailroom.Text("File " + name + ":\n" + content)[0]
	}
	uri := sanitize(f.URI)
	if a.store != nil {
		var kept string
		if kept, why = a.save(ctx, name, f); why == "" {
			uri = kept
		}
	}
	if uri == "" {
		return mailroom.Text(fmt.Sprintf("(a file %s was sent, which is not here: %s)", name, why))[0]
	}
	return mailroom.Part{Type: "file", URI: uri, MimeType: sanitize(f.MimeType), Name: name}
}

// save keeps a file, or says why not.
func (a attachments) save(ctx context.Context, name string, f File) (uri, why string) {
	most := a.maxSize
	if most == 0 {
		most = DefaultMaxFileSize
	}
	if f.Size > most {
		return "", fmt.Sprintf("it has %d bytes, and up to %d are kept", f.Size, most)
	}
	content, why := openFile(ctx, f)
	if why != "" {
		return "", why
	}
	defer func() { _ = content.Close() }() // it was only read
	b := &limitedReader{r: content, left: most}
	uri, err := a.store.Save(ctx, name, b)
	switch {
	case b.left < 0:
		return "", fmt.Sprintf("it has more than %d bytes", most)
	case err != nil:
		return "", "it could not be fetched"
	}
	return uri, ""
}

// limitedReader is a file of which no more is read than may be.
type limitedReader struct {
	r    io.Reader
	left int64 // bytes; less than 0: there was more
}

// Read implements [io.Reader].
func (b *limitedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("it is too large")
	}
	return n, err
}

// readText reads a file that is text and not too large, or says why not.
func readText(ctx context.Context, f File) (text, why string) {
	switch {
	case !isText(f):
		return "", "it is no text"
	case f.Size > maxTextFile:
		return "", fmt.Sprintf("it has %d bytes, and %d are read", f.Size, maxTextFile)
	}
	r, why := openFile(ctx, f)
	if why != "" {
		return "", why
	}
	defer func() { _ = r.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(r, maxTextFile+1))
	switch {
	case err != nil:
		return "", "it could not be fetched"
	case len(raw) > maxTextFile:
		return "", fmt.Sprintf("it has more than %d bytes", maxTextFile)
	case !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0):
		return "", "it is no text"
	}
	return string(raw), ""
}

// openFile begins to fetch a file, or says why not.
func openFile(ctx context.Context, f File) (content io.ReadCloser, why string) {
	if f.Open == nil {
		return nil, "the platform does not hand it out"
	}
	ctx, cancel := context.WithCancel(ctx)
	idle := time.AfterFunc(stallTimeout, cancel)
	content, err := f.Open(ctx)
	if err != nil {
		idle.Stop()
		cancel()
		if errors.Is(err, errWithheld) {
			return nil, err.Error()
		}
		return nil, "it could not be fetched"
	}
	return &idleReader{content, idle, cancel}, ""
}

// idleReader is the content of a file. It fails when nothing comes for stallTimeout.
type idleReader struct {
	io.ReadCloser
	idle   *time.Timer
	cancel context.CancelFunc
}

// Read implements [io.Reader].
func (f *idleReader) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if n > 0 {
		f.idle.Reset(stallTimeout)
	}
	return n, err
}

// Close implements [io.Closer].
func (f *idleReader) Close() error {
	defer f.cancel()
	f.idle.Stop()
	return f.ReadCloser.Close()
}

// sanitize is text as it can be kept.
func sanitize(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "")
}

// isText reports whether a file calls itself text.
func isText(f File) bool {
	kind, _, err := mime.ParseMediaType(f.MimeType)
	if err == nil && kind != "application/octet-stream" {
		switch kind {
		case "application/json", "application/xml", "application/x-yaml", "application/yaml", "application/toml", "application/x-sh", "application/javascript":
			return true
		}
		return strings.HasPrefix(kind, "text/")
	}
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".txt", ".md", ".log", ".csv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".html", ".go", ".py", ".js", ".ts", ".sh", ".c", ".h", ".rs", ".java", ".sql", ".diff", ".patch", ".ini", ".conf":
		return true
	}
	return false
}
