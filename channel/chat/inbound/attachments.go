package inbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/internal/check"
	"mailroom/internal/display"
)

const (
	// filesTimeout bounds the download of all files of a message, and stallTimeout the time
	// without progress. Later messages of the conversation wait no longer than that.
	filesTimeout = 3 * time.Minute
	stallTimeout = 20 * time.Second
	// maxFiles is the number of files of one message that the agent gets.
	maxFiles = 10
	// maxTextFile is the size up to which a text file is inlined, in bytes. All parts of a
	// message share the limit of a message.
	maxTextFile = 64 << 10
)

// attachments converts files to message parts. It inlines a small text file, stores any other
// file, and describes one that it cannot store.
type attachments struct {
	store   chat.FileStore // nil: files are not stored
	maxSize int64          // largest stored file in bytes; 0: DefaultMaxFileSize
}

// parts returns the parts of a message.
func (a attachments) parts(ctx context.Context, text string, files []chat.File) []mailroom.Part {
	var all []mailroom.Part
	if strings.TrimSpace(text) != "" {
		all = mailroom.Text(text)
	}
	return append(all, a.fetch(ctx, files)...)
}

// fetch returns the parts of the files of a message.
func (a attachments) fetch(ctx context.Context, files []chat.File) (all []mailroom.Part) {
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

// part returns the part of one file.
func (a attachments) part(ctx context.Context, f chat.File) mailroom.Part {
	name := display.Name(f.Name)
	if name == "" {
		name = "unnamed"
	}
	content, why := readText(ctx, f)
	if why == "" {
		return mailroom.Text("File " + name + ":\n" + content)[0]
	}
	uri := sanitize(f.URI)
	if check.IsServerFile(uri) {
		uri = "" // no platform may name a file of this server
	}
	if a.store != nil {
		var kept string
		if kept, why = a.save(ctx, name, f); why == "" {
			uri = kept
		}
	}
	if uri == "" {
		return mailroom.Text(fmt.Sprintf("(file %s is not available: %s)", name, why))[0]
	}
	return mailroom.Part{Type: "file", URI: uri, MimeType: sanitize(f.MimeType), Name: name}
}

// save stores a file, or returns the reason why it cannot.
func (a attachments) save(ctx context.Context, name string, f chat.File) (uri, why string) {
	most := a.maxSize
	if most == 0 {
		most = chat.DefaultMaxFileSize
	}
	if f.Size > most {
		return "", fmt.Sprintf("%d bytes; the limit is %d", f.Size, most)
	}
	content, why := openFile(ctx, f)
	if why != "" {
		return "", why
	}
	defer func() { _ = content.Close() }() // read only
	b := &limitedReader{r: content, left: most}
	uri, err := a.store.Save(ctx, name, b)
	switch {
	case b.left < 0:
		return "", fmt.Sprintf("more than %d bytes", most)
	case b.failed:
		return "", "download failed"
	case err != nil:
		return "", "it could not be stored"
	}
	return uri, ""
}

// limitedReader fails after a number of bytes.
type limitedReader struct {
	r      io.Reader
	left   int64 // bytes; negative: there were more
	failed bool  // r has failed
}

// Read implements [io.Reader].
func (b *limitedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errors.New("file too large")
	}
	b.failed = err != nil && err != io.EOF
	return n, err
}

// readText reads a small text file, or returns the reason why it cannot.
func readText(ctx context.Context, f chat.File) (text, why string) {
	switch {
	case !isText(f):
		return "", "not a text file"
	case f.Size > maxTextFile:
		return "", fmt.Sprintf("%d bytes; text is read up to %d", f.Size, maxTextFile)
	}
	r, why := openFile(ctx, f)
	if why != "" {
		return "", why
	}
	defer func() { _ = r.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(r, maxTextFile+1))
	switch {
	case err != nil:
		return "", "download failed"
	case len(raw) > maxTextFile:
		return "", fmt.Sprintf("more than %d bytes", maxTextFile)
	case !utf8.Valid(raw) || strings.ContainsRune(string(raw), 0):
		return "", "not a text file"
	}
	return string(raw), ""
}

// openFile starts a download, or returns the reason why it cannot.
func openFile(ctx context.Context, f chat.File) (content io.ReadCloser, why string) {
	if f.Open == nil {
		return nil, "the platform offers no download"
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
		return nil, "download failed"
	}
	return &idleReader{content, idle, cancel}, ""
}

// idleReader is a download that fails after stallTimeout without data.
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

// errWithheld is the reason for skipping a download.
var errWithheld = errors.New("too many downloads in progress")

// withoutFetch returns the files with downloads that fail with errWithheld.
func withoutFetch(files []chat.File) []chat.File {
	files = slices.Clone(files)
	for i := range files {
		if files[i].Open != nil {
			files[i].Open = func(context.Context) (io.ReadCloser, error) { return nil, errWithheld }
		}
	}
	return files
}

// sanitize returns text without NUL and invalid UTF-8.
func sanitize(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "")
}

// isText reports whether a file is a text file by its type or name.
func isText(f chat.File) bool {
	kind, _, err := mime.ParseMediaType(f.MimeType)
	if err == nil && kind != "application/octet-stream" {
		switch kind {
		case "application/json", "application/xml", "application/x-yaml", "application/yaml", "application/toml",
			"application/x-sh", "application/javascript":
			return true
		}
		return strings.HasPrefix(kind, "text/")
	}
	switch strings.ToLower(path.Ext(f.Name)) {
	case ".txt", ".md", ".log", ".csv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".xml", ".html", ".go", ".py", ".js",
		".ts", ".sh", ".c", ".h", ".rs", ".java", ".sql", ".diff", ".patch", ".ini", ".conf":
		return true
	}
	return false
}
